"""Running a step that only looks, without a lease and without a trace: ``rollout verify`` at any time."""

from __future__ import annotations

from typing import Protocol

from orchestrator.engine.holding import Holding
from orchestrator.engine.parts import Parts
from orchestrator.errors import Held
from orchestrator.model.comparing import comparison
from orchestrator.model.facts import Need
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Signal, SignalKind
from orchestrator.model.state import FORWARD, Record
from orchestrator.model.step import Compare
from orchestrator.model.verdict import Judgement
from orchestrator.ports import Beat

LOOK_EVERY_S = 0.5


class Comparing(Protocol):
    """Whoever compares: here, or on a replica."""

    def apply(self, step: Compare, beat: Beat) -> Outcome: ...


class LoneBeat:
    """A beat without a lease: it listens to signals, and to the checks of the server's load so far as they can be
    seen. Its epoch is 0: nothing fenced could be written with it."""

    epoch = 0

    def __init__(self, parts: Parts, record: Record, step: Compare) -> None:
        self._p = parts
        self._record = record
        self._step = step
        self._looked_at = float("-inf")
        self._holding = Holding(parts.runbook.limits.max_wait_s)
        self._signal = GO

    def __call__(self, progress: Progress) -> Signal:
        now = self._p.clock.monotonic()
        if self._p.interrupted() is not None:
            self._signal = Signal(SignalKind.ABORT, "interrupted")
        elif now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._signal = self._judged(now)
        self._p.watcher.progress(self._record, self._step, progress, self._signal)
        return self._signal

    def _judged(self, now: float) -> Signal:
        """HOLD while a check holds. What this account cannot see does not hold it: looking needs no more than
        SELECT."""
        holding = [v for v in self._p.judge.reading() if v.judgement is Judgement.HOLD]
        return self._holding.answer(holding, now, back=False)


def compare_now(parts: Parts, record: Record, driver: Comparing) -> Outcome:
    """One full comparison by the relation that holds now. Writes nothing.

    Raises Held before ddl has added the columns, and when the comparison did not reach the end: a part of a table
    proves nothing."""
    shape = parts.observer.look(frozenset({Need.SHAPE})).shape
    live = shape.value if shape is not None else None
    missing = [m.new for m in parts.runbook.contract.mappings if live is not None and live.column(m.new) is None]
    if missing:
        raise Held(
            f"{record.table} has no column {', '.join(missing)} yet",
            "the columns that ddl adds: before it there is nothing to compare",
            f"rollout next --phase {record.next_phase or FORWARD[0]}",
        )
    step = comparison(record, "verify", parts.runbook.phases.target_time_s)
    outcome = driver.apply(step, LoneBeat(parts, record, step))
    if outcome.result not in (Result.DONE, Result.FAILED, Result.BACK):
        raise Held(
            f"the comparison did not reach the end of {record.table}: {outcome.note}",
            "every row compared",
            "rollout verify again",
        )
    return outcome
