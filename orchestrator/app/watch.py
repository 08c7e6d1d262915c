"""What ``rollout status`` looks at: the state, and a few cheap facts. Wired apart, so that a look costs no driver."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from orchestrator.drivers.reads.board import BoardObserver
from orchestrator.drivers.reads.boards import board_of
from orchestrator.errors import UsageError
from orchestrator.model.advice import Advice, advise
from orchestrator.model.facts import Facts, Need, OldStatement, Reading
from orchestrator.model.outcome import Progress
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import Event, EventKind, Record
from orchestrator.model.stuck import Stuck, stuck
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.site import Site
from orchestrator.ports import Clock
from orchestrator.settings import ServerSettings
from orchestrator.store.mysql import MysqlStore

# Three looks of whoever watches readers after the last stage.
_WATCHED_S = 15.0


class Status(Struct, frozen=True):
    """What ``rollout status`` shows. ``drift`` and ``meter`` are the last scan's figures, with their age; None:
    never. ``readers``: who still needs old columns, asked for once all readers should be on the new ones.
    ``stuck``: why nothing moves, None while it does. ``progress``: only while somebody works, or watches."""

    rollout: str
    table: str
    record: Record | None
    advice: Advice
    progress: Progress | None
    lag_s: float | None
    drift: int | None
    read_percent: int
    new_writes: bool
    meter: dict[str, Any] | None
    readers: Reading[tuple[OldStatement, ...]] | None = None
    stuck: Stuck | None = None


class Watch(Struct, frozen=True):
    """The state and the server of one rollout, to be read."""

    runbook: Runbook
    store: MysqlStore
    observer: BoardObserver
    clock: Clock

    def close(self) -> None:
        self.store.close()
        self.observer.close()

    def status(self, *, meter: bool = False) -> Status:
        """Reads the state and a few cheap facts; ``meter`` scans the table."""
        id = self.runbook.id
        record = self.store.load(id)
        holder = self.store.holder(id) if record is not None else None
        needs = {Need.FLAG, Need.REPLICAS} | ({Need.METER} if meter else set())
        if record is not None and "shadow-write" in record.done:
            needs.add(Need.MIRROR)
        facts = self.observer.look(frozenset(needs))
        events = self.store.history(id) if record is not None else ()
        told = self.store.read_progress(id) if record is not None else None
        now = self.clock.now()
        flag = facts.flag.value if facts.flag is not None else None
        percent = flag.effective_percent if flag is not None else 0
        return Status(
            rollout=id,
            table=str(self.runbook.table),
            record=record,
            advice=advise(record, holder, _mirror_problem(facts)),
            progress=told[0] if told is not None and (holder is not None or _watched(record, told, now)) else None,
            lag_s=_worst_lag_s(facts),
            drift=last_figure(events, "mismatches"),
            read_percent=percent,
            new_writes=flag.effective_new_writes if flag is not None else False,
            meter=_meter(facts, events, now),
            readers=self.observer.look(frozenset({Need.READERS})).readers if percent >= 100 else None,
            stuck=stuck(record, told, holder, now, self.runbook.limits.max_wait_s) if record is not None else None,
        )


def open_watch(runbook: Runbook, settings: ServerSettings) -> Watch:
    """Opens no session yet."""
    clock = SystemClock()
    store = MysqlStore(settings, clock)
    site = Site(settings, runbook, clock)
    look = MysqlObserver(site, lambda: store.load(runbook.id))
    return Watch(runbook, store, BoardObserver(look, board_of(runbook, clock)), clock)


def stored_runbook(settings: ServerSettings, id: str) -> str:
    """The runbook as the state holds it, whatever became of its file. Raises UsageError when none of that name began
    on the server, with those that did."""
    store = MysqlStore(settings, SystemClock())
    try:
        record = store.load(id)
        if record is not None:
            return record.runbook_text
        begun = ", ".join(other.id for other in store.rollouts()) or "none"
        raise UsageError(f"no rollout {id} has begun here; begun: {begun}", "the name of one that has", "correct it")
    finally:
        store.close()


def _watched(record: Record | None, told: tuple[Progress, datetime], now: datetime) -> bool:
    """Whether readers are watched after the last stage: that is told every few seconds, and no lease is held."""
    line = record.phase_record(record.phase) if record is not None else None
    if record is None or line is None or line.ended is None or not record.readers_due:
        return False
    return line.ended < told[1] and (now - told[1]).total_seconds() < _WATCHED_S


def _mirror_problem(facts: Facts) -> str:
    mirror = facts.mirror.value if facts.mirror is not None else None
    if mirror is None or mirror.intact:
        return ""
    return mirror.problem or ", ".join(f"{part.value} {presence.value}" for part, presence in mirror.parts)


def _worst_lag_s(facts: Facts) -> float | None:
    replicas = facts.replicas.value if facts.replicas is not None else None
    lags = [r.lag_s for r in replicas or () if r.delay_s == 0]
    return None if any(lag is None for lag in lags) else max((lag for lag in lags if lag is not None), default=None)


def last_figure(events: Sequence[Event], name: str) -> int | None:
    return next((int(e.figures[name]) for e in reversed(events) if name in e.figures), None)


def sum_of_figure(events: Sequence[Event], name: str) -> int:
    """Over all steps that told it, also those that ended early."""
    return sum(int(e.figures[name]) for e in events if name in e.figures)


def _meter(facts: Facts, events: Sequence[Event], now: datetime) -> dict[str, Any] | None:
    """From a scan just made, else the last one in the history with its age."""
    if facts.meter is not None and facts.meter.value is not None:
        seen = facts.meter.value
        classes = [{"class": c.name, "mapping": c.mapping, "rows": c.rows, "keys": list(c.keys)} for c in seen.classes]
        return {"rows": seen.rows, "classes": classes, "age": ""}
    last = next((e for e in reversed(events) if "meter_rows" in e.figures or e.kind is EventKind.ROLLED_BACK), None)
    if last is None or "meter_rows" not in last.figures:
        return None
    age_s = (now - last.at).total_seconds()
    return {"rows": int(last.figures["meter_rows"]), "classes": [], "age": f" (seen {age_s:.0f} s ago)"}
