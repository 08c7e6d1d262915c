"""A column that the mappings read is looked at before every stage; whatever else somebody alters stops nothing."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchestrator.errors import RunbookError
from orchestrator.model.contract import (
    Before,
    Column,
    Contract,
    Copy,
    Default,
    Expression,
    Index,
    IndexPart,
    Mapping,
    Rename,
    RenameWay,
    TableName,
)
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.source_drift import read_by_mappings, source_changes
from orchestrator.model.state import FORWARD, State
from orchestrator.model.types import parse_type
from tests.support.shapes import plain_shape
from tests.support.world import OLD, Stage

TABLE = TableName("shop", "orders")
STATUS = Column("status", parse_type("varchar(20)"), False)
LIVE = replace(STATUS, charset="utf8mb4", collation="utf8mb4_0900_ai_ci")
TOTAL, NOTE = Column("total", parse_type("decimal(9,2)")), Column("note", parse_type("varchar(50)"))
CONTRACT = Contract(
    TABLE,
    (Column("state", parse_type("varchar(32)")), Column("cents", parse_type("bigint"))),
    mappings=(Mapping("state", "status", Copy(), Copy()), Mapping("cents", None, Expression("ROUND(`total` * 100)"))),
    before=Before((STATUS, TOTAL, NOTE), collation="utf8mb4_0900_ai_ci"),
)


def told(live: Column, contract: Contract = CONTRACT, **more: object) -> list[str]:
    """What is said when the first column is that one now."""
    assert contract.before is not None
    columns = (live, *contract.before.columns[1:])
    return list(source_changes(contract, contract.before.columns, plain_shape(TABLE, *columns, **more)))


@pytest.mark.parametrize(
    ("live", "said"),
    [
        (replace(LIVE, type=parse_type("varchar(80)")), "type is varchar(80), was varchar(20)"),
        (replace(LIVE, null=True), "NULL is yes, was no"),
        (replace(LIVE, collation="utf8mb4_bin"), "collation is utf8mb4_bin, was utf8mb4_0900_ai_ci"),
        (replace(LIVE, generated="`note`"), "generated as is note, was "),
    ],
)
def test_what_changed_of_a_column_that_a_mapping_reads_is_said_with_what_it_was(live: Column, said: str) -> None:
    """B148: stop with a diff."""
    (line,) = told(live)
    assert line.startswith("column status: "), line
    assert said in line


def test_a_column_of_an_expression_is_read_too_and_one_that_is_gone_is_said() -> None:
    shape = plain_shape(TABLE, LIVE, replace(TOTAL, type=parse_type("float")))
    assert CONTRACT.before is not None
    assert list(source_changes(CONTRACT, CONTRACT.before.columns, shape)) == [
        "column total: type is float, was decimal(9,2)"
    ]
    gone = plain_shape(TABLE, TOTAL, NOTE)
    assert list(source_changes(CONTRACT, CONTRACT.before.columns, gone)) == [
        "column status is gone, it was varchar(20)"
    ]


def test_what_no_mapping_reads_is_somebodys_own() -> None:
    other = (replace(NOTE, type=parse_type("text")), Column("more", parse_type("int")))
    shape = plain_shape(TABLE, LIVE, TOTAL, *other, indexes=(Index("i", (IndexPart("status"),)),), collation="latin1")
    assert CONTRACT.before is not None
    assert list(source_changes(CONTRACT, CONTRACT.before.columns, shape)) == []
    assert told(replace(LIVE, default=Default("x"), comment="said", invisible=True)) == []


def test_what_the_contract_makes_of_a_column_is_no_drift_done_or_not() -> None:
    wider = replace(CONTRACT, changes=(replace(STATUS, type=parse_type("varchar(40)")),))
    assert told(replace(LIVE, type=parse_type("varchar(40)")), wider) == []
    assert told(LIVE, wider) == []
    assert len(told(replace(LIVE, type=parse_type("varchar(80)")), wider)) == 1
    renamed = replace(CONTRACT, renames=(Rename("status", "phase", RenameWay.RENAME),))
    assert told(replace(LIVE, name="phase"), renamed) == []
    assert len(told(replace(LIVE, name="phase", null=True), renamed)) == 1


def test_a_function_is_no_column_of_its_name_and_a_new_column_no_source() -> None:
    left = replace(CONTRACT, mappings=(Mapping("state", None, Expression("LEFT(status, 3)")),))
    columns = (LIVE, Column("left", parse_type("int")), Column("state", parse_type("varchar(32)")))
    assert read_by_mappings(left, columns) == (LIVE,)


@pytest.mark.parametrize("phase", FORWARD[1:])
def test_no_stage_begins_on_a_source_that_is_not_what_ddl_found(phase: str) -> None:
    """B148: the live definition is compared before every phase, also where the runbook does not say what stood."""
    stage = Stage()
    for before in FORWARD[: FORWARD.index(phase)]:
        stage.commands.next(before)
    assert stage.record.sources == (OLD,)
    stage.world.old = replace(OLD, type=parse_type("bigint"))
    with pytest.raises(RunbookError, match="column status: type is bigint, was int"):
        stage.commands.next(phase)
    assert phase not in stage.record.done
    stage.world.old = OLD
    stage.commands.next(phase)


def test_the_way_back_is_open_whatever_became_of_the_source_and_ddl_then_begins_with_it() -> None:
    stage = Stage()
    stage.with_runbook(rollback_ddl=RollbackDdl.DROP)
    for phase in FORWARD[:3]:
        stage.commands.next(phase)
    stage.world.old = replace(OLD, null=False)
    stage.commands.rollback("", ())
    stage.commands.next("ddl")
    assert stage.record.sources == (stage.world.old,)


def test_the_end_is_open_too() -> None:
    stage = Stage()
    for phase in FORWARD:
        stage.commands.next(phase)
    stage.world.old = replace(OLD, type=parse_type("bigint"))
    stage.commands.finish(False, ())
    assert stage.record.state is State.FINISHED
