"""What the server spells otherwise than a person is the same; what means something else is not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchestrator.model.contract import Column, Default, Index, IndexPart, TableName
from orchestrator.model.shape_diff import column_reasons, index_reasons
from orchestrator.model.types import parse_type
from tests.support.shapes import plain_shape

SHAPE = plain_shape(TableName("s", "t"), Column("s", parse_type("varchar(32)")), collation="utf8mb4_unicode_ci")


def reasons(kind: str, wanted: Default | None, live: Default | None) -> tuple[str, ...]:
    of = parse_type(kind)
    return column_reasons(Column("c", of, default=wanted), Column("c", of, default=live), SHAPE)


@pytest.mark.parametrize(
    ("kind", "wanted", "live"),
    [
        ("int", "0", "0"),
        ("int", "true", "1"),
        ("decimal(10,2)", "0", "0.00"),
        ("decimal(10,2)", "1.5", "1.50"),
        ("bigint", "120000", "120000"),
        ("bit(3)", "5", "b'101'"),
        ("datetime", "2020-01-01", "2020-01-01 00:00:00"),
        ("datetime(3)", "2020-01-01 00:00:00", "2020-01-01 00:00:00.000"),
        ("binary(4)", "ab", "0x61620000"),
        ("varbinary(4)", "ab", "0x6162"),
        ("varchar(10)", "it's", "it's"),
    ],
)
def test_literals_that_are_stored_alike_are_equal(kind: str, wanted: str, live: str) -> None:
    assert reasons(kind, Default(wanted), Default(live)) == ()


@pytest.mark.parametrize(
    ("kind", "wanted", "live"),
    [
        ("int", "0", "1"),
        ("varchar(10)", "0", "0.0"),
        ("varchar(10)", "a", "A"),
        ("varchar(10)", "a", "a "),
        ("decimal(10,2)", "1", "1.01"),
        ("varbinary(4)", "ab", "0x616200"),
    ],
)
def test_literals_that_are_stored_otherwise_are_different(kind: str, wanted: str, live: str) -> None:
    assert len(reasons(kind, Default(wanted), Default(live))) == 1


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        ("CURRENT_TIMESTAMP(3)", "CURRENT_TIMESTAMP(3)"),
        ("now(3)", "CURRENT_TIMESTAMP(3)"),
        ("NOW()", "CURRENT_TIMESTAMP"),
        ("(json_object())", "json_object()"),
        ("( JSON_OBJECT('a', \"b\") )", "(json_object(_utf8mb4'a',_utf8mb4'b'))"),
        ("concat('it''s', x)", "(concat(_utf8mb4'it\\'s',`x`))"),
    ],
)
def test_expressions_are_compared_without_what_the_server_adds(wanted: str, live: str) -> None:
    assert reasons("varchar(99)", Default(wanted, True), Default(live, True)) == ()


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        ("json_object('a', 1)", "json_object('A', 1)"),
        ("concat('a b')", "concat('ab')"),
        ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP(3)"),
        ("(a) + (b)", "a) + (b"),
    ],
)
def test_expressions_that_mean_something_else_are_different(wanted: str, live: str) -> None:
    assert reasons("varchar(99)", Default(wanted, True), Default(live, True))


def test_a_literal_is_no_expression_of_the_same_letters() -> None:
    assert reasons("varchar(99)", Default("uuid()"), Default("(uuid())", True))


def test_a_collation_that_the_contract_leaves_out_is_the_tables() -> None:
    of = parse_type("varchar(10)")
    live = Column("c", of, charset="utf8mb4", collation="utf8mb4_unicode_ci")
    assert column_reasons(Column("c", of), live, SHAPE) == ()
    other = Column("c", of, charset="utf8mb4", collation="utf8mb4_bin")
    assert column_reasons(Column("c", of), other, SHAPE) == ("collation is utf8mb4_bin, wanted utf8mb4_unicode_ci",)
    assert column_reasons(Column("c", of, charset="utf8mb4"), other, SHAPE) == ()
    assert column_reasons(Column("c", of, charset="latin1"), other, SHAPE)
    assert column_reasons(Column("c", of, collation="UTF8MB4_BIN"), other, SHAPE) == ()


def test_a_prefix_as_long_as_its_column_is_none() -> None:
    def index(prefix: int | None) -> Index:
        return Index("i", (IndexPart("s", prefix=prefix),))

    assert index_reasons(index(32), index(None), SHAPE) == ()
    assert index_reasons(index(31), index(None), SHAPE)


@pytest.mark.parametrize("note", ["after", "comment", "writer", "retire"])
def test_what_is_only_told_to_people_makes_no_other_column(note: str) -> None:
    column = Column("state", parse_type("varchar(20)"))
    told = replace(column, **{note: "words"})
    assert (told == column, told != column, hash(told) == hash(column)) == (True, False, True)
    other = replace(column, null=False)
    assert (other == column, other != column) == (False, True)
