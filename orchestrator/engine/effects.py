"""What a step changes in the record: when it is about to be done, when it took effect, when it failed. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from orchestrator.model.outcome import Outcome
from orchestrator.model.runbook import ShadowDriver
from orchestrator.model.state import REMOVING, Record
from orchestrator.model.step import (
    AddCheck,
    AddColumns,
    AddForeignKey,
    AddIndex,
    Compare,
    DropCheck,
    DropColumns,
    DropForeignKey,
    DropIndex,
    GhostAlter,
    InstallTrigger,
    MeasureBaselines,
    OpenWrites,
    ProveDoubleWrites,
    RaiseDoubleWrites,
    RemoveMirror,
    RenameColumn,
    Step,
    TryMirror,
    step_key,
)

# What only holds for the mirror that stands, and for the rows as they were when it was found.
_SWEPT = ("drain", "fill:sweep", "soak", "prove-double-writes", "compare:drift")


def intended(record: Record, step: Step) -> Record:
    """The record before the step is sent. From then on new columns may have been written, whatever becomes of us."""
    steps = record.done_steps
    if isinstance(step, RemoveMirror) and REMOVING not in steps:
        steps = (*steps, REMOVING)
    both = record.both_written or isinstance(step, OpenWrites)
    return replace(record, intent=step, both_written=both, done_steps=steps)


def failed(record: Record, step: Step) -> Record:
    """The record after a step that did not take effect. Drift that a comparison found is swept by the next visit."""
    kept = () if isinstance(step, Compare | ProveDoubleWrites) else record.done_steps
    return replace(record, intent=None, done_steps=kept)


def settled(record: Record, step: Step, outcome: Outcome) -> Record:
    """The record with the step among the done ones, its intent closed, and what else follows from that step."""
    changed = added(replace(record, intent=None, done_steps=(*record.done_steps, step_key(step))), step)
    match step:
        case InstallTrigger() | RaiseDoubleWrites():
            # A mirror that is new makes every earlier sweep worthless: the next one counts positions of its own.
            still = tuple(s for s in changed.done_steps if s not in _SWEPT)
            driver: ShadowDriver = "triggers" if isinstance(step, InstallTrigger) else "flag"
            changed = replace(changed, walk=record.walk + 1, done_steps=still, mirror=driver)
        case TryMirror():
            changed = replace(changed, trial=outcome.note)
        case RemoveMirror():
            left = tuple(p for p in record.done if record.phase == "finish" or p in ("ddl", "backfill"))
            changed = replace(changed, both_written=False, on_conflict="", done=left, mirror="")
        case RenameColumn(back=True):
            left = tuple(n for n in record.columns_renamed if n != step.new)
            changed = replace(changed, done=(), columns_renamed=left)
        case DropColumns():
            changed = replace(changed, done=(), columns_added=())
        case DropIndex():
            left = tuple(n for n in record.indexes_added if n != step.index.name)
            changed = replace(changed, done=(), indexes_added=left)
        case DropForeignKey():
            left = tuple(n for n in record.foreign_keys_added if n != step.foreign_key.name)
            changed = replace(changed, done=(), foreign_keys_added=left)
        case DropCheck():
            left = tuple(n for n in record.checks_added if n != step.check.name)
            changed = replace(changed, done=(), checks_added=left)
        case MeasureBaselines():
            changed = replace(changed, baselines=tuple(sorted(outcome.figures.items())))
        case _:
            pass
    return changed


def adds(step: Step) -> bool:
    """Whether what the step puts into the table is ours to take away on the way back."""
    return isinstance(step, AddColumns | GhostAlter | AddIndex | AddForeignKey | AddCheck) or (
        isinstance(step, RenameColumn) and not step.back
    )


def added(record: Record, step: Step) -> Record:
    """The record with what the step put into the table, or a part of it, among what is ours. Others change nothing."""
    match step:
        case AddColumns():
            return replace(record, columns_added=_with(record.columns_added, *(c.name for c in step.columns)))
        case GhostAlter():
            columns = _with(record.columns_added, *(c.name for c in step.columns))
            return replace(
                record,
                columns_added=columns,
                indexes_added=_with(record.indexes_added, *(i.name for i in step.indexes)),
            )
        case RenameColumn(back=False):
            return replace(record, columns_renamed=_with(record.columns_renamed, step.old))
        case AddIndex():
            return replace(record, indexes_added=_with(record.indexes_added, step.index.name))
        case AddForeignKey():
            return replace(record, foreign_keys_added=_with(record.foreign_keys_added, step.foreign_key.name))
        case AddCheck():
            return replace(record, checks_added=_with(record.checks_added, step.check.name))
        case _:
            return record


def _with(names: tuple[str, ...], *more: str) -> tuple[str, ...]:
    """Each once: of a step that was cleared half-way, the rest is added by another one."""
    return tuple(dict.fromkeys((*names, *more)))
