"""Every column of the table as it will be when ddl is done: what mappings are read against, before and after."""

from __future__ import annotations

from msgspec.structs import replace

from orchestrator.model.contract import Column, Contract
from orchestrator.model.facts import Shape
from orchestrator.model.types import Family

_WITH_CHARSET = (Family.TEXT, Family.ENUM, Family.SET)


def columns_after_ddl(contract: Contract, shape: Shape) -> dict[str, Column]:
    """By lower-case name; every text column has its character set, the table's own where it names none."""
    every = (*contract.columns, *shape.columns, *contract.changes)
    return {c.name.lower(): _plain(c, shape) for c in every}


def _plain(column: Column, shape: Shape) -> Column:
    if column.type.family not in _WITH_CHARSET:
        return replace(column, charset=None, collation=None)
    charset, collation = column.charset, column.collation
    if charset is None and collation is None:
        charset, collation = shape.charset, shape.collation
    charset = (charset or (collation or "").split("_")[0]).lower()
    return replace(column, charset="utf8mb3" if charset == "utf8" else charset, collation=collation)
