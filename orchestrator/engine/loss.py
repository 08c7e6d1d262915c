"""What going back would lose or break, and whether somebody accepted the loss before the step that loses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.model.advice import again
from orchestrator.model.facts import DROPPED, MismatchClass, Need
from orchestrator.model.hanging import hanging_on, takes_columns
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import Record
from orchestrator.model.step import (
    Drain,
    DropCheck,
    DropColumns,
    DropForeignKey,
    DropIndex,
    RemoveMirror,
    RenameColumn,
    Step,
)
from orchestrator.model.way_back import unaccepted
from orchestrator.ports import Observer

if TYPE_CHECKING:
    from orchestrator.engine.pulse import Pulse


def loss_before(step: Step, pulse: Pulse, observer: Observer) -> Outcome | None:
    """HELD when the step would lose rows that nobody accepted, how the step ends when a beat stopped the scan for that,
    else None.

    The mirror's end loses what the old column cannot carry. What dropped columns hold is asked for before the first
    thing is dropped, and again when the columns go.
    """
    record = pulse.record
    begins = isinstance(step, DropForeignKey | DropIndex) and not any(s.startswith("drop-") for s in record.done_steps)
    if record.phase != "rollback" or not (begins or isinstance(step, RemoveMirror | DropColumns)):
        return None
    reading = observer.look(frozenset({Need.METER}), pulse.scans_on).meter
    if pulse.stopped is not None:
        return pulse.stopped
    if reading is None or reading.value is None:
        why = reading.unseen if reading else "nobody looked"
        return Outcome(Result.HELD, f"what would be lost cannot be seen: {why}", "the meter can be read")
    goes = [c for c in reading.value.classes if (c.name == DROPPED) != isinstance(step, RemoveMirror)]
    lost = dict(unaccepted(goes, record.accepted))
    if not lost:
        return None
    accept = " ".join(f"--accept-loss {name}={rows}" for name, rows in lost.items())
    return Outcome(
        Result.HELD,
        "; ".join(f"{rows} rows hold {_what(name)}" for name, rows in lost.items()),
        "nothing would be lost, or the loss is accepted by class and number",
        f"{again(record)} {accept}",
        evidence=tuple((c.name, c.mapping, str(c.rows), " ".join(c.keys)) for c in goes if c.name in lost),
    )


def hanging_before(step: Step, runbook: Runbook, record: Record, observer: Observer) -> Outcome | None:
    """HELD while something that is not ours needs a column that this way back would take away, else None.

    It is looked at when readers are back, before anything is waited for, and again before the mirror goes and before
    each drop."""
    taking = Drain | RemoveMirror | DropCheck | DropForeignKey | DropIndex | DropColumns | RenameColumn
    if record.phase != "rollback" or not isinstance(step, taking) or not takes_columns(runbook, record):
        return None
    facts = observer.look(frozenset({Need.SHAPE, Need.DEPENDENTS}))
    hanging = hanging_on(runbook, record, facts)
    if unseen := next((r.unseen for r in (facts.shape, facts.dependents) if r is not None and r.unseen), ""):
        hanging = (f"what needs the columns that go cannot be seen: {unseen}", *hanging)
    if not hanging:
        return None
    return Outcome(
        Result.HELD,
        "; ".join(hanging),
        "nothing of somebody else's needs a column that rollback: {ddl: drop} takes away",
        f"drop or change that, then: {again(record)}; or say rollback: {{ddl: keep}}, and the columns stay, unused",
    )


def was_accepted(record: Record, outcome: Outcome) -> bool:
    """Whether a comparison found only rows that were on the meter and accepted (evidence: class, mapping, rows,
    keys)."""
    classes = [MismatchClass(row[0], row[1], int(row[2]), ()) for row in outcome.evidence]
    only_metered = all(c.name in ("unmapped", "unfit") for c in classes)
    return bool(classes) and only_metered and not unaccepted(classes, record.accepted)


def _what(name: str) -> str:
    """A class of loss as people are told of it."""
    return f"{name}: values of columns that go" if name == DROPPED else f"{name}, which the old column cannot carry"
