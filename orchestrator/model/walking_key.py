"""Which unique index a keyed pass walks by, and why a table has none. One rule, so that plan, rows and checks agree.

A walk compares and orders by the key on the server and binds each bound as a value of its own type. What cannot be
compared exactly (floats), can be absent (NULL), or is not the whole value (prefix, expression) is no key.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from orchestrator.model.contract import Column, Index
from orchestrator.model.types import Family

PRIMARY = "PRIMARY"
_WIDTH_BYTES = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8, "year": 1, "date": 3, "time": 6}
# Their order in an index is not the order of the text that a comparison with a bound would use, or not exact.
_NO_KEY = {
    Family.FLOAT: "is a floating-point number, which cannot be compared exactly",
    Family.BIT: "is BIT, which cannot be bound as a value of its own type",
    Family.SET: "is SET, which is ordered otherwise than it is compared",
    Family.SPATIAL: "is spatial",
    Family.JSON: "is JSON",
}


class WalkingKey(Struct, frozen=True):
    """``columns`` empty: there is no usable key and ``problem`` says why."""

    columns: tuple[str, ...] = ()
    index: str = ""
    problem: str = ""


def choose_key(columns: Sequence[Column], indexes: Sequence[Index], wanted: tuple[str, ...] = ()) -> WalkingKey:
    """The cheapest usable key: PRIMARY, else the narrowest visible UNIQUE over NOT NULL columns.

    With ``wanted`` only an index over exactly these columns, in this order, is taken.
    """
    by_name = {c.name.lower(): c for c in columns}
    unique = [i for i in indexes if i.unique]
    if wanted:
        unique = [i for i in unique if tuple(c.lower() for c in i.columns) == tuple(w.lower() for w in wanted)]
        if not unique:
            return WalkingKey(problem=f"no unique index is exactly over ({', '.join(wanted)})")
    problems = {i.name: _problem(i, by_name) for i in unique}
    usable = [i for i in unique if not problems[i.name]]
    if not usable:
        told = "; ".join(f"{i.name}: {problems[i.name]}" for i in unique)
        return WalkingKey(problem=told or "there is no PRIMARY KEY and no UNIQUE index")
    best = min(usable, key=lambda i: (i.name != PRIMARY, _cost_bytes(i, by_name), len(i.parts), i.name))
    return WalkingKey(tuple(by_name[c.lower()].name for c in best.columns), best.name)


def _problem(index: Index, by_name: dict[str, Column]) -> str:
    if index.kind != "BTREE":
        return f"is a {index.kind} index"
    if not index.visible:
        return "is invisible, so that no range would use it"
    for part in index.parts:
        column = by_name.get(part.column.lower())
        if part.expression is not None:
            return f"has the expression {part.expression} as a part"
        if column is None:
            return f"has a column {part.column} that this account cannot see"
        if part.prefix is not None:
            return f"holds only {part.prefix} characters of {part.column}"
        if column.null:
            return f"{part.column} can be NULL, and NULLs are not unique"
        if column.type.family in _NO_KEY:
            return f"{part.column} {_NO_KEY[column.type.family]}"
    return ""


def _cost_bytes(index: Index, by_name: dict[str, Column]) -> int:
    return sum(_width_bytes(by_name[p.column.lower()]) for p in index.parts)


def _width_bytes(column: Column) -> int:
    kind = column.type
    if kind.base in _WIDTH_BYTES:
        return _WIDTH_BYTES[kind.base]
    if kind.family is Family.TEXT:
        return (kind.length or 255) * 4
    if kind.family is Family.DECIMAL:
        return (kind.length or 10) // 2 + 1
    if kind.family is Family.ENUM:
        return 2
    return kind.length or 8
