"""What a step that took effect changes in the record. Pure."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.model.outcome import Outcome
from orchestrator.model.state import Record
from orchestrator.model.step import (
    AddColumns,
    AddForeignKey,
    AddIndex,
    DropColumns,
    DropForeignKey,
    DropIndex,
    GhostAlter,
    InstallTrigger,
    MeasureBaselines,
    OpenWrites,
    RemoveMirror,
    Step,
    step_key,
)


def settled(record: Record, step: Step, outcome: Outcome) -> Record:
    """The record with the step among the done ones, its intent closed, and what else follows from that step."""
    changed = replace(record, intent=None, done_steps=(*record.done_steps, step_key(step)))
    match step:
        case AddColumns() | GhostAlter():
            changed = replace(changed, columns_added=(*record.columns_added, *(c.name for c in step.columns)))
        case AddIndex():
            changed = replace(changed, indexes_added=(*record.indexes_added, step.index.name))
        case AddForeignKey():
            changed = replace(changed, foreign_keys_added=(*record.foreign_keys_added, step.foreign_key.name))
        case InstallTrigger():
            # A mirror that is new makes every earlier sweep worthless: the next one counts positions of its own.
            changed = replace(changed, walk=record.walk + 1)
        case OpenWrites():
            changed = replace(changed, both_written=True)
        case RemoveMirror():
            left = tuple(p for p in record.done if record.phase == "finish" or p in ("ddl", "backfill"))
            changed = replace(changed, both_written=False, on_conflict="", done=left)
        case DropColumns():
            changed = replace(changed, done=(), columns_added=())
        case DropIndex():
            left = tuple(n for n in record.indexes_added if n != step.index.name)
            changed = replace(changed, done=(), indexes_added=left)
        case DropForeignKey():
            left = tuple(n for n in record.foreign_keys_added if n != step.foreign_key.name)
            changed = replace(changed, done=(), foreign_keys_added=left)
        case MeasureBaselines():
            changed = replace(changed, baselines=tuple(sorted(outcome.figures.items())))
        case _:
            pass
    return changed
