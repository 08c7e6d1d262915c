"""What a change by gh-ost leaves in the record: going back drops what ddl added, and nothing else."""

from __future__ import annotations

from msgspec.structs import replace

from orchestrator.engine.effects import settled
from orchestrator.model.contract import Index, IndexPart, TableName
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.step import GhostAlter, StepClass, step_class, working_class
from tests.support.ddl import column
from tests.support.state import begin

TABLE = TableName("shop", "orders")
STEP = GhostAlter(
    table=TABLE,
    columns=(column("state", "varchar(20)"),),
    indexes=(Index("orders_state", (IndexPart("state"),)),),
    family=(TABLE,),
    why="a test",
)


def test_its_columns_and_indexes_are_remembered_as_added() -> None:
    record, _ = begin()
    after = settled(replace(record, columns_added=("a",)), STEP, Outcome(Result.DONE))
    assert (after.columns_added, after.indexes_added) == (("a", "state"), ("orders_state",))


def test_it_begins_as_an_exclusive_step_and_is_judged_as_rows_while_it_copies() -> None:
    assert step_class(STEP) is StepClass.EXCLUSIVE
    assert working_class(STEP) is StepClass.ROWS
