"""A session as an ordinary application has it: the server's own defaults, explicit transactions, nothing pinned by us.

The sandbox's applications speak through this and never through ``Session``: a rollout must be harmless to sessions that
run under REPEATABLE READ, with the default sql_mode and lock waits. Only the time zone is set, as drivers do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from orchestrator.mysql.driver import driver_errors
from orchestrator.settings import ServerSettings

Row = tuple[Any, ...]
# More than innodb_lock_wait_timeout's default of 50 s: the server ends a wait, not the driver.
_ANSWER_S = 75.0


class ApplicationSession:
    """One connection with explicit transactions. All errors are ``ServerError``; after one that broke the connection
    ``is_open`` is False and the next statement opens a new one."""

    def __init__(self, settings: ServerSettings, name: str, schema: str = "") -> None:
        self._settings = settings
        self._name = name
        self._schema = schema
        self._connection: Any = None

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def open(self) -> None:
        """Connect when there is no connection, so that the next statement's wait is the statement's alone."""
        if self._connection is None:
            with driver_errors(self.close):
                self._connection = self._connect()

    def query(self, sql: str, args: Mapping[str, object] | Sequence[object] | None = None) -> list[Row]:
        """The rows of one statement, read whole."""
        return self._run(sql, args)[0]

    def execute(self, sql: str, args: Mapping[str, object] | Sequence[object] | None = None) -> int:
        """Run one statement; the number of rows that it matched (an UPDATE that changes nothing counts its rows)."""
        return self._run(sql, args)[1]

    def begin(self) -> None:
        self._run("START TRANSACTION", None)

    def commit(self) -> None:
        self._run("COMMIT", None)

    def rollback(self) -> None:
        """Roll back. Never raises: a connection that cannot is closed, and the server rolls back."""
        try:
            if self._connection is not None:
                self._connection.rollback()
        except (pymysql.err.MySQLError, OSError):
            self.close()

    def close(self) -> None:
        """Close at once, without a farewell that could block."""
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection._force_close()
            self._connection = None

    def _run(self, sql: str, args: Mapping[str, object] | Sequence[object] | None) -> tuple[list[Row], int]:
        self.open()
        with driver_errors(self.close), self._connection.cursor() as cursor:
            count = int(cursor.execute(sql, args))
            return list(cursor.fetchall()), count

    def _connect(self) -> Any:
        s = self._settings
        where: dict[str, Any] = {"unix_socket": s.socket} if s.socket else {"host": s.host, "port": s.port}
        return pymysql.connect(
            user=s.user,
            password=s.password.reveal(),
            database=self._schema or None,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=5,
            read_timeout=_ANSWER_S,
            write_timeout=_ANSWER_S,
            client_flag=CLIENT.FOUND_ROWS,
            init_command="SET time_zone = '+00:00'",
            program_name=f"application {self._name}",
            **where,
        )
