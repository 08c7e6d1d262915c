"""The statements that read and write a rollout's record, its history, its progress and the requests to it.

Each function gives a statement as text and arguments. ``schema`` is the state schema.
"""

from __future__ import annotations

from datetime import UTC, datetime

from orchestrator.model.contract import TableName
from orchestrator.model.state import Event, Record, Request, State
from orchestrator.mysql import quote

Statement = tuple[str, tuple[object, ...]]
# One rollout's rows in these tables carry its id in the column ``rollout``.
KEYED_TABLES = ("position", "flag", "heartbeat", "event", "progress", "request", "lease")
START = ("START TRANSACTION", ())
COMMIT = ("COMMIT", ())
CONNECTIONS = "SHOW PROCESSLIST"
SERVER_UUID = "SELECT @@server_uuid"


def at(schema: str, table: str) -> str:
    """A table of the state schema, safe inside text that takes arguments."""
    return quote.percent_safe(quote.table(TableName(schema, table)))


def utc(moment: datetime) -> str:
    """A DATETIME(6) literal's text; the session's time zone is UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def load(schema: str, id: str) -> Statement:
    return f"SELECT revision, epoch, record FROM {at(schema, 'rollout')} WHERE id = %s", (id,)


def load_all(schema: str) -> Statement:
    return f"SELECT revision, epoch, record FROM {at(schema, 'rollout')} ORDER BY id", ()


def create(schema: str, record: Record, text: str) -> tuple[Statement, Statement]:
    """Insert unless a lease of another epoch exists, or one as late was purged; waits for whoever is raising the epoch
    at this moment."""
    table = str(record.table)
    may = (
        f"SELECT COUNT(*) = 0 INTO @rollout_ok FROM {at(schema, 'lease')}"
        " WHERE rollout IN (%s, '') AND IF(rollout = '', epoch >= %s, epoch <> %s) FOR SHARE",
        (record.id, record.epoch, record.epoch),
    )
    return may, (
        f"INSERT INTO {at(schema, 'rollout')}"
        " (id, open_on, server_uuid, state, phase, revision, epoch, record, updated_at)"
        " SELECT %s, IF(@@lower_case_table_names = 0, %s, LOWER(%s)), %s, %s, %s, %s, %s, %s,"
        " UTC_TIMESTAMP(6) FROM DUAL WHERE @rollout_ok = 1",
        (
            *(record.id, table, table, record.server_uuid, record.state.value, record.phase),
            *(record.revision, record.epoch, text),
        ),
    )


def open_on(schema: str, table: TableName) -> Statement:
    """The open rollout on a table, and its state."""
    return (
        f"SELECT id, state FROM {at(schema, 'rollout')}"
        " WHERE open_on = IF(@@lower_case_table_names = 0, %s, LOWER(%s))",
        (str(table), str(table)),
    )


def update(schema: str, record: Record, text: str) -> tuple[Statement, Statement]:
    """Move the record from the revision before, under its epoch; not ok: somebody else did.

    Asked before, and not by the number of rows that it changed: of a statement whose client is gone when it answers
    that is -1, and the server goes on with the packet.
    """
    closed = record.state is State.FINISHED
    may = (
        f"SELECT COUNT(*) INTO @rollout_ok FROM {at(schema, 'rollout')}"
        " WHERE id = %s AND revision = %s AND epoch = %s FOR UPDATE",
        (record.id, record.revision - 1, record.epoch),
    )
    return may, (
        f"UPDATE {at(schema, 'rollout')} SET record = %s, state = %s, phase = %s, revision = %s,"
        f" updated_at = UTC_TIMESTAMP(6){', open_on = NULL' if closed else ''}"
        " WHERE id = %s AND @rollout_ok = 1",
        (text, record.state.value, record.phase, record.revision, record.id),
    )


ANSWER_OK = ("SELECT @rollout_ok", ())


def append(schema: str, record: Record, event: Event, text: str, token: str) -> Statement:
    """The event's row, if the record is moved."""
    return (
        f"INSERT INTO {at(schema, 'event')} (rollout, revision, kind, at, who, phase, state, token, body)"
        " SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s FROM DUAL WHERE @rollout_ok = 1",
        (
            *(record.id, record.revision, event.kind.value, utc(event.at), event.who),
            *(event.phase, record.state.value, token, text),
        ),
    )


def arrived(schema: str, id: str, token: str) -> Statement:
    """1 when the write that carried ``token`` took effect."""
    return f"SELECT COUNT(*) FROM {at(schema, 'event')} WHERE rollout = %s AND token = %s", (id, token)


def stand(schema: str, id: str) -> Statement:
    """Revision and epoch that are stored now."""
    return f"SELECT revision, epoch FROM {at(schema, 'rollout')} WHERE id = %s", (id,)


def history(schema: str, id: str) -> Statement:
    return f"SELECT body FROM {at(schema, 'event')} WHERE rollout = %s ORDER BY revision", (id,)


def write_progress(schema: str, id: str, epoch: int, text: str) -> Statement:
    return (
        f"INSERT INTO {at(schema, 'progress')} (rollout, epoch, body, at)"
        f" SELECT id, epoch, %s, UTC_TIMESTAMP(6) FROM {at(schema, 'rollout')} WHERE id = %s AND epoch = %s"
        " ON DUPLICATE KEY UPDATE epoch = %s, body = %s, at = UTC_TIMESTAMP(6)",
        (text, id, epoch, epoch, text),
    )


def read_progress(schema: str, id: str) -> Statement:
    return f"SELECT body, at FROM {at(schema, 'progress')} WHERE rollout = %s", (id,)


def ask(schema: str, id: str, request: Request | None) -> Statement:
    if request is None:
        return f"DELETE FROM {at(schema, 'request')} WHERE rollout = %s", (id,)
    return (
        f"REPLACE INTO {at(schema, 'request')} (rollout, ask, who, at, reason) VALUES (%s, %s, %s, %s, %s)",
        (id, request.ask.value, request.who, utc(request.at), request.reason),
    )


def answered(schema: str, id: str, request: Request) -> Statement:
    """That request goes, and no later one."""
    return (
        f"DELETE FROM {at(schema, 'request')} WHERE rollout = %s AND ask = %s AND who = %s AND at = %s",
        (id, request.ask.value, request.who, utc(request.at)),
    )


def asked(schema: str, id: str) -> Statement:
    return f"SELECT ask, who, at, reason FROM {at(schema, 'request')} WHERE rollout = %s", (id,)


def purge(schema: str, id: str, epoch: int) -> tuple[Statement, ...]:
    """Every row of one rollout goes, if the lease is of that epoch; the lease row of no rollout remembers the greatest
    epoch that ever was. So a process that slept through the purge is fenced by a later rollout of the same name, too.

    Answers 1 when nothing of it is left, whoever removed it: an answer that was lost makes the same packet come again.
    """
    lease, record = at(schema, "lease"), at(schema, "rollout")
    return (
        START,
        (f"SELECT COUNT(*) INTO @rollout_ok FROM {lease} WHERE rollout = %s AND epoch = %s FOR UPDATE", (id, epoch)),
        (
            f"INSERT INTO {lease} (rollout, counter, epoch)"
            " SELECT '', 0, e FROM (SELECT %s AS e FROM DUAL WHERE @rollout_ok = 1) AS high"
            f" ON DUPLICATE KEY UPDATE {lease}.epoch = GREATEST({lease}.epoch, high.e)",
            (epoch,),
        ),
        *((f"DELETE FROM {at(schema, t)} WHERE rollout = %s AND @rollout_ok = 1", (id,)) for t in KEYED_TABLES),
        (f"DELETE FROM {record} WHERE id = %s AND @rollout_ok = 1", (id,)),
        COMMIT,
        (
            f"SELECT @rollout_ok = 1 OR NOT EXISTS (SELECT 1 FROM {lease} WHERE rollout = %s"
            f" UNION ALL SELECT 1 FROM {record} WHERE id = %s)",
            (id, id),
        ),
    )
