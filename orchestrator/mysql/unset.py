"""Whether somebody gave a column a value: it differs from NULL and from its default."""

from __future__ import annotations

import re

from msgspec import Struct

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column
from orchestrator.mysql.equality import exact, same
from orchestrator.mysql.expression import Ref
from orchestrator.mysql.literals import literal

_NOW = re.compile(r"(?:CURRENT_TIMESTAMP|NOW|LOCALTIME|LOCALTIMESTAMP)(?:\(([0-6]?)\))?", re.IGNORECASE)


class Unset(Struct, frozen=True):
    """``default``: the default's SQL where it is a literal. ``inserted``: what an INSERT without the column gives it,
    None when it must name the column. ``is_moment``: the moment of the INSERT."""

    column: Column
    default: str | None
    inserted: str | None
    is_moment: bool = False

    def now(self, ref: Ref) -> str:
        """The stored value is NULL or the literal default."""
        sql = ref(self.column.name)
        empty = f"{sql} IS NULL" if self.column.null else None
        same = self._is(sql, self.default) if self.default is not None else None
        return " OR ".join(f"({c})" for c in (empty, same) if c) if empty and same else empty or same or "0"

    def on_insert(self, ref: Ref) -> str:
        """The row about to be inserted shows what an INSERT that leaves the column out would show."""
        sql = ref(self.column.name)
        if self.inserted is None:
            return "0"
        return f"{sql} IS NULL" if self.inserted == "NULL" else self._is(sql, self.inserted)

    def _is(self, sql: str, default: str) -> str:
        return same(self.column, sql, default)


def unset_of(column: Column, what: str) -> Unset:
    """Raises RunbookError for a default that cannot be told from a given value."""
    default = column.default
    if default is None or default.text.upper() == "NULL":
        return Unset(column, None, "NULL" if column.null else None)
    moment = _NOW.fullmatch(default.text)
    if moment:
        sql = f"CURRENT_TIMESTAMP({column.type.length or 0})"
        return Unset(column, None, exact(column, sql) if column.type.base == "timestamp" else sql, True)
    if default.is_expression:
        raise RunbookError(
            f"{what}: the default of {column.name} is the expression {default.text}",
            "NULL, a literal or CURRENT_TIMESTAMP: no other default can be told from a value that was given",
            "map a column with another default, or drop the default",
        )
    sql = literal(column, default.text, f"{what}, default of {column.name}")
    return Unset(column, sql, sql)
