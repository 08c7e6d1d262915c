"""One session with a server, with everything that changes the meaning of a statement pinned and read back.

Sessions never leave a transaction open between two calls: what must be atomic is sent as one packet. So a session that
the server closed in the meantime (``wait_timeout`` is short on purpose) can be opened again without asking anybody.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pymysql
from msgspec import Struct
from pymysql.constants import CLIENT

from orchestrator.errors import ConfigurationError, ServerUnreachable
from orchestrator.mysql import tls
from orchestrator.mysql.driver import driver_errors
from orchestrator.mysql.errno import LOGIN, SERVER_LOST, ServerError
from orchestrator.mysql.pinned import pin_all, refuse_another
from orchestrator.mysql.sending import SendingConnection
from orchestrator.settings import ServerSettings

Row = tuple[Any, ...]
_UNSIGNED_FLAG = 32
_BINARY_CHARSET = 63
_IDLE_S = 5.0
# read_only stops no privileged account; after this the session's transactions and DDL end with 1792 where it is on.
_HEED_ROLE = "SET SESSION transaction_read_only = @@GLOBAL.read_only"


def program_name(role: str) -> str:
    """``rollout ROLE PID@HOST``: what each session of ours tells the server of itself, so that a successor can end the
    sessions of a process that only seems to be dead."""
    return f"rollout {role} {os.getpid()}@{socket.gethostname()}"


class ResultField(Struct, frozen=True):
    """One column of a result as the protocol describes it; ``length`` is in bytes of the session's character set."""

    type_code: int
    length: int
    decimals: int
    unsigned: bool
    binary: bool


class Session:
    """A pinned session. All errors are ``ServerError``; opening raises ``ServerUnreachable``, and ConfigurationError
    for a server, or a way to it, that cannot be used. ``sends``: the one file of this machine that LOAD DATA LOCAL may
    send.

    ``roams``: it goes on with another server that answers at the address: one that only looks, and those of the state
    and the flags, which fail over with the data. ``reopens`` False: only ``ensure`` opens it again, so that nothing is
    said on a connection younger than the last look at whether we may.
    """

    def __init__(
        self,
        settings: ServerSettings,
        *,
        role: str = "main",
        timeout_s: float = 30.0,
        sends: str = "",
        reopens: bool = True,
        roams: bool = False,
    ) -> None:
        self._settings = settings
        self._role = role
        self._timeout_s = timeout_s
        self._connection: Any = None
        self._used_at = 0.0
        self._extra: dict[str, str | int] = {}
        self._sends = sends
        self._reopens = reopens
        self._roams = roams
        self._open()

    @property
    def settings(self) -> ServerSettings:
        return self._settings

    @property
    def connection_id(self) -> int:
        return int(self._connection.thread_id())

    @property
    def connected(self) -> bool:
        """False when the connection was lost and no statement was said since."""
        return self._connection is not None

    def ensure(self) -> None:
        """Open it again when the server closed it meanwhile. Raises ServerUnreachable."""
        self._opened()

    def heed_role(self) -> None:
        """Whatever is said next is refused (1792) when the server is read-only, also to a privileged account."""
        self.execute(_HEED_ROLE)

    def pin(self, variable: str, value: str | int) -> None:
        """Set a session variable now and after every reconnect."""
        self._extra[variable] = value
        self.execute(f"SET SESSION {variable} = %s", (value,))

    def query(self, sql: str, args: Sequence[object] = ()) -> list[Row]:
        """Rows of one statement, read whole. Reconnects first when the session has idled."""
        with self._errors(), self._ready().cursor() as cursor:
            cursor.execute(sql, tuple(args) if args else None)
            return list(cursor.fetchall())

    def one(self, sql: str, args: Sequence[object] = ()) -> Row | None:
        rows = self.query(sql, args)
        return rows[0] if rows else None

    def value(self, sql: str, args: Sequence[object] = ()) -> Any:
        """The first column of the first row, or None."""
        row = self.one(sql, args)
        return row[0] if row else None

    def execute(self, sql: str, args: Sequence[object] = ()) -> int:
        """Run one statement; the number of rows that it changed."""
        with self._errors(), self._ready().cursor() as cursor:
            return int(cursor.execute(sql, tuple(args) if args else None))

    def describe(self, sql: str) -> tuple[tuple[str, int, int, int], ...]:
        """(name, type code, length, decimals) of each column that a SELECT would give. Reads no row when it says
        LIMIT 0."""
        with self._errors(), self._ready().cursor() as cursor:
            cursor.execute(sql)
            return tuple((d[0], d[1], d[4] or 0, d[5] or 0) for d in cursor.description or ())

    def fields(self, sql: str) -> tuple[ResultField, ...]:
        """As ``describe``, with what tells text from bytes and signed from unsigned."""
        with self._errors(), self._ready().cursor() as cursor:
            cursor.execute(sql)
            described = cursor._result.fields if cursor._result else ()
            return tuple(
                ResultField(
                    f.type_code, f.length, f.scale, bool(f.flags & _UNSIGNED_FLAG), f.charsetnr == _BINARY_CHARSET
                )
                for f in described or ()
            )

    def mogrify(self, sql: str, args: Sequence[object]) -> str:
        """The statement with its values written in by the driver, for a packet."""
        return str(self._ready().cursor().mogrify(sql, tuple(args)))

    def packet(self, statements: Sequence[str]) -> list[list[Row]]:
        """Send all statements as one packet; the rows of each (empty for those that give none).

        On any error the transaction that the packet may have left open is rolled back before the error is raised; when
        even that cannot be done the session is closed, which rolls it back on the server. One that begins a transaction
        heeds the server's role.
        """
        results: list[list[Row]] = []
        heeding = (_HEED_ROLE,) if statements[0] == "START TRANSACTION" else ()
        try:
            with self._errors(), self._ready().cursor() as cursor:
                cursor.execute(";\n".join((*heeding, *statements)))
                if heeding:
                    cursor.nextset()
                results.append(list(cursor.fetchall()))
                while cursor.nextset():
                    results.append(list(cursor.fetchall()))
        except ServerError:
            self._roll_back()
            raise
        return results

    def close(self) -> None:
        """Close at once, without a farewell that could block."""
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection._force_close()
            self._connection = None

    def _roll_back(self) -> None:
        try:
            if self._connection is not None:
                self._connection.rollback()
        except pymysql.err.MySQLError:
            self.close()

    def _ready(self) -> Any:
        if self._reopens:
            return self._opened()
        if self._connection is None:
            raise ServerError(SERVER_LOST, "the session was lost")
        return self._connection

    def _opened(self) -> Any:
        if self._connection is not None and time.monotonic() - self._used_at > _IDLE_S:
            try:
                self._connection.ping(reconnect=False)
            except pymysql.err.MySQLError:
                self.close()
        if self._connection is None:
            self._open()
        self._used_at = time.monotonic()
        return self._connection

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with driver_errors(self.close):
                yield
        finally:
            self._used_at = time.monotonic()

    def _open(self) -> None:
        s = self._settings
        try:
            try:
                self._connection = self._connected(tls.options(s.tls, bool(s.socket)))
            except pymysql.err.OperationalError as error:
                # Who named an authority wants to know whom he speaks to.
                if s.tls.mode != "PREFERRED" or s.tls.verifies or error.args[0] != tls.TLS_MISSING:
                    raise
                self._connection = self._connected({"ssl_disabled": True})
            self._used_at = time.monotonic()
            uuid = pin_all(self._connection, s, self._extra)
            if not self._roams:
                refuse_another(s, uuid)
        except (pymysql.err.MySQLError, OSError) as error:
            self.close()
            raise _unreachable(s, error) from None
        except ConfigurationError:
            self.close()
            raise

    def _connected(self, encryption: dict[str, Any]) -> Any:
        s = self._settings
        where = {"unix_socket": s.socket} if s.socket else {"host": s.host, "port": s.port}
        connect = partial(SendingConnection, sends=self._sends) if self._sends else pymysql.connect
        return connect(
            user=s.user,
            # The driver would write text as latin1; the server's own client writes it as it was typed.
            password=s.password.reveal().encode(),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=min(5.0, self._timeout_s),
            read_timeout=self._timeout_s,
            write_timeout=self._timeout_s,
            client_flag=CLIENT.MULTI_STATEMENTS,
            program_name=program_name(self._role),
            **tls.login(s.tls),
            **where,
            **encryption,
        )


def _unreachable(settings: ServerSettings, error: Exception) -> ServerUnreachable:
    """Says what failed without repeating what the driver was given."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    if number in LOGIN:
        return ServerUnreachable(
            f"access denied: {settings.address} refused user {settings.user!r} ({number})",
            "an account and password that the server accepts",
            "put them into the group [rollout] of an option file, or into ROLLOUT_USER and ROLLOUT_PASSWORD",
        )
    if number == tls.UNENCRYPTED:
        return ServerUnreachable(
            f"no session with {settings.address}: {error.args[1]}",
            "an encrypted session, a Unix socket, or the server's public key",
            "use --ssl-mode REQUIRED, or --socket; without either, --server-public-key-path FILE, or"
            " --get-server-public-key, which believes whoever answers",
        )
    told = str(error.args[1]) if len(error.args) > 1 else type(error).__name__
    if isinstance(error, OSError) and error.filename:
        told = f"{error.filename}: {told}"
    return ServerUnreachable(
        f"no session with {settings.address}: {told}",
        "a MySQL server that answers there",
        "check --host, --port or --socket, and that the server runs",
    )
