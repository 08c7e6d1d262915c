"""What a tool that fills a copy of a table meets and leaves on the server: settings that would lose rows, its tables,
its statements, its lock.

Tables are found by their exact names. The log table carries our mark in its comment, so that what a killed run left is
told from somebody else's; a table under the old one's name is data, unless its comment says that it is a stand-in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct

from orchestrator.model.contract import TableName
from orchestrator.model.copying import CopyTables
from orchestrator.model.facts import Shape
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.quote import literal, name, table, text
from orchestrator.mysql.session import Session

_MARK = "rollout:"
# gh-ost puts up to five characters around the name, and cuts at 64: two long names would fall together.
_LONGEST_NAME_BYTES = 59
_SPEAKS_TLS = (
    "SELECT VALUE FROM performance_schema.tls_channel_status WHERE CHANNEL = 'mysql_main' AND PROPERTY = 'Enabled'"
)
_SETTINGS = (
    "SELECT @@GLOBAL.binlog_format, @@GLOBAL.binlog_row_image, @@GLOBAL.binlog_row_value_options,"
    " @@GLOBAL.binlog_transaction_compression"
)
_WANTED = {
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_value_options": "",
    "binlog_transaction_compression": "OFF",
    "sql_log_bin": "ON",
}
_OTHERWISE = " OR ".join(f"(v.VARIABLE_NAME = {text(n)} AND v.VARIABLE_VALUE <> {text(w)})" for n, w in _WANTED.items())
_SESSIONS = (
    "SELECT t.PROCESSLIST_ID, t.PROCESSLIST_USER, t.PROCESSLIST_HOST, v.VARIABLE_NAME, v.VARIABLE_VALUE"
    " FROM performance_schema.variables_by_thread v JOIN performance_schema.threads t USING (THREAD_ID)"
    " WHERE t.PROCESSLIST_ID IS NOT NULL AND t.PROCESSLIST_ID <> CONNECTION_ID() AND t.TYPE = 'FOREGROUND'"
    f" AND ({_OTHERWISE})"
    " ORDER BY 1 LIMIT 5"
)
_TABLES = (
    "SELECT TABLE_NAME, TABLE_COMMENT, COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH + INDEX_LENGTH, 0), CREATE_TIME"
    " FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME IN (%s, %s, %s, %s)"
)
_RUNNER = (
    "SELECT t.PROCESSLIST_ID, t.PROCESSLIST_USER, t.PROCESSLIST_HOST FROM performance_schema.threads t"
    " WHERE t.PROCESSLIST_ID = IS_USED_LOCK(%s)"
)
_STATEMENTS = (
    "SELECT ID FROM performance_schema.processlist WHERE ID <> CONNECTION_ID()"
    " AND INFO LIKE '%%/* gh-ost */%%'"
    " AND (LOCATE(%s, INFO) > 0 OR LOCATE(%s, INFO) > 0 OR LOCATE(%s, INFO) > 0)"
)
# The session that swaps idles while it holds the lock, so it is known by the named lock that it took before.
_BY_IT = (
    "(t.PROCESSLIST_INFO LIKE '%%/* gh-ost */%%' OR EXISTS (SELECT 1 FROM performance_schema.metadata_locks u"
    " WHERE u.OWNER_THREAD_ID = m.OWNER_THREAD_ID AND u.OBJECT_TYPE = 'USER LEVEL LOCK'"
    " AND u.OBJECT_NAME = CONCAT('gh-ost.', t.PROCESSLIST_ID, '.lock')))"
)
_SWAPPING = (
    f"SELECT t.PROCESSLIST_ID, m.LOCK_STATUS, m.LOCK_TYPE, {_BY_IT} FROM performance_schema.metadata_locks m"
    " JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID"
    " WHERE m.OBJECT_TYPE = 'TABLE' AND m.OBJECT_SCHEMA = %s AND m.OBJECT_NAME = %s"
    " AND (m.LOCK_TYPE IN ('SHARED_NO_READ_WRITE', 'EXCLUSIVE') OR m.LOCK_STATUS = 'PENDING')"
)
_RENAMING = (
    "SELECT ID FROM performance_schema.processlist WHERE INFO LIKE 'rename /* gh-ost */%%' AND LOCATE(%s, INFO) > 0"
    " AND STATE LIKE 'Waiting%%'"
)


_LOCK_MARK = "SELECT value FROM {log} WHERE id = 2 AND value LIKE 'AllEventsUpToLockProcessed%'"


class Kind(Enum):
    NEW = "the copy"
    LOG = "its log"
    CHECKPOINTS = "its checkpoints"
    SENTRY = "a stand-in without data"
    OLD = "the old table with its data"


class Left(Struct, frozen=True):
    """One table that is there beside the real one. ``mark`` is ours in its comment, "" when nobody marked it."""

    table: TableName
    kind: Kind
    mark: str
    rows_estimate: int
    size_bytes: int
    created_at: object

    def __str__(self) -> str:
        return f"{self.table} ({self.kind.value}, about {self.rows_estimate} rows, since {self.created_at})"


class Swapping(Struct, frozen=True):
    """The tool at the table. ``locker``: the session that locks it, None where only a rename is at it. ``holds``: it
    has its lock, else it waits for it. ``waited_for``: others want the table meanwhile."""

    locker: int | None
    holds: bool
    waited_for: bool


class ServerWay(Struct, frozen=True):
    """How a tool reaches the server over TCP, and what it may use there."""

    port: int
    version: tuple[int, int, int]
    gtid: bool
    encrypted: bool


def read_way(session: Session) -> ServerWay:
    """Raises ServerError."""
    row = session.one("SELECT @@port, VERSION(), @@GLOBAL.gtid_mode")
    cipher = session.one("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    encrypted = bool(cipher and cipher[1])
    if session.settings.socket and session.settings.tls.mode != "DISABLED":
        encrypted = session.value(_SPEAKS_TLS) == "Yes"
    assert row is not None
    port, version, gtid = row
    major, minor, patch = (
        int("".join(c for c in part if c.isdecimal()) or 0) for part in version.split("-")[0].split(".")
    )
    return ServerWay(int(port), (major, minor, patch), gtid == "ON", encrypted)


def refusals(session: Session, shape: Shape) -> Iterator[str]:
    """Every reason why no copy of this table can be filled without losing something. Raises ServerError."""
    for _, key in shape.referenced_by:
        yield f"the foreign key {key.name} points to it: it would go on pointing to the old table"
    for key in shape.foreign_keys:
        yield f"it has the foreign key {key.name}, which the copy would not have"
    for trigger in shape.triggers:
        yield f"it has the trigger {trigger.name}, which the copy would not have"
    nullable = {c.name for c in shape.columns if c.null}
    if not any(
        i.unique and all(p.expression is None and p.prefix is None and p.column not in nullable for p in i.parts)
        for i in shape.indexes
    ):
        yield "it has no unique key without NULLs, by which a copy could be filled"
    if len(shape.table.name.encode()) > _LONGEST_NAME_BYTES:
        yield f"its name has more than {_LONGEST_NAME_BYTES} bytes, and the copies' names are longer"
    row = session.one(_SETTINGS)
    for variable, value in zip(_WANTED, row or (), strict=False):
        told = {"0": "OFF", "1": "ON"}.get(str(value), str(value))
        if told.upper() != _WANTED[variable]:
            yield f"{variable} is {told!r} and must be {_WANTED[variable]!r}: changes would be lost"
    for id, user, host, variable, value in session.query(_SESSIONS):
        yield f"session {id} ({user}@{host}) has {variable} {value!r}: what it writes would be lost"


def swapped(left: Sequence[Left]) -> bool:
    """Whether the old table is there and no copy any more."""
    kinds = {x.kind for x in left}
    return Kind.OLD in kinds and Kind.NEW not in kinds


def read_left(session: Session, of: TableName, names: CopyTables) -> tuple[Left, ...]:
    """The tables under the tool's names that are there now. Raises ServerError."""
    wanted = (names.new, names.log, names.checkpoints, names.old)
    found = []
    for called, comment, rows, size, created in session.query(_TABLES, (of.schema, *wanted)):
        kind = dict(zip(wanted, (Kind.NEW, Kind.LOG, Kind.CHECKPOINTS, Kind.OLD), strict=True))[called]
        if kind is Kind.OLD and comment == names.sentry:
            kind = Kind.SENTRY
        mark = comment.removeprefix(_MARK) if kind in (Kind.LOG, Kind.CHECKPOINTS) and comment.startswith(_MARK) else ""
        found.append(Left(TableName(of.schema, called), kind, mark, int(rows), int(size), created))
    return tuple(found)


def put_mark(session: Session, of: TableName, called: str, mark: str) -> bool:
    """Whether the table took our mark; one that is not there does not. Raises ServerError."""
    try:
        session.execute(f"ALTER TABLE {table(TableName(of.schema, called))} COMMENT = {literal(_MARK + mark)}")
    except ServerError as error:
        if error.number in (1146, 1205):
            return False
        raise
    return True


def checkpoints(session: Session, of: TableName, names: CopyTables) -> int:
    """How many checkpoints there are to go on from. Raises ServerError."""
    return int(session.value(f"SELECT COUNT(*) FROM {table(TableName(of.schema, names.checkpoints))}"))


def read_runner(session: Session, lock: str) -> str:
    """Who runs the tool on this table now, "" when nobody does. Raises ServerError."""
    row = session.one(_RUNNER, (lock,)) if lock else None
    return f"session {row[0]} of {row[1]}@{row[2]}" if row is not None else ""


def end_statements(session: Session, of: TableName, names: CopyTables, *, kill: bool) -> int:
    """How many statements of the tool on these tables the server still runs; with ``kill`` each is asked to end.
    Raises ServerError."""
    rows = session.query(_STATEMENTS, (name(of.name), name(names.new), name(names.old)))
    for (id,) in rows if kill else ():
        kill_query(session, int(id))
    return len(rows)


def swapping(session: Session, of: TableName) -> Swapping | None:
    """None when no session of the tool has, or wants, the table for itself now. Raises ServerError."""
    rows = session.query(_SWAPPING, (of.schema, of.name))
    its = [(int(id), status == "GRANTED", kind) for id, status, kind, by_it in rows if by_it]
    if not its:
        return None
    waited_for = any(status == "PENDING" and not by_it for _, status, _, by_it in rows)
    locker, holds = next(((id, holds) for id, holds, kind in its if kind != "EXCLUSIVE"), (None, False))
    return Swapping(locker, holds, waited_for)


def lock_mark(session: Session, log: TableName) -> str:
    """What the tool wrote into its log when it last had its lock, and waits for in the binary log; "" when it never had
    one. Raises ServerError."""
    return str(session.value(_LOCK_MARK.format(log=table(log))) or "")


def end_rename(session: Session, of: TableName) -> bool:
    """Whether a rename of the table by the tool waited for a lock somewhere; it is asked to end. Raises ServerError."""
    id = session.value(_RENAMING, (table(of),))
    if id is not None:
        kill_query(session, int(id))
    return id is not None


def kill_query(session: Session, id: int) -> None:
    """The statement of that session ends; one that is gone is fine. Raises ServerError for a missing right."""
    _kill(session, f"KILL QUERY {id}")


def kill_session(session: Session, id: int) -> None:
    """The session ends and with it every lock that it holds, otherwise as ``kill_query``."""
    _kill(session, f"KILL {id}")


def _kill(session: Session, statement: str) -> None:
    try:
        session.execute(statement)
    except ServerError as error:
        if error.is_privilege and error.number != 1095:
            raise


def drop(session: Session, of: TableName) -> None:
    """Raises ServerError."""
    session.execute(f"DROP TABLE IF EXISTS {table(of)}")


def dropping(tables: Sequence[TableName]) -> str:
    """What a person would type to drop them."""
    return "; ".join(f"DROP TABLE {table(of)}" for of in tables)


def keeping(of: TableName) -> str:
    """What a person would type to keep the old table under another name."""
    kept = TableName(of.schema, f"{of.name[:_LONGEST_NAME_BYTES]}_kept")
    return f"RENAME TABLE {table(of)} TO {table(kept)}"


def shrink(session: Session, of: TableName, rows: int) -> int:
    """Delete up to ``rows`` rows of a table that is going to be dropped; how many went. Raises ServerError."""
    return session.execute(f"DELETE FROM {table(of)} LIMIT {int(rows)}")
