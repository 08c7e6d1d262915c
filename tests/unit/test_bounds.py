"""Bounds of the keyed walk: typed literals, OR form, and the order of the index."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column, Index, IndexPart, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.keys import KeyPart, decode_key, encode_key
from orchestrator.model.types import parse_type
from orchestrator.mysql.sql.bounds import (
    KeyColumn,
    KeySpace,
    Span,
    among,
    key_space,
    literal,
    order,
    read_key,
    selected,
    show,
    within,
)
from tests.support.shapes import plain_shape

TABLE = TableName("shop", "orders")


def ref(column: str) -> str:
    return column


def space(*columns: tuple[str, str] | tuple[str, str, bool]) -> KeySpace:
    parts = tuple(KeyColumn(c[0], parse_type(c[1]), bool(c[2:] and c[2])) for c in columns)
    return KeySpace(TABLE, "PRIMARY", parts)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("bigint unsigned", 18446744073709551615, "18446744073709551615"),
        ("bigint", -9223372036854775808, "-9223372036854775808"),
        ("decimal(30,10)", Decimal("12345678901234567890.0000000001"), "12345678901234567890.0000000001"),
        ("decimal(30,10)", Decimal("1E-10"), "0.0000000001"),
        ("varchar(10)", "", "_utf8mb4''"),
        ("varchar(10)", "o'clock", "_utf8mb4'o''clock'"),
        ("varchar(10)", "a\\b", "_utf8mb4 0x615c62"),
        ("varchar(10)", "a\0", "_utf8mb4 0x6100"),
        ("binary(4)", b"\x00\xff\x20\x00", "x'00ff2000'"),
        ("varbinary(4)", b"", "x''"),
        ("datetime(6)", datetime(2026, 1, 2, 3, 4, 5, 6), "TIMESTAMP'2026-01-02 03:04:05.000006'"),
        ("datetime", "0000-00-00 00:00:00", "TIMESTAMP'0000-00-00 00:00:00'"),
        ("date", date(2026, 1, 2), "DATE'2026-01-02'"),
        ("date", "0000-00-00", "DATE'0000-00-00'"),
        ("time(6)", timedelta(hours=-838, minutes=-59, seconds=-59, microseconds=-1), "TIME'-838:59:59.000001'"),
        ("time(6)", timedelta(seconds=1), "TIME'00:00:01.000000'"),
    ],
)
def test_a_key_value_is_written_as_a_literal_of_its_own_type(kind: str, value: KeyPart, text: str) -> None:
    assert literal(KeyColumn("k", parse_type(kind)), value) == text
    assert decode_key(encode_key((value,))) == (value,)


@pytest.mark.parametrize(("kind", "value"), [("datetime", "x' OR '1"), ("int", True), ("int", 1.5), ("int", None)])
def test_what_is_no_key_value_is_never_written(kind: str, value: object) -> None:
    with pytest.raises(ValueError):
        literal(KeyColumn("k", parse_type(kind)), value)  # type: ignore[arg-type]  # what a caller must not do


def test_composite_bounds_are_in_or_form() -> None:
    text = within(space(("a", "int"), ("b", "int")), Span((1, 2), (3, 4)), ref)
    assert text == "(a > 1 OR (a = 1 AND b > 2)) AND (a < 3 OR (a = 3 AND b <= 4))"


def test_three_parts_nest() -> None:
    text = within(space(("a", "int"), ("b", "int"), ("c", "int")), Span((1, 2, 3)), ref)
    assert text == "(a > 1 OR (a = 1 AND (b > 2 OR (b = 2 AND c > 3))))"


def test_a_descending_part_is_walked_descending() -> None:
    mixed = space(("a", "int"), ("b", "int", True))
    assert within(mixed, Span((1, 2), (3, 4)), ref) == "(a > 1 OR (a = 1 AND b < 2)) AND (a < 3 OR (a = 3 AND b >= 4))"
    assert order(mixed, ref) == "a, b DESC"
    assert order(mixed, ref, backwards=True) == "a DESC, b"


def test_an_open_span_has_no_bounds() -> None:
    assert within(space(("a", "int")), Span(), ref) == "1 = 1"
    assert within(space(("a", "int")), Span(hi=(7,)), ref) == "a <= 7"


def test_an_enum_is_bound_by_number_as_the_server_orders_it() -> None:
    enum = space(("e", "enum('zz','aa','mm')"))
    assert selected(enum, ref) == ["e + 0"]
    assert within(enum, Span((1,), (3,)), ref) == "e IN (2, 3) AND e IN (0, 1, 2, 3)"
    assert within(enum, Span((3,)), ref) == "1 = 0"
    assert read_key(enum, (2.0,)) == (2,)
    assert show(enum, (2,)) == "aa"
    assert show(enum, (0,)) == "0"


def test_keys_are_named_one_by_one() -> None:
    assert among(space(("a", "int"), ("b", "int")), [(1, 2), (3, 4)], ref) == "((a = 1 AND b = 2) OR (a = 3 AND b = 4))"
    assert among(space(("a", "int")), [], ref) == "(1 = 0)"


def shape(key: tuple[str, ...], problem: str = "") -> Shape:
    columns = (Column("id", parse_type("int"), null=False), Column("at", parse_type("datetime(6)"), null=False))
    index = Index("PRIMARY", (IndexPart("id"), IndexPart("at", descending=True)), unique=True)
    named = "PRIMARY" if key else ""
    return plain_shape(TABLE, *columns, indexes=(index,), key=key, key_name=named, key_problem=problem)


def test_the_key_space_follows_the_index() -> None:
    got = key_space(shape(("id", "at")))
    assert [(c.name, str(c.type), c.descending) for c in got.columns] == [
        ("id", "int", False),
        ("at", "datetime(6)", True),
    ]


def test_no_usable_key_says_why() -> None:
    with pytest.raises(RunbookError) as refused:
        key_space(shape((), "u: v can be NULL"))
    assert "v can be NULL" in refused.value.seen
