"""DDL: the expand, split into the cheapest safe statements, each with its algorithm named.

Which statement goes which way is the chooser's word (``orchestrator.model.chooser``); which engine takes it, and what
is refused because no engine may, is decided in ``phases.engines``.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.chooser import Ground
from orchestrator.model.comparing import comparison
from orchestrator.model.contract import IndexPart
from orchestrator.model.facts import Facts, Need, Shape
from orchestrator.model.in_use import columns_found
from orchestrator.model.runbook import Runbook
from orchestrator.model.shape_diff import ShapeDiff, compare_shape
from orchestrator.model.state import Record
from orchestrator.model.step import AddForeignKey, AddIndex, CountDuplicates, ProveForeignKey, Step, TryDdl, step_key
from orchestrator.model.verdict import Problem, ProblemKind
from phases.demands import (
    cascade_problems,
    constraint_problems,
    ground_of,
    key_problems,
    shape_of,
    table_problems,
    unseen_values,
    value_problems,
)
from phases.engines import divide
from phases.limits import disk_problems, limit_problems
from phases.wanted import change_problems, wanted_clauses

NAME = "ddl"


class Ddl:
    name = NAME
    entry_needs = frozenset({Need.SHAPE, Need.VALUES, Need.SERVER, Need.ROW_VERSIONS, Need.SIZE, Need.DISK})
    needs = frozenset({Need.SHAPE, Need.SERVER, Need.ROW_VERSIONS})

    def problems(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Problem]:
        table = table_problems(facts, str(runbook.table))
        if table or facts.shape is None or facts.shape.value is None:
            return table
        shape = facts.shape.value
        diff = compare_shape(runbook.contract, shape)
        fills = record.next_phase in ("ddl", "backfill")
        found = (
            *key_problems(facts),
            *constraint_problems(runbook, facts),
            *cascade_problems(runbook, facts),
            *_different(diff),
            *change_problems(runbook, shape, diff),
            *_unknown_columns(runbook, shape),
            *limit_problems(runbook, shape, diff),
            *_engine_problems(runbook, facts, shape, diff),
            *(value_problems(facts) if fills else ()),
        )
        return found or (unseen_values(facts) if fills else ())

    def steps(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        return (*_asked_of_all(runbook, shape_of(facts), record), *missing_steps(runbook, ground_of(facts), record))


def _asked_of_all(runbook: Runbook, shape: Shape, record: Record) -> Sequence[Step]:
    """Columns that were there before us, asked of every row whether somebody uses them, before anything is altered: the
    scan of live values is bounded, and backfill writes over what it finds in them."""
    found = columns_found(runbook.contract, shape, record.columns_added)
    asked = comparison(record, "in-use", runbook.phases.target_time_s, tuple(c.name for c in found))
    return (asked,) if found and step_key(asked) not in record.done_steps else ()


def missing_steps(runbook: Runbook, ground: Ground, record: Record) -> Sequence[Step]:
    """What the table still misses of the contract, in the order in which it comes."""
    shape = ground.shape
    diff = compare_shape(runbook.contract, shape)
    clauses = wanted_clauses(runbook, shape, diff)
    family = tuple(dict.fromkeys((*shape.family, *(f.references for f in runbook.contract.foreign_keys))))
    changing = divide(clauses, ground, runbook, family).steps
    tried = "try-ddl" in record.done_steps or not changing
    trial = () if tried else (TryDdl(table=runbook.table, family=family, steps=changing),)
    return (*trial, *_counts(runbook, shape, changing, record), *_with_proofs(runbook, changing, record))


def _counts(runbook: Runbook, shape: Shape, changing: Sequence[Step], record: Record) -> Sequence[Step]:
    """Duplicates of every new unique index, counted before the first statement. A new column that is NULL in every row
    that exists makes duplicates impossible, so nothing is counted then; nor after our columns or names came, as the
    build counts by itself, nor of a column whose name comes only then."""
    found: list[CountDuplicates] = []
    if record.columns_added or record.columns_renamed:
        return found
    renamed = {r.new.lower() for r in runbook.contract.renames_in_place}
    for step in changing:
        if not (isinstance(step, AddIndex) and step.index.unique):
            continue
        added = [c for c in runbook.contract.columns if shape.column(c.name) is None and c.name in step.index.columns]
        computed = any(c.generated is not None or (c.default and c.default.is_expression) for c in added)
        count = CountDuplicates(table=runbook.table, index=step.index, absent=tuple(c.name for c in added))
        free = computed or any(c.default is None for c in added) or any(p.expression for p in step.index.parts)
        free = free or any(c.lower() in renamed for c in step.index.columns)
        if not free and step_key(count) not in record.done_steps:
            found.append(count)
    return found


def _with_proofs(runbook: Runbook, steps: Sequence[Step], record: Record) -> Sequence[Step]:
    """Each key is added unchecked and then proven; a key that was found there is proven as well."""
    ordered = list(steps)
    for key in runbook.contract.foreign_keys:
        if f"prove-foreign-key:{key.name}" in record.done_steps:
            continue
        proof = ProveForeignKey(table=runbook.table, foreign_key=key)
        at = next((n for n, s in enumerate(ordered) if isinstance(s, AddForeignKey) and s.foreign_key == key), None)
        ordered.insert(len(ordered) if at is None else at + 1, proof)
    return ordered


def _engine_problems(runbook: Runbook, facts: Facts, shape: Shape, diff: ShapeDiff) -> Sequence[Problem]:
    """What no engine may do. A server that cannot be seen is no problem here: its check holds."""
    if facts.server is None or facts.server.value is None:
        return ()
    divided = divide(wanted_clauses(runbook, shape, diff), ground_of(facts), runbook, shape.family)
    return (*divided.problems, *disk_problems(runbook, facts, divided.steps))


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


def _unknown_columns(runbook: Runbook, shape: Shape) -> Sequence[Problem]:
    """Every column that an index or key names, or behind which one is put, exists or is added."""
    contract = runbook.contract
    known = {c.name.lower() for c in (*shape.columns, *contract.columns)}
    known |= {r.new.lower() for r in contract.renames_in_place}
    wanted = [(f"index {i.name}", p) for i in contract.indexes for p in i.parts]
    wanted += [(f"foreign key {f.name}", IndexPart(c)) for f in contract.foreign_keys for c in f.columns]
    wanted += [(f"after: of {c.name}", IndexPart(c.after)) for c in contract.columns if c.after]
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
