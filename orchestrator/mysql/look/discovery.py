"""Which replicas there are, and where. An empty list is believed only when the right to see one was there."""

from __future__ import annotations

from msgspec import Struct

from orchestrator.model.copying import READER_IDS
from orchestrator.model.runbook import ReplicaPolicy
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session

_REPLICAS = "SHOW REPLICAS"
_DUMPS = "SELECT HOST FROM performance_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%'"
_GROUP = (
    "SELECT MEMBER_HOST, MEMBER_PORT, MEMBER_ID FROM performance_schema.replication_group_members"
    " WHERE MEMBER_ID NOT IN ('', @@server_uuid)"
)
DEFAULT_PORT = 3306


class Address(Struct, frozen=True):
    """Where a replica may be. ``uuid`` is "" when nobody told it; ``hosts`` are tried in order, none: nobody knows."""

    name: str
    hosts: tuple[str, ...]
    port: int
    uuid: str = ""


def find_replicas(session: Session, policy: ReplicaPolicy) -> tuple[Address, ...]:
    """The replicas that the policy names or the primary lists. Raises ServerError, also for a missing privilege.

    ``discover`` needs REPLICATION SLAVE (without it the server refuses) and SELECT on performance_schema. A replica
    without report_host is looked for where the primary's dump threads come from.
    """
    match policy.kind:
        case "none":
            return ()
        case "list":
            return tuple(_named(host) for host in policy.hosts)
        case _:
            return _discovered(session)


def _named(written: str) -> Address:
    host, port = split_address(written)
    return Address(f"{host}:{port}", (host,), port)


def split_address(written: str) -> tuple[str, int]:
    """``host:port``, ``host``, ``[::1]:3306``."""
    host, colon, port = written.rpartition(":")
    if colon and port.isdecimal() and (":" not in host or host.startswith("[")):
        return host.strip("[]"), int(port)
    return written.strip("[]"), DEFAULT_PORT


def _discovered(session: Session) -> tuple[Address, ...]:
    found: list[Address] = []
    dumps: tuple[str, ...] | None = None
    for server_id, host, port, _, uuid in (row[:5] for row in session.query(_REPLICAS)):
        if int(server_id) in READER_IDS:
            continue
        port = int(port) or DEFAULT_PORT
        if host:
            found.append(Address(f"{host}:{port}", (host,), port, uuid))
            continue
        if dumps is None:
            dumps = _dump_hosts(session)
        found.append(Address(f"server-{server_id}", dumps, port, uuid))
    listed = {a.uuid for a in found}
    for host, port, uuid in session.query(_GROUP):
        if uuid not in listed:
            found.append(Address(f"{host}:{port}", (host,), int(port), uuid))
    return tuple(sorted(found, key=lambda a: a.name))


def _dump_hosts(session: Session) -> tuple[str, ...]:
    """Where dump threads come from. A hint only: without PROCESS this is silently empty."""
    try:
        rows = session.query(_DUMPS)
    except ServerError as error:
        if error.is_privilege:
            return ()
        raise
    return tuple(dict.fromkeys(split_address(str(host))[0] for (host,) in rows if host))
