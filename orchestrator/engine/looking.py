"""Running a step that only looks, without a lease and without a trace: ``rollout verify`` at any time."""

from __future__ import annotations

from orchestrator.engine.parts import Parts
from orchestrator.errors import Held
from orchestrator.model.facts import Need
from orchestrator.model.outcome import GO, Outcome, Progress, Signal, SignalKind
from orchestrator.model.state import FORWARD, Record
from orchestrator.model.step import Compare


class LoneBeat:
    """A beat that listens to signals only. Its epoch is 0: nothing fenced could be written with it."""

    epoch = 0

    def __init__(self, parts: Parts, record: Record, step: Compare) -> None:
        self._p = parts
        self._record = record
        self._step = step

    def __call__(self, progress: Progress) -> Signal:
        self._p.watcher.progress(self._record, self._step, progress, GO)
        asked = self._p.interrupted()
        return GO if asked is None else Signal(SignalKind.ABORT, "interrupted")


def compare_now(parts: Parts, record: Record) -> Outcome:
    """One full comparison by the relation that holds now. Writes nothing. Raises Held before ddl has added the
    columns."""
    shape = parts.observer.look(frozenset({Need.SHAPE})).shape
    live = shape.value if shape is not None else None
    missing = [m.new for m in parts.runbook.contract.mappings if live is not None and live.column(m.new) is None]
    if missing:
        raise Held(
            f"{record.table} has no column {', '.join(missing)} yet",
            "the columns that ddl adds: before it there is nothing to compare",
            f"rollout next --phase {record.next_phase or FORWARD[0]}",
        )
    step = record.comparison("verify", parts.runbook.phases.target_time_s)
    return parts.drivers[step.kind].apply(step, LoneBeat(parts, record, step))
