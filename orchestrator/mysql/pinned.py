"""What a connection must be before anything is said on it: pinned in all that changes the meaning of a statement, and
to the server that answered before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pymysql

from orchestrator.errors import AnotherServer, ConfigurationError
from orchestrator.settings import ServerSettings

# Division by zero is NULL here as in the triggers, which run under no mode at all: what they call unmapped, we do too.
SQL_MODE = "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"
_PINS: dict[str, str | int] = {
    "sql_mode": SQL_MODE,
    "time_zone": "+00:00",
    "lock_wait_timeout": 1,
    "innodb_lock_wait_timeout": 2,
    "wait_timeout": 20,
    "transaction_isolation": "READ-COMMITTED",
    "autocommit": 1,
    "foreign_key_checks": 1,
    "unique_checks": 1,
    "group_concat_max_len": 1_048_576,
    "show_gipk_in_create_table_and_information_schema": 1,
    "sql_safe_updates": 0,
    "sql_select_limit": 18_446_744_073_709_551_615,
    "max_execution_time": 0,
    "explain_format": "TRADITIONAL",
}
# Not known to every version from 8.0.28 on, the newest first; left out where the server says 1193.
_OPTIONAL = ("explain_format", "show_gipk_in_create_table_and_information_schema")


def pin_all(connection: Any, settings: ServerSettings, extra: Mapping[str, str | int]) -> str:
    """Pin the connection, ``extra`` too; gives the server's uuid, and notes it if it is the first. Raises
    ConfigurationError for a server, or a way to it, that cannot be used; what the driver raises."""
    _refuse_other_kinds(connection, settings)
    pins = _PINS | dict(extra)
    with connection.cursor() as cursor:
        _pin(cursor, pins)
        cursor.execute(
            "SELECT @@sql_mode, @@time_zone, @@lock_wait_timeout, @@character_set_connection, @@server_uuid,"
            " CONNECTION_ID()"
        )
        mode, zone, wait, charset, uuid, connection_id = cursor.fetchone()
    wanted = {*str(pins["sql_mode"]).split(",")} - {""}
    if {*mode.split(",")} - {""} != wanted or zone != "+00:00" or charset != "utf8mb4" or int(wait) < 1:
        raise ConfigurationError(
            f"the session has sql_mode {mode}, time zone {zone}, character set {charset}",
            "a session that takes the settings it is given",
            "look for a proxy between rollout and the server that changes session settings",
        )
    _refuse_a_proxy(settings, connection.thread_id(), int(connection_id))
    if settings.one is not None:
        settings.one.before(str(uuid))
    return str(uuid)


def _refuse_other_kinds(connection: Any, settings: ServerSettings) -> None:
    """MariaDB greets with its name, and would refuse some pins in words that say nothing of that."""
    greeting = str(connection.get_server_info())
    if "mariadb" in greeting.lower():
        raise ConfigurationError(
            f"{settings.address} is MariaDB ({greeting.removeprefix('5.5.5-')})",
            "MySQL 8.0.28 or newer",
            "point rollout at a MySQL server; MariaDB is not supported",
        )


def _pin(cursor: Any, pins: Mapping[str, str | int]) -> None:
    for unknown in range(len(_OPTIONAL) + 1):
        known = {k: v for k, v in pins.items() if k not in _OPTIONAL[:unknown]}
        try:
            # All of them in one round trip, or none.
            cursor.execute("SET " + ", ".join(f"SESSION {k} = %s" for k in known), tuple(known.values()))
            return
        except pymysql.err.MySQLError as error:
            if error.args[0] not in (1193, 1238) or unknown == len(_OPTIONAL):
                raise


def _refuse_a_proxy(settings: ServerSettings, greeted_as: int, connection_id: int) -> None:
    """What holds on one connection (a named lock, the watch over an ALTER, its KILL) would be said on another one."""
    # The greeting has room for 32 bits of it.
    if connection_id % 2**32 != greeted_as:
        raise ConfigurationError(
            f"a proxy at {settings.address} shares connections: it greeted as connection {greeted_as}, and statements"
            f" run on {connection_id}",
            "connections of our own: named locks, the watch over an ALTER and its KILL hang on them",
            "point rollout at the primary itself",
        )


def refuse_another(settings: ServerSettings, uuid: str) -> None:
    """A failover behind the address, or a proxy that sends some sessions elsewhere. Raises AnotherServer."""
    before = settings.one.before(uuid) if settings.one is not None else uuid
    if before != uuid:
        raise AnotherServer(
            f"another server answers at {settings.address}: {uuid}; {before} answered this command before",
            "one server for the whole command",
            "after a failover: rollout status; behind a proxy that spreads sessions: name the primary itself",
        )
