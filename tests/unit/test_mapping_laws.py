"""The laws of mappings on a live table, and the literals of value maps; no server is needed to judge them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.errors import RunbookError
from orchestrator.model.contract import (
    Column,
    Contract,
    Copy,
    Default,
    Expression,
    ForeignKey,
    Index,
    IndexPart,
    Mapping,
    TableName,
    Unmapped,
    ValueMap,
)
from orchestrator.model.facts import Shape
from orchestrator.model.types import parse_type
from orchestrator.mysql.laws import cascade_problems, check_pairs
from orchestrator.mysql.literals import literal
from tests.support.shapes import plain_shape

TABLE = TableName("shop", "orders")
OTHER = TableName("shop", "people")


def column(name: str, type_: str = "varchar(32)", **more: Any) -> Column:
    return Column(name=name, type=parse_type(type_), **more)


def index(name: str, *columns: str, unique: bool = True) -> Index:
    return Index(name, tuple(IndexPart(c) for c in columns), unique=unique)


def shape(**more: Any) -> Shape:
    columns = (column("id", "int", null=False), column("old"), column("other"), column("owner", "int"))
    of = {"collation": "utf8mb4_unicode_ci", "indexes": (index("PRIMARY", "id"),)} | more
    return plain_shape(TABLE, *of.pop("columns", columns), **of)


def pair(forward: Any = None, backward: Any = None, **more: Any) -> Mapping:
    names = {"new": "new", "old": "old"} | more
    return Mapping(forward=forward or Copy(), backward=backward or Copy(), **names)


def contract(*mappings: Mapping, columns: tuple[Column, ...] = (), **more: Any) -> Contract:
    return Contract(table=TABLE, columns=columns or (column("new"), column("new2")), mappings=mappings, **more)


def rules(contract: Contract, shape: Shape) -> list[str]:
    problems = check_pairs(contract, shape)
    assert all(p.seen and p.expected and p.next for p in problems)
    return [p.rule for p in problems]


def test_a_plain_pair_breaks_no_law() -> None:
    assert rules(contract(pair()), shape()) == []


def test_a_pair_may_not_set_a_column_of_a_unique_key_that_its_source_does_not_have() -> None:
    assert rules(contract(pair(), indexes=(index("uq", "owner", "new"),)), shape()) == ["partner-constrained"]
    live = shape(indexes=(index("PRIMARY", "id"), index("uq_old", "owner", "old")))
    assert rules(contract(pair()), live) == ["partner-constrained"]
    assert rules(contract(pair(), indexes=(index("i", "new", unique=False),)), shape()) == []


def test_a_unique_key_on_both_sides_of_a_copy_is_allowed() -> None:
    live = shape(indexes=(index("PRIMARY", "id"), index("uq_old", "owner", "old")))
    both = contract(pair(), indexes=(index("uq_new", "owner", "new"),))
    assert rules(both, live) == []
    upper = contract(pair(forward=Expression("UPPER(old)")), indexes=(index("uq_new", "owner", "new"),))
    assert set(rules(upper, live)) == {"partner-constrained"}


def test_a_derived_column_may_not_be_in_a_unique_key() -> None:
    derived = Mapping(new="new", old=None, forward=Expression("UPPER(old)"))
    assert rules(contract(derived, indexes=(index("uq", "new"),)), shape()) == ["partner-constrained"]


def test_a_pair_may_not_set_a_foreign_key_column_that_its_source_does_not_have() -> None:
    key = ForeignKey("fk", ("new",), OTHER, ("id",))
    assert rules(contract(pair(), foreign_keys=(key,)), shape()) == ["partner-constrained"]
    live = shape(foreign_keys=(ForeignKey("fk_old", ("old",), OTHER, ("id",)),))
    assert rules(contract(pair(), foreign_keys=(key,)), live) == []


def test_a_check_on_a_partner_is_refused_unless_its_source_has_the_same() -> None:
    live = shape(checks=(("c_old", "(`old` <> 'x')"),))
    assert rules(contract(pair()), live) == ["partner-constrained"]
    both = shape(checks=(("c_old", "(`old` <> 'x')"), ("c_new", "(`new` <> 'x')")))
    assert rules(contract(pair()), both) == []


def test_a_column_that_a_cascade_changes_is_named_with_what_keeps_a_mirror_from_seeing_it() -> None:
    """B62: detect cascading foreign keys on source columns."""

    def named(mapping: Mapping, key: ForeignKey) -> list[str]:
        found = cascade_problems(contract(mapping), shape(foreign_keys=(key,)), "it is OFF")
        return [p.seen for p in found if p.rule == "cascade-unseen"]

    cascade = ForeignKey("fk", ("owner",), OTHER, ("id",), on_delete="SET NULL")
    follows = Mapping(new="new", old=None, forward=Expression("CONCAT('o', owner)"), follows=True)
    assert named(follows, cascade) == [
        f"{follows}: the foreign key fk can change owner by a cascade that no mirror sees: it is OFF"
    ]
    assert len(named(pair(old="owner"), replace(cascade, on_delete="RESTRICT", on_update="CASCADE"))) == 1
    assert named(Mapping(new="new", old=None, forward=Expression("CONCAT('o', owner)")), cascade) == []
    assert named(follows, replace(cascade, on_delete="CASCADE")) == []


def test_chains_are_refused() -> None:
    assert rules(contract(pair(old="new2", new="new")), shape()) == ["mapping-chain"]
    assert rules(contract(pair(), pair(old="other", new="new2", forward=Expression("new"))), shape()) == [
        "mapping-chain"
    ]
    reads_old = pair(old="other", new="new2", backward=Expression("CONCAT(new2, old)"))
    assert rules(contract(pair(), reads_old), shape()) == ["mapping-chain"]


def test_generated_and_auto_increment_columns_cannot_be_mirrored() -> None:
    live = shape(
        columns=(*shape().columns, column("made", generated="upper(old)"), column("n", "int", auto_increment=True))
    )
    assert "mapping-generated" in rules(contract(pair(old="made")), live)
    assert "mapping-generated" in rules(contract(Mapping(new="new", old=None, forward=Expression("n + 1"))), live)


def test_the_key_of_the_walk_is_in_no_pair() -> None:
    with_key = contract(pair(old="id", new="new"), columns=(column("new", "int"),))
    assert "pair-in-key" in rules(with_key, shape())


def test_a_default_corresponds_to_the_old_one() -> None:
    live = shape(columns=(column("id", "int"), column("old", "int", null=False, default=Default("3"))))
    for text, wanted in (("3", []), ("5", ["default-unlike"])):
        new = (column("new", "int", null=False, default=Default(text)),)
        assert rules(contract(pair(), columns=new), live) == wanted


def test_a_default_survives_the_way_back_and_there_again() -> None:
    live = shape(columns=(column("id", "int"), column("old", null=False, default=Default("busy"))))
    forward, backward = ValueMap((("busy", "running"),)), ValueMap((("running", "busy"), ("locked", "busy")))
    for text, wanted in (("running", []), ("locked", ["default-unlike"])):
        new = (column("new", null=False, default=Default(text)),)
        assert rules(contract(pair(forward, backward), columns=new), live) == wanted
    null_back = ValueMap((("running", "busy"), (None, "busy")))
    assert rules(contract(pair(forward, null_back)), live) == ["default-unlike"]


def test_keep_copies_what_is_not_named() -> None:
    live = shape(columns=(column("id", "int"), column("old", null=False, default=Default("x"))))
    keep = ValueMap((("a", "b"),), Unmapped.KEEP)
    assert rules(contract(pair(keep, keep), columns=(column("new", default=Default("x")),)), live) == []


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
