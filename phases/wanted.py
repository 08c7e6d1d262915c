"""What is still missing of a contract, as clauses that the chooser knows; and which changes are no widening."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.chooser import widens
from orchestrator.model.clauses import (
    ChangedColumn,
    CheckClause,
    Clause,
    NewColumn,
    NewDefault,
    NewForeignKey,
    NewIndex,
    OtherIndex,
    RenamedColumn,
)
from orchestrator.model.contract import Column
from orchestrator.model.facts import Shape
from orchestrator.model.runbook import Runbook
from orchestrator.model.shape_diff import ShapeDiff
from orchestrator.model.verdict import Problem, ProblemKind


def wanted_clauses(runbook: Runbook, shape: Shape, diff: ShapeDiff) -> Sequence[Clause]:
    """In the order in which they must take effect: columns, their defaults, renames, changes, indexes, keys, checks; at
    the end indexes are shown that were built hidden."""
    return (
        *(NewColumn(c) for c in diff.columns_missing),
        *(NewDefault(c.name) for c in diff.defaults_missing),
        *(RenamedColumn(r.old, r.new) for r in diff.renames_missing),
        *(ChangedColumn(before, after) for before, after in _changes(runbook, shape, diff)),
        *(NewIndex(i) for i in diff.indexes_missing),
        *(NewForeignKey(f) for f in diff.foreign_keys_missing),
        *(CheckClause("add not enforced", c) for c in diff.checks_missing),
        *(OtherIndex(i.name) for i in (*diff.indexes_missing, *diff.indexes_hidden) if i.shown_last),
    )


def _changes(runbook: Runbook, shape: Shape, diff: ShapeDiff) -> Sequence[tuple[Column, Column]]:
    missing = {d.name for d in diff.changes_missing}
    found = []
    for after in runbook.contract.changes:
        before = shape.column(after.name)
        if after.name in missing and before is not None and widens(before, after):
            found.append((before, after))
    return found


def change_problems(runbook: Runbook, shape: Shape, diff: ShapeDiff) -> Sequence[Problem]:
    """Changes that are no widening: values could be lost or compare otherwise, whatever engine makes them."""
    offered = {after.name for _, after in _changes(runbook, shape, diff)}
    return tuple(
        Problem(
            ProblemKind.RUNBOOK,
            "not-a-widening",
            f"change of {d}",
            "a column made wider, so that every value fits unchanged: VARCHAR longer, ENUM labels added at the end;"
            " with allow_rebuild also a wider number, text or moment",
            "make it a new column with a mapping",
        )
        for d in diff.changes_missing
        if d.name not in offered
    )
