"""A table's shape: the plain one of tests without a server, and the live one."""

from __future__ import annotations

from typing import Any

from orchestrator.model.contract import Column, TableName
from orchestrator.model.facts import Shape
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape


def plain_shape(table: TableName, *columns: Column, **more: Any) -> Shape:
    """An InnoDB table with a primary key ``id`` and nothing else; ``more`` are fields of Shape that are otherwise."""
    plain: dict[str, Any] = {
        "kind": "BASE TABLE",
        "engine": "InnoDB",
        "charset": "utf8mb4",
        "collation": "utf8mb4_0900_ai_ci",
        "row_format": "Dynamic",
        "partitioned": False,
        "indexes": (),
        "foreign_keys": (),
        "referenced_by": (),
        "checks": (),
        "triggers": (),
        "key": ("id",),
        "key_name": "PRIMARY",
    }
    return Shape(table=table, columns=columns, **(plain | more))


def live_shape(session: Session, table: TableName, key: tuple[str, ...] = ()) -> Shape:
    """The table as it is now; there must be one."""
    shape = read_shape(session, table, key)
    assert shape is not None, f"there is no table {table}"
    return shape
