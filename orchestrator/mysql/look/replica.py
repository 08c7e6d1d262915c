"""What one replica says of itself: threads, delay, and how far behind it is by the rule that does not lie.

While rollout works, its heartbeat row tells the seconds, on the primary's clock alone. Otherwise the sets of
transactions say whether anything is missing, and only then the age of what is missing counts: timestamps alone grow on
an idle primary, and Seconds_Behind_Source is 0 on a replica that is cut off.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from orchestrator.model.contract import TableName
from orchestrator.model.facts import Holder, ReplicaFacts
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.locks import blindness, read_holders
from orchestrator.mysql.look.unseen import Unseen
from orchestrator.mysql.quote import name, percent_safe
from orchestrator.mysql.session import Row, Session
from orchestrator.mysql.sql import gtid
from orchestrator.ports import Clock

WORKING_S = 3.0
_CATCH_UP_S = 0.3
_ABSENT = frozenset({1049, 1142, 1146})
_MISSING = """
SELECT (SELECT MIN(APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP)
 FROM performance_schema.replication_applier_status_by_worker WHERE APPLYING_TRANSACTION <> ''),
 (SELECT MAX(LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP)
 FROM performance_schema.replication_applier_status_by_worker WHERE LAST_APPLIED_TRANSACTION <> '')
"""
# The zero that the server shows for a transaction that there never was.
_NEVER = datetime(1971, 1, 1)


class Source(Struct, frozen=True):
    """The primary at one moment. ``now`` is its own clock (UTC, naive), ``looked_at`` our monotonic one.

    ``beats_since`` is the first fresh heartbeat that this process saw, None when nobody works. ``transactions`` is ""
    when the server has no GTIDs.
    """

    uuid: str
    now: datetime
    looked_at: float
    beats_since: datetime | None
    transactions: str


class Asked(Struct, frozen=True):
    """The state schema, the rollout whose heartbeat counts, and the tables whose locks are asked for (or none)."""

    state_schema: str
    rollout: str
    lock_tables: tuple[TableName, ...] = ()


def read_source(session: Session, asked: Asked, clock: Clock, beats_since: datetime | None) -> Source:
    """The primary's clock, heartbeat and transactions. Raises ServerError."""
    beat_at = read_beat(session, asked)
    row = session.one("SELECT @@server_uuid, UTC_TIMESTAMP(6), @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed")
    uuid, now, mode, executed = row if row else ("", datetime.now(UTC).replace(tzinfo=None), "OFF", "")
    working = beat_at is not None and (now - beat_at).total_seconds() <= WORKING_S
    since = (beats_since or beat_at) if working else None
    gtids = str(executed).replace("\n", "") if mode == "ON" else ""
    return Source(uuid, now, clock.monotonic(), since, gtids)


def read_beat(session: Session, asked: Asked) -> datetime | None:
    """Our heartbeat as this server shows it; None when it has none."""
    table = f"{name(asked.state_schema)}.{name('heartbeat')}"
    try:
        at = session.value(f"SELECT at FROM {percent_safe(table)} WHERE rollout = %s", (asked.rollout,))
    except ServerError as error:
        if error.number in _ABSENT:
            return None
        raise
    return at if isinstance(at, datetime) else None


def read_replica(session: Session, label: str, source: Source, asked: Asked, clock: Clock) -> ReplicaFacts:
    """Facts of a replica that answers. Raises ServerError (gone meanwhile, or a missing privilege), Unseen."""
    status = _channel(session, source)
    if status is None:
        return ReplicaFacts(label, reachable=True, problem="does not replicate from this primary", lag_s=None)
    io, applier = status["Replica_IO_Running"], status["Replica_SQL_Running"]
    healthy = io == "Yes" and applier == "Yes"
    lag_s, caught_up = _lag(session, source, asked, clock, healthy)
    return ReplicaFacts(
        name=label,
        reachable=True,
        problem=_problem(status),
        lag_s=lag_s,
        caught_up=caught_up,
        io_running=io == "Yes",
        sql_running=applier == "Yes",
        delay_s=int(status["SQL_Delay"] or 0),
        holders=_holders(session, asked.lock_tables),
        connecting=io == "Connecting",
    )


def _channel(session: Session, source: Source) -> dict[str, Any] | None:
    """The status of the channel that comes from this primary, as a mapping."""
    names = [column[0] for column in session.describe("SHOW REPLICA STATUS")]
    rows = [dict(zip(names, row, strict=True)) for row in session.query("SHOW REPLICA STATUS")]
    if len(rows) == 1 and not rows[0]["Source_UUID"]:
        return rows[0]  # it never got through to its source, and so does not know whose uuid that is
    return next((r for r in rows if r["Source_UUID"] == source.uuid), None)


def _problem(status: dict[str, Any]) -> str:
    told = []
    for thread, running, number, text in (
        ("IO thread", "Replica_IO_Running", "Last_IO_Errno", "Last_IO_Error"),
        ("SQL thread", "Replica_SQL_Running", "Last_SQL_Errno", "Last_SQL_Error"),
    ):
        state = status[running]
        if state == "Yes":
            continue
        error = f" ({status[number]}: {' '.join(str(status[text]).split())[:160]})" if status[number] else ""
        told.append(f"{thread} {'connecting' if state == 'Connecting' else 'stopped'}{error}")
    return ", ".join(told)


def _lag(
    session: Session, source: Source, asked: Asked, clock: Clock, healthy: bool
) -> tuple[float | None, bool | None]:
    """(seconds behind, or None when nobody can say; whether all that the primary had is there, or None)."""
    if source.beats_since is not None:
        beat = read_beat(session, asked)
        if beat is not None and beat >= source.beats_since:
            return _behind_s(source, beat, clock), _has_all(session, source, 0.0)
    caught_up = _has_all(session, source, _CATCH_UP_S)
    if caught_up is None:
        return None, None
    if caught_up:
        return 0.0, True
    return (_age_of_missing(session, source, clock) if healthy else None), False


def _has_all(session: Session, source: Source, patience_s: float) -> bool | None:
    if not source.transactions:
        return None
    if patience_s <= 0:
        return bool(session.value("SELECT GTID_SUBSET(%s, @@GLOBAL.gtid_executed)", (source.transactions,)))
    late = session.value(gtid.WAIT_FOR, (source.transactions, patience_s))
    return bool(late == 0)


def _age_of_missing(session: Session, source: Source, clock: Clock) -> float | None:
    """Age of the transaction that is being applied, else of the last one that was: never less than the true lag."""
    row: Row = session.one(_MISSING) or (None, None)
    at = next((t for t in row if isinstance(t, datetime) and t > _NEVER), None)
    return None if at is None else _behind_s(source, at, clock)


def _behind_s(source: Source, at: datetime, clock: Clock) -> float:
    """From ``at`` to now, both on the primary's clock."""
    return max(0.0, (source.now - at).total_seconds() + clock.monotonic() - source.looked_at)


def _holders(session: Session, tables: tuple[TableName, ...]) -> tuple[Holder, ...]:
    if not tables:
        return ()
    blind = blindness(session)
    if blind:
        raise Unseen(f"metadata locks cannot be seen: {blind}")
    return read_holders(session, tables, frozenset({session.connection_id}))
