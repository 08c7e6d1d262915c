"""What hangs on a column that the way back would take away, and is not ours: it would break, or the server would refuse
when the mirror is gone already. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from orchestrator.model.contract import Column
from orchestrator.model.facts import Facts, Shape
from orchestrator.model.runbook import Runbook
from orchestrator.model.shape_digest import is_ours
from orchestrator.model.state import Record
from orchestrator.model.way_back import remaining
from orchestrator.model.words import says_column


class Going(Struct, frozen=True):
    """Columns of ours that are dropped, and names of ours that go back to what they were."""

    dropped: tuple[str, ...]
    renamed: tuple[str, ...]

    def said(self, sql: str) -> str:
        """The first of them that ``sql`` says, or ""."""
        return next((n for n in (*self.dropped, *self.renamed) if says_column(sql, n)), "")

    def among(self, names: tuple[str, ...]) -> str:
        """The first dropped one among ``names``, or ""."""
        there = {n.lower() for n in names}
        return next((n for n in self.dropped if n.lower() in there), "")


def takes_columns(runbook: Runbook, record: Record) -> bool:
    """Whether the way back to ``record.target`` takes away a column, or a name, that ddl added."""
    keeps = record.target or "ddl" in remaining(record, runbook.phases.rollback_ddl)
    return not keeps and bool(record.columns_added or record.columns_renamed)


def hanging_on(runbook: Runbook, record: Record, facts: Facts) -> tuple[str, ...]:
    """``the view shop.recent needs state``, a sentence for each thing that is not ours and needs a column that the way
    back to ``record.target`` would take away. Facts that were not looked at say nothing."""
    shape = facts.shape.value if facts.shape is not None else None
    if shape is None or not takes_columns(runbook, record):
        return ()
    contract = runbook.contract
    going = Going(
        tuple(c.name for c in contract.columns if c.name in record.columns_added and shape.column(c.name)),
        tuple(r.new for r in contract.renames_in_place if r.old in record.columns_renamed and shape.column(r.new)),
    )
    if not (going.dropped or going.renamed):
        return ()
    found = (*_in_the_table(shape, record, going), *_elsewhere(facts, going))
    return tuple(f"{what} needs {column}" for what, column in found if column)


def _in_the_table(shape: Shape, record: Record, going: Going) -> Iterator[tuple[str, str]]:
    """Things of the table itself, each with the column that it needs, or "". What ddl added goes before the columns."""
    for column in shape.columns:
        if not going.among((column.name,)):
            yield f"the column {column.name}, computed from it,", going.said(_computed(column))
    for name, clause in shape.checks:
        if name not in record.checks_added:
            yield f"the CHECK {name}", going.said(clause)
    for index in shape.indexes:
        if index.name not in record.indexes_added:
            said = going.said(" ".join(p.expression or "" for p in index.parts))
            yield f"the index {index.name}", going.among(index.columns) or said
    for key in shape.foreign_keys:
        if key.name not in record.foreign_keys_added:
            yield f"the foreign key {key.name}", going.among(key.columns)
    for table, key in shape.referenced_by:
        if table != shape.table:
            yield f"the foreign key {key.name} of {table}", going.among(key.referenced_columns)
    for trigger in shape.triggers:
        if not is_ours(trigger):
            yield f"the trigger {trigger.name}", going.said(trigger.body)
    yield "a partition", going.said(shape.partitioned_by)


def _computed(column: Column) -> str:
    default = column.default
    return f"{column.generated or ''} {default.text if default is not None and default.is_expression else ''}"


def _elsewhere(facts: Facts, going: Going) -> Iterator[tuple[str, str]]:
    """Views, routines, events and triggers of other tables; the plan names those that this account may not read."""
    for dependent in (facts.dependents.value if facts.dependents is not None else None) or ():
        if dependent.definition is not None:
            yield f"the {dependent.name}", going.said(dependent.definition)
