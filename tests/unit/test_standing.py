"""Where a table stands on the way to a step: only what is missing is left, and what is otherwise is not ours."""

from __future__ import annotations

from msgspec.structs import replace

from orchestrator.drivers.ddl.standing import standing
from orchestrator.model.contract import Column, Default, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.outcome import Seen
from orchestrator.model.step import (
    AddColumns,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    DropColumns,
    DropForeignKey,
    DropIndex,
)
from orchestrator.model.types import parse_type
from orchestrator.model.way import INPLACE
from tests.support.shapes import plain_shape

TABLE = TableName("shop", "orders")
A = Column("a", parse_type("int"), False, Default("0"))
B = Column("b", parse_type("int"))
INDEX = Index("a_idx", (IndexPart("a"),))
KEY = ForeignKey("b_fk", ("b",), TableName("shop", "p"), ("id",))
SHAPE = plain_shape(TABLE)
ADD = AddColumns(table=TABLE, columns=(A, B), family=(TABLE,))


def test_only_the_missing_columns_are_left() -> None:
    assert standing(ADD, SHAPE).seen is Seen.ABSENT
    half = standing(ADD, replace(SHAPE, columns=(A,)))
    assert (half.seen, half.left) == (Seen.PARTIAL, replace(ADD, columns=(B,)))
    assert standing(ADD, replace(SHAPE, columns=(A, B))).seen is Seen.PRESENT


def test_a_column_of_another_type_is_somebody_elses() -> None:
    found = standing(ADD, replace(SHAPE, columns=(replace(A, type=parse_type("bigint")),)))
    assert found.seen is Seen.UNKNOWN
    assert found.left is None
    assert "bigint" in found.problem


def test_a_table_that_is_gone_is_unknown() -> None:
    assert standing(ADD, None).seen is Seen.UNKNOWN


def test_an_index_is_there_when_it_is_equal() -> None:
    step = AddIndex(table=TABLE, index=INDEX, final_lock_budget_s=2, tries=3, family=(TABLE,))
    assert standing(step, SHAPE).seen is Seen.ABSENT
    assert standing(step, replace(SHAPE, indexes=(INDEX,))).seen is Seen.PRESENT
    assert standing(step, replace(SHAPE, indexes=(replace(INDEX, unique=True),))).seen is Seen.UNKNOWN


def test_a_foreign_key_waits_for_an_index_of_its_own() -> None:
    step = AddForeignKey(table=TABLE, foreign_key=KEY, family=(TABLE,))
    for useless in (INDEX, Index("i", (IndexPart("a"), IndexPart("b"))), Index("i", (IndexPart("b", prefix=3),))):
        found = standing(step, replace(SHAPE, indexes=(useless,)))
        assert (found.seen, found.left) == (Seen.ABSENT, None)
        assert "the server would add one" in found.problem
    served = standing(step, replace(SHAPE, indexes=(Index("i", (IndexPart("B"), IndexPart("a"))),)))
    assert served.left == step
    assert standing(step, replace(SHAPE, foreign_keys=(KEY,))).seen is Seen.PRESENT


def test_a_change_may_change_the_type_only() -> None:
    before = Column("c", parse_type("varchar(10)"), False, Default("x"))
    after = replace(before, type=parse_type("varchar(20)"))
    step = ChangeColumn(table=TABLE, before=before, after=after, way=INPLACE, family=(TABLE,))
    live = replace(SHAPE, columns=(before,))
    assert (standing(step, live).seen, standing(step, live).left) == (Seen.ABSENT, step)
    assert standing(step, replace(SHAPE, columns=(after,))).seen is Seen.PRESENT
    dropped = standing(replace(step, after=replace(after, default=None)), live)
    assert dropped.left is None
    assert "more than its type" in dropped.problem
    touched = standing(step, replace(SHAPE, columns=(replace(before, type=parse_type("varchar(12)")),)))
    assert touched.seen is Seen.UNKNOWN


def test_what_is_to_go_is_done_when_it_is_gone() -> None:
    drop = DropColumns(table=TABLE, columns=(A, B), family=(TABLE,))
    assert standing(drop, SHAPE).seen is Seen.PRESENT
    assert standing(drop, replace(SHAPE, columns=(B,))).left == replace(drop, columns=(B,))
    assert standing(DropIndex(table=TABLE, index=INDEX, family=(TABLE,)), SHAPE).seen is Seen.PRESENT
    key = DropForeignKey(table=TABLE, foreign_key=KEY, family=(TABLE,))
    assert standing(key, replace(SHAPE, foreign_keys=(KEY,))).seen is Seen.ABSENT
