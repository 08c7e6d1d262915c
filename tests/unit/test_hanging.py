"""What somebody hung on a column that goes is named before the mirror goes, and what is ours hinders nobody."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.errors import Held
from orchestrator.model.contract import Column, Default, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.facts import Dependent, Facts, Reading, Trigger
from orchestrator.model.hanging import hanging_on
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import FORWARD, Record, State
from orchestrator.model.types import parse_type
from tests.support.shapes import plain_shape
from tests.support.world import NEW, OLD, RUNBOOK, TABLE, Stage

DROPPING = replace(RUNBOOK, phases=replace(RUNBOOK.phases, rollback_ddl=RollbackDdl.DROP))
OTHER = TableName("shop", "items")
INT = parse_type("int")
BEGUN = Record("orders", TABLE, "", "", "", "", done=("ddl",))


def hanging(*columns: Column, dependents: tuple[Dependent, ...] = (), **more: Any) -> tuple[str, ...]:
    """What hangs on ``state``, which ddl added, in a table that has these columns and things besides."""
    shape = plain_shape(TABLE, OLD, NEW, *columns, **more)
    record = replace(BEGUN, columns_added=("state",), indexes_added=("ours",), checks_added=("mine",))
    return hanging_on(DROPPING, record, Facts(shape=Reading(0, shape), dependents=Reading(0, dependents)))


def trigger(name: str) -> Trigger:
    return Trigger(name, "BEFORE", "UPDATE", "SET NEW.status = NEW.state", "", "", 1)


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ({"columns": [Column("g", INT, generated="(`state` * 2)")]}, "the column g, computed from it,"),
        ({"columns": [Column("d", INT, default=Default("(`state` + 1)", is_expression=True))]}, "the column d"),
        ({"checks": (("c", "(`state` > `status`)"),)}, "the CHECK c"),
        ({"indexes": (Index("f", (IndexPart("", expression="(`state` + 1)"),)),)}, "the index f"),
        ({"indexes": (Index("i", (IndexPart("status"), IndexPart("STATE"))),)}, "the index i"),
        ({"foreign_keys": (ForeignKey("k", ("state",), OTHER, ("id",)),)}, "the foreign key k"),
        ({"referenced_by": ((OTHER, ForeignKey("k", ("s",), TABLE, ("state",))),)}, "the foreign key k of shop.items"),
        ({"triggers": (trigger("theirs"),)}, "the trigger theirs"),
        ({"partitioned_by": "`state`"}, "a partition"),
        ({"dependents": (Dependent("view shop.v", "select `t`.`state` from `t`"),)}, "the view shop.v"),
    ],
)
def test_what_needs_a_column_that_goes_is_named(there: dict[str, Any], said: str) -> None:
    """B45, B50: 3108, 3837, 3959 and 1356 are said before, by the name of what depends on the column."""
    (line,) = hanging(*there.pop("columns", ()), **there)
    assert line.startswith(said)
    assert line.endswith("needs state")


def test_what_is_ours_or_needs_another_column_hangs_on_nothing() -> None:
    assert (
        hanging(
            Column("g", INT, generated="(`status` * 2)"),
            Column("d", INT, default=Default("state")),
            checks=(("mine", "(`state` > 0)"), ("c", "(`restated` > 0)")),
            indexes=(Index("ours", (IndexPart("state"),)), Index("i", (IndexPart("status"),))),
            triggers=(trigger("_rollout_orders_u"),),
            dependents=(
                Dependent("view shop.v", "select `t`.`id` from `t`"),
                Dependent("procedure p", None),
            ),
        )
        == ()
    )


def test_readers_go_back_and_then_it_is_held_while_the_mirror_still_stands() -> None:
    stage = Stage(runbook=DROPPING)
    for phase in FORWARD:
        stage.commands.next(phase)
    stage.world.dependents = (Dependent("view shop.recent", "select `orders`.`state` from `orders`"),)
    with pytest.raises(Held, match=r"the view shop\.recent needs state"):
        stage.commands.rollback("", ())
    assert (stage.world.effective(), stage.record.state) == (0, State.HELD)
    assert stage.world.mirror == {"update", "insert"}
    assert "drain" not in stage.driver.applied
    stage.world.dependents = ()
    stage.commands.rollback("", ())
    assert (stage.world.mirror, stage.world.columns) == (set(), set())


def test_columns_that_stay_may_be_needed() -> None:
    stage = Stage()
    for phase in FORWARD[:3]:
        stage.commands.next(phase)
    stage.world.dependents = (Dependent("view shop.recent", "select `orders`.`state` from `orders`"),)
    stage.commands.rollback("", ())
    assert stage.world.mirror == set()
