"""The literals of value maps: of the column's own family, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column
from orchestrator.model.types import parse_type
from orchestrator.mysql.literals import literal


def column(name: str, type_: str = "varchar(32)", **more: Any) -> Column:
    return Column(name=name, type=parse_type(type_), **more)


@pytest.mark.parametrize(
    ("type_", "value", "sql"),
    [
        ("tinyint", "3", "3"),
        ("bigint unsigned", "18446744073709551615", "18446744073709551615"),
        ("bit(3)", "b'101'", "5"),
        ("decimal(5,2)", "1.50", "1.50"),
        ("double", "0.1", "0.1e0"),
        ("float", "0.1", "0.10000000149011612e0"),
        ("varchar(5)", "it's", "'it''s'"),
        ("varchar(5)", "a\\b", "'a\\\\b'"),
        ("varchar(2)", "😀é", "'😀é'"),
        ("varbinary(4)", "ab", "x'6162'"),
        ("enum('a','b')", "b", "'b'"),
        ("set('a','b')", "a,b", "'a,b'"),
        ("date", "2024-02-29", "DATE'2024-02-29'"),
        ("datetime(3)", "2024-02-29 10:00:00.5", "TIMESTAMP'2024-02-29 10:00:00.5'"),
        ("time", "-838:59:59", "TIME'-838:59:59'"),
        ("json", '{"a": 1}', "CAST('{\"a\": 1}' AS JSON)"),
        ("year", "2155", "2155"),
    ],
)
def test_a_literal_is_of_the_columns_own_family(type_: str, value: str, sql: str) -> None:
    assert literal(column("c", type_), value, "m") == sql


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("tinyint", "128"),
        ("tinyint", "abc"),
        ("int unsigned", "-1"),
        ("decimal(5,2)", "1.555"),
        ("decimal(5,2)", "1000"),
        ("decimal(5,2) unsigned", "-1"),
        ("double", "inf"),
        ("varchar(5)", "seven77"),
        ("char(5)", "a "),
        ("tinytext", "x" * 256),
        ("binary(4)", "ab"),
        ("varbinary(1)", "é"),
        ("enum('a','b')", "A"),
        ("set('a','b')", "b,a"),
        ("date", "2024-02-29 10:00:00"),
        ("datetime", "2024-02-29 10:00:00.5"),
        ("datetime", "yesterday"),
        ("timestamp", "2024-02-29 10:00:00"),
        ("json", "{bad"),
        ("point", "1"),
        ("year", "1800"),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_refused_with_value_and_type(type_: str, value: str) -> None:
    with pytest.raises(RunbookError) as refused:
        literal(column("c", type_), value, "m")
    assert repr(value) in refused.value.seen
    assert str(parse_type(type_)) in refused.value.seen


@pytest.mark.parametrize(
    ("charset", "value", "fits"), [("latin1", "é", True), ("latin1", "日", False), ("utf8mb3", "😀", False)]
)
def test_a_value_must_be_in_the_columns_character_set(charset: str, value: str, fits: bool) -> None:
    of = column("c", "varchar(5)", charset=charset)
    if fits:
        assert literal(of, value, "m") == f"'{value}'"
    else:
        with pytest.raises(RunbookError):
            literal(of, value, "m")
