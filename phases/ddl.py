"""DDL: the expand, split into the cheapest safe statements, each with its algorithm named.

Why the split (measured on the server): one ALTER runs with the worst algorithm of its clauses. Columns alone are
INSTANT;
with an index they rebuild the table, with a foreign key they copy it.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.contract import Column, IndexPart, TableName
from orchestrator.model.facts import Facts, Need, Shape
from orchestrator.model.runbook import Runbook
from orchestrator.model.shape_diff import ShapeDiff, compare_shape
from orchestrator.model.state import Record
from orchestrator.model.step import AddColumns, AddForeignKey, AddIndex, ChangeColumn, ProveForeignKey, Step
from orchestrator.model.types import Family
from orchestrator.model.verdict import Problem, ProblemKind
from phases.demands import constraint_problems, key_problems, shape_of, table_problems, value_problems

NAME = "ddl"
# One length byte up to here, two beyond: MySQL can extend a VARCHAR in place only on one side of this line.
_ONE_BYTE = 255
_BYTES_PER_CHARACTER = {"utf8mb4": 4, "utf8mb3": 3, "latin1": 1, "ascii": 1, "binary": 1}


class Ddl:
    name = NAME
    entry_needs = frozenset({Need.SHAPE, Need.VALUES, Need.SERVER})
    needs = frozenset({Need.SHAPE})

    def problems(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Problem]:
        table = table_problems(facts, str(runbook.table))
        if table or facts.shape is None or facts.shape.value is None:
            return table
        shape = facts.shape.value
        diff = compare_shape(runbook.contract, shape)
        return (
            *key_problems(facts),
            *constraint_problems(runbook, facts),
            *_different(diff),
            *_changes(runbook, shape, diff),
            *_indexes(runbook, shape),
            *(value_problems(facts) if record.next_phase in ("ddl", "backfill") else ()),
        )

    def steps(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        shape = shape_of(facts)
        diff = compare_shape(runbook.contract, shape)
        table, settings = runbook.table, runbook.phases
        family = tuple(dict.fromkeys((*shape.family, *(f.references for f in runbook.contract.foreign_keys))))
        columns = (
            (AddColumns(table=table, columns=diff.columns_missing, family=family),) if diff.columns_missing else ()
        )
        changes = tuple(
            ChangeColumn(table=table, before=before, after=after, algorithm=algorithm, family=family)
            for before, after, algorithm in _missing_changes(runbook, shape, diff)
        )
        indexes = tuple(
            AddIndex(
                table=table,
                index=index,
                final_lock_budget_s=settings.final_lock_budget_s,
                tries=settings.index_tries,
                family=family,
            )
            for index in diff.indexes_missing
        )
        return (*columns, *changes, *indexes, *_foreign_keys(runbook, diff, record, family))


def _foreign_keys(runbook: Runbook, diff: ShapeDiff, record: Record, family: tuple[TableName, ...]) -> Sequence[Step]:
    """Each key is added unchecked and then proven; a key that was found there is proven as well."""
    steps: list[Step] = []
    for key in runbook.contract.foreign_keys:
        if key in diff.foreign_keys_missing:
            steps.append(AddForeignKey(table=runbook.table, foreign_key=key, family=family))
        if f"prove-foreign-key:{key.name}" not in record.done_steps:
            steps.append(ProveForeignKey(table=runbook.table, foreign_key=key))
    return steps


def _different(diff: ShapeDiff) -> Sequence[Problem]:
    return tuple(
        Problem(
            ProblemKind.RUNBOOK,
            "exists-otherwise",
            f"{d} (it is there already)",
            "a column, index or key that is missing, or exactly as the contract says",
            "name it otherwise in the runbook, or make the contract say what is there",
        )
        for d in diff.different
    )


def _indexes(runbook: Runbook, shape: Shape) -> Sequence[Problem]:
    """Every column that an index or key names exists, or is added."""
    known = {c.name.lower() for c in shape.columns} | {c.name.lower() for c in runbook.contract.columns}
    wanted = [(f"index {i.name}", p) for i in runbook.contract.indexes for p in i.parts]
    wanted += [(f"foreign key {f.name}", IndexPart(c)) for f in runbook.contract.foreign_keys for c in f.columns]
    return tuple(
        Problem(
            ProblemKind.RUNBOOK,
            "unknown-column",
            f"{what} names the column {part.column}, which is not there and is not added",
            f"a column of {shape.table} or of the contract",
            "correct the name in the runbook",
        )
        for what, part in wanted
        if part.expression is None and part.column.lower() not in known
    )


def _missing_changes(runbook: Runbook, shape: Shape, diff: ShapeDiff) -> Sequence[tuple[Column, Column, str]]:
    missing = {d.name for d in diff.changes_missing}
    found = []
    for after in runbook.contract.changes:
        before = shape.column(after.name)
        algorithm = widening(before, after, shape.charset) if before is not None else None
        if after.name in missing and before is not None and algorithm is not None:
            found.append((before, after, algorithm))
    return found


def _changes(runbook: Runbook, shape: Shape, diff: ShapeDiff) -> Sequence[Problem]:
    offered = {after.name for _, after, _ in _missing_changes(runbook, shape, diff)}
    return tuple(
        Problem(
            ProblemKind.RUNBOOK,
            "not-a-widening",
            f"change of {d}",
            "a VARCHAR made longer on its side of 255 bytes, or ENUM labels added at the end",
            "make it a new column with a mapping; everything else rebuilds or copies the table",
        )
        for d in diff.changes_missing
        if d.name not in offered
    )


def widening(before: Column, after: Column, charset: str) -> str | None:
    """INSTANT or INPLACE when the change is a safe widening; None when it would rebuild or copy (facts of MySQL
    9.7)."""
    old, new = before.type, after.type
    if old.base != new.base or before.null != after.null:
        return None
    if old.family is Family.ENUM and new.labels[: len(old.labels)] == old.labels:
        # The stored size of an ENUM grows from one byte to two beyond 255 labels, which rebuilds.
        return "INSTANT" if (len(old.labels) <= _ONE_BYTE) == (len(new.labels) <= _ONE_BYTE) else None
    if old.base == "varchar" and (new.length or 0) > (old.length or 0):
        width = _BYTES_PER_CHARACTER.get(before.charset or charset, 4)
        same_side = ((old.length or 0) * width <= _ONE_BYTE) == ((new.length or 0) * width <= _ONE_BYTE)
        return "INPLACE" if same_side else None
    return None
