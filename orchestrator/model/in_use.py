"""Columns of the contract that were there before ddl: what they may hold, and what to do when somebody uses them."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.contract import Column, Contract
from orchestrator.model.facts import Shape
from orchestrator.model.state import Record

ALLOWED = "a column that was there holds NULL, its default, or what the mapping gives: all else is somebody's"
NEXT = "name the new column otherwise; or, when nobody needs the values, set them to NULL or the default first"


def columns_found(contract: Contract, shape: Shape, added: Sequence[str]) -> tuple[Column, ...]:
    """The live columns of the contract that ddl has not ``added``. Not those that the server computes: nobody puts a
    value there."""
    ours = {name.lower() for name in added}
    live = (shape.column(c.name) for c in contract.columns if c.generated is None)
    return tuple(c for c in live if c is not None and c.name.lower() not in ours)


def columns_before(contract: Contract, shape: Shape, record: Record | None) -> tuple[Column, ...]:
    """The same before ddl is done; none afterwards, when the application may use them."""
    if record is None:
        return columns_found(contract, shape, ())
    return () if "ddl" in record.done else columns_found(contract, shape, record.columns_added)
