"""Who holds, or waits for, a metadata lock that an ALTER of a family of tables must have; and which statements of ours
are still on the server.

Every kind of blocker looks different (measured): an open transaction, LOCK TABLES, FLUSH TABLES WITH READ LOCK, a
backup lock, HANDLER, a prepared XA transaction whose session is gone and that has no thread row at all. So all joins
are LEFT JOINs, and nothing is filtered by what a row lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from orchestrator.model.contract import TableName
from orchestrator.model.facts import BlockerKind, Holder
from orchestrator.mysql.errno import CANNOT_CONVERT, ServerError
from orchestrator.mysql.session import Session

_OURS = "rollout "
# From the strongest to the weakest: one session is named once for a table, by the lock that blocks most.
_STRENGTH = (
    "EXCLUSIVE",
    "SHARED_NO_READ_WRITE",
    "SHARED_NO_WRITE",
    "SHARED_READ_ONLY",
    "SHARED_UPGRADABLE",
    "SHARED_WRITE",
    "SHARED_WRITE_LOW_PRIO",
    "SHARED_READ",
    "SHARED_HIGH_PRIO",
    "SHARED",
)
_DDL_WORDS = ("ALTER", "CREATE", "DROP", "RENAME", "TRUNCATE", "OPTIMIZE", "ANALYZE", "REPAIR", "CHECK")
_BLIND = (
    "SELECT @@GLOBAL.performance_schema,"
    " (SELECT ENABLED FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl'),"
    " (SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = 'global_instrumentation'),"
    " (SELECT VARIABLE_VALUE FROM performance_schema.global_status"
    " WHERE VARIABLE_NAME = 'Performance_schema_metadata_lock_lost')"
)
_HOLDERS = """
SELECT m.OBJECT_TYPE, m.OBJECT_SCHEMA, m.OBJECT_NAME, m.LOCK_TYPE, m.LOCK_DURATION, m.LOCK_STATUS, t.PROCESSLIST_ID,
 t.PROCESSLIST_USER, t.PROCESSLIST_HOST, t.PROCESSLIST_COMMAND, t.PROCESSLIST_TIME, tx.TIMER_WAIT, tx.AUTOCOMMIT,
 tx.XA_STATE, {innodb_s}, es.TIMER_WAIT,
 LEFT(COALESCE(t.PROCESSLIST_INFO, es.SQL_TEXT), 200), a.ATTR_VALUE,
 IF(t.THREAD_ID IS NULL, COALESCE({orphan_s}, (SELECT u.VARIABLE_VALUE + 0
 FROM performance_schema.global_status u WHERE u.VARIABLE_NAME = 'Uptime')), NULL)
FROM performance_schema.metadata_locks m
LEFT JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID
LEFT JOIN performance_schema.events_transactions_current tx
 ON tx.THREAD_ID = m.OWNER_THREAD_ID AND tx.STATE = 'ACTIVE'
LEFT JOIN performance_schema.events_statements_current es
 ON es.THREAD_ID = m.OWNER_THREAD_ID AND es.NESTING_EVENT_LEVEL = 0
LEFT JOIN performance_schema.session_connect_attrs a
 ON a.PROCESSLIST_ID = t.PROCESSLIST_ID AND a.ATTR_NAME = 'program_name'
{innodb}
WHERE m.LOCK_STATUS IN ('GRANTED', 'PENDING')
 AND (t.NAME IS NULL OR (t.NAME NOT LIKE 'thread/sql/replica%%' AND t.NAME NOT LIKE 'thread/sql/slave%%'))
 AND (t.PROCESSLIST_ID IS NULL OR t.PROCESSLIST_ID <> CONNECTION_ID())
 AND ((m.OBJECT_TYPE = 'TABLE' AND (m.OBJECT_SCHEMA, m.OBJECT_NAME) IN ({tables}))
 OR (m.OBJECT_TYPE IN ('GLOBAL', 'BACKUP LOCK', 'COMMIT') AND m.LOCK_TYPE NOT LIKE 'INTENTION%%')
 OR (m.OBJECT_TYPE = 'SCHEMA' AND m.OBJECT_SCHEMA IN ({schemas}) AND m.LOCK_TYPE = 'EXCLUSIVE'))
"""
# InnoDB shows the time at which a transaction began in the system's time zone, not in the session's.
_SINCE = "TIMESTAMPDIFF(SECOND, {began}, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM'))"
_WITH_INNODB = {
    "innodb_s": _SINCE.format(began="it.trx_started"),
    "innodb": "LEFT JOIN information_schema.INNODB_TRX it ON it.trx_mysql_thread_id = t.PROCESSLIST_ID",
    "orphan_s": f"(SELECT {_SINCE.format(began='MIN(o.trx_started)')}"
    " FROM information_schema.INNODB_TRX o WHERE o.trx_mysql_thread_id = 0)",
}
# Ages then come from performance_schema alone; that of a prepared XA without a session is the server's own.
_WITHOUT_INNODB = {"innodb_s": "NULL", "innodb": "", "orphan_s": "NULL"}
# The text that is looked for must not be found in the statement that looks, nor in that of another session that looks.
_TAGGED = (
    "SELECT ID, INFO, TIME, STATE, DB FROM performance_schema.processlist"
    " WHERE ID <> CONNECTION_ID() AND LOCATE(CONCAT('/', %s), INFO) > 0 ORDER BY ID"
)


class _Lock(Struct, frozen=True):
    """One row of the look, in the order of its columns."""

    object_type: str
    schema: str | None
    table: str | None
    type: str
    duration: str
    status: str
    process_id: int | None
    user: str | None
    host: str | None
    command: str | None
    command_s: int | None
    transaction_ps: int | None
    autocommit: str | None
    xa_state: str | None
    innodb_s: int | None
    statement_ps: int | None
    statement: str | None
    program: str | None
    orphan_s: int | None


class Tagged(Struct, frozen=True):
    """A statement of ours that the server still runs, whoever sent it and whether or not that client lives."""

    process_id: int
    statement: str
    age_s: float
    state: str


def blindness(session: Session) -> str:
    """Why metadata locks cannot be seen on this server, in one sentence; empty when they can. Raises ServerError."""
    row = session.one(_BLIND)
    on, instrument, consumer, lost = row if row else (0, None, None, None)
    if not on:
        return "performance_schema is off"
    if instrument != "YES":
        return "the instrument wait/lock/metadata/sql/mdl is off"
    if consumer != "YES":
        return "the consumer global_instrumentation is off"
    if int(lost or 0) > 0:
        return f"the server lost sight of {lost} metadata locks (performance_schema_max_metadata_locks is too small)"
    return ""


def read_holders(session: Session, tables: Sequence[TableName], ignore: frozenset[int]) -> tuple[Holder, ...]:
    """Holders and waiters on the tables and on the global locks that stop an ALTER, the oldest first.

    Left out: the sessions in ``ignore`` (connection ids), sessions of this tool unless they run DDL, and replication's
    own threads, which go on by themselves. Raises ServerError, with a privilege's number when the account may not see:
    that is never an empty answer. Whether the instrument is on is ``blindness``'s to say.
    """
    if not tables:
        return ()
    pairs = ", ".join(["(%s, %s)"] * len(tables))
    schemas = sorted({t.schema for t in tables})
    args = [part for t in tables for part in (t.schema, t.name)] + schemas
    named = {"tables": pairs, "schemas": ", ".join(["%s"] * len(schemas))}
    try:
        rows = session.query(_HOLDERS.format(**named, **_WITH_INNODB), args)
    except ServerError as error:
        # INNODB_TRX cannot be read in this moment (see mysql.patience); a watch cannot wait for it.
        if error.number != CANNOT_CONVERT:
            raise
        rows = session.query(_HOLDERS.format(**named, **_WITHOUT_INNODB), args)
    locks = [_Lock(*row) for row in rows]
    locks.sort(key=lambda lock: _STRENGTH.index(lock.type) if lock.type in _STRENGTH else len(_STRENGTH))
    found: dict[tuple[Any, ...], Holder] = {}
    for lock in locks:
        holder = _holder(lock)
        if lock.process_id in ignore or _is_ours(lock, holder):
            continue
        found.setdefault((lock.process_id, holder.kind, holder.table, holder.waiting), holder)
    return tuple(sorted(found.values(), key=lambda h: -h.age_s))


def find_tagged(session: Session, tag_prefix: str) -> tuple[Tagged, ...]:
    """Statements on the server whose tag begins with ``tag_prefix`` (``/* rollout:…``), but for this session's own.

    Sees the sessions of the same account always, those of others with PROCESS. Raises ServerError.
    """
    rows = session.query(_TAGGED, (tag_prefix.removeprefix("/"),))
    return tuple(Tagged(int(id), str(info), float(time or 0), str(state or "")) for id, info, time, state, _ in rows)


def _is_ours(lock: _Lock, holder: Holder) -> bool:
    return (lock.program or "").startswith(_OURS) and holder.kind is not BlockerKind.DDL


def _holder(lock: _Lock) -> Holder:
    kind = _kind(lock)
    return Holder(
        kind=kind,
        table=f"{lock.schema}.{lock.table}" if lock.object_type == "TABLE" else _whole(lock),
        lock=f"{lock.object_type} {lock.type}",
        waiting=lock.status == "PENDING",
        age_s=_age_s(lock),
        process_id=lock.process_id,
        user=lock.user or "",
        host=lock.host or "",
        idle=kind is BlockerKind.TRANSACTION and lock.command == "Sleep",
        statement=" ".join((lock.statement or "").split())[:120],
        exact=lock.status != "PENDING" and bool(lock.transaction_ps),
    )


def _whole(lock: _Lock) -> str:
    return f"schema {lock.schema}" if lock.object_type == "SCHEMA" else "all tables"


def _kind(lock: _Lock) -> BlockerKind:
    running_ddl = lock.command != "Sleep" and _first_word(lock.statement) in _DDL_WORDS
    match lock.object_type:
        case "BACKUP LOCK":
            return BlockerKind.BACKUP_LOCK
        case "GLOBAL" | "COMMIT":
            return BlockerKind.GLOBAL_READ_LOCK
        case "SCHEMA":
            return BlockerKind.DDL
        case _:
            pass
    if lock.process_id is None or lock.xa_state == "PREPARED":
        return BlockerKind.PREPARED_XA
    if running_ddl and lock.type in ("EXCLUSIVE", "SHARED_UPGRADABLE", "SHARED_NO_WRITE", "SHARED_NO_READ_WRITE"):
        return BlockerKind.DDL
    if lock.type in ("SHARED_READ_ONLY", "SHARED_NO_READ_WRITE", "SHARED_NO_WRITE"):
        return BlockerKind.LOCK_TABLES
    if lock.duration == "EXPLICIT":
        return BlockerKind.HANDLER
    if lock.command == "Sleep" or lock.autocommit == "NO":
        return BlockerKind.TRANSACTION
    return BlockerKind.STATEMENT


def _first_word(statement: str | None) -> str:
    """The first word of a statement behind its leading comments."""
    rest = (statement or "").lstrip()
    while rest.startswith("/*") and "*/" in rest:
        rest = rest.split("*/", 1)[1].lstrip()
    return rest.split(None, 1)[0].upper() if rest else ""


def _age_s(lock: _Lock) -> float:
    """How long it has been there: its transaction's age, else its statement's, else the time since its last one.

    A waiter's age is that of its statement. A prepared transaction whose session is gone is as old as the oldest
    transaction without a session, or as the server when none is shown. InnoDB's and the session's own clocks count
    whole seconds and read up to one too much, so they are asked last.
    """
    if lock.process_id is None:
        return float(lock.orphan_s or 0)
    if lock.status == "PENDING":
        return (lock.statement_ps or 0) / 1e12
    if lock.transaction_ps:
        return lock.transaction_ps / 1e12
    if lock.innodb_s is not None:
        return float(lock.innodb_s)
    return float(lock.command_s or 0) if lock.command == "Sleep" else (lock.statement_ps or 0) / 1e12
