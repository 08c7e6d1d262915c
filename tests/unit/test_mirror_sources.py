"""A source that changes without the mirror seeing it is named; no server is needed to judge that."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from orchestrator.model.contract import (
    Column,
    Contract,
    Copy,
    Expression,
    ForeignKey,
    Index,
    IndexPart,
    Mapping,
    TableName,
)
from orchestrator.model.facts import Shape
from orchestrator.model.types import parse_type
from orchestrator.mysql.mirror_sources import cascade_problems
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
