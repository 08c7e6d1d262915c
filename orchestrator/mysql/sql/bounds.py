"""Keys as SQL: literals of the column's own type, bounds that one range read answers, and the order that they follow.

The walk follows the order of the index itself, part by part, so that a part that is stored descending is walked
descending and no sort is ever needed. Only the server compares and orders; this module only says where a span begins
and ends. Bounds are in the form ``a > x OR (a = x AND b > y)``: a row constructor would read the whole table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal

from msgspec import Struct

from orchestrator.errors import RunbookError
from orchestrator.model.contract import TableName
from orchestrator.model.facts import Shape
from orchestrator.model.keys import Key, KeyPart, show_key
from orchestrator.model.types import ColumnType, Family
from orchestrator.mysql import quote

Ref = Callable[[str], str]
_NEVER, _ALWAYS = "1 = 0", "1 = 1"
_TEMPORAL_TEXT = re.compile(r"[-0-9:. ]+")
_TEMPORAL = (Family.TEMPORAL, Family.TIME)
_MICROSECOND = timedelta(microseconds=1)


class KeyColumn(Struct, frozen=True):
    name: str
    type: ColumnType
    descending: bool = False


class KeySpace(Struct, frozen=True):
    """All possible keys of one table, in the order of the unique index that is walked."""

    table: TableName
    index: str
    columns: tuple[KeyColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)


class Span(Struct, frozen=True):
    """The keys behind ``lo`` up to and with ``hi``; None is the open end."""

    lo: Key | None = None
    hi: Key | None = None


def key_space(shape: Shape) -> KeySpace:
    """The key space of a live table. Raises RunbookError when the table has no usable key."""
    index = shape.index(shape.key_name)
    columns = [shape.column(name) for name in shape.key]
    if not columns or index is None:
        raise RunbookError(
            f"{shape.table} has no key that can be walked: {shape.key_problem or 'none was found'}",
            "a PRIMARY KEY or a UNIQUE index over NOT NULL columns",
            "give the table such a key, or name one in the runbook's table.key",
        )
    return KeySpace(
        shape.table,
        index.name,
        tuple(
            KeyColumn(column.name, column.type, part.descending)
            for column, part in zip(columns, index.parts, strict=True)
            if column is not None
        ),
    )


def literal(column: KeyColumn, value: KeyPart) -> str:
    """``value`` as a literal of the column's own type. Raises ValueError for a value that such a column cannot hold."""
    match value:
        case bool():
            raise ValueError(f"{value!r} is not a key value")
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
        case bytes():
            return f"x'{value.hex()}'"
        case datetime():
            return f"TIMESTAMP'{value.isoformat(sep=' ', timespec='microseconds')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case timedelta():
            return f"TIME'{_time_text(value)}'"
        case str():
            return _temporal(column, value) if column.type.family in _TEMPORAL else quote.text(value)
    raise ValueError(f"{value!r} is not a key value")


def within(space: KeySpace, span: Span, ref: Ref) -> str:
    """A condition that holds for the keys of ``span``."""
    low = [] if span.lo is None else [_beyond(space.columns, span.lo, ref)]
    high = [] if span.hi is None else [_up_to(space.columns, span.hi, ref)]
    return " AND ".join(low + high) or _ALWAYS


def among(space: KeySpace, keys: Sequence[Key], ref: Ref) -> str:
    """A condition that holds for exactly these keys."""
    return "(" + (" OR ".join(f"({_equal(space.columns, key, ref)})" for key in keys) or _NEVER) + ")"


def order(space: KeySpace, ref: Ref, *, backwards: bool = False) -> str:
    """The terms of ORDER BY that follow the index, or go against it."""
    return ", ".join(ref(c.name) + (" DESC" if c.descending is not backwards else "") for c in space.columns)


def selected(space: KeySpace, ref: Ref) -> list[str]:
    """The key's parts in a select list, as ``read_key`` takes them. An ENUM travels as its number: so it orders."""
    return [ref(c.name) + (" + 0" if c.type.family is Family.ENUM else "") for c in space.columns]


def read_key(space: KeySpace, parts: Sequence[object]) -> Key:
    """The key from what the driver gave for ``selected``. Raises ValueError for what cannot be a key."""
    return tuple(_part(column, value) for column, value in zip(space.columns, parts, strict=True))


def show(space: KeySpace, key: Key) -> str:
    """The key for a person: an ENUM by its label, bytes as hex."""
    return show_key(tuple(_label(column, value) for column, value in zip(space.columns, key, strict=True)))


def _beyond(columns: Sequence[KeyColumn], key: Key, ref: Ref) -> str:
    """Strictly behind ``key`` in the order of the index."""
    column, rest = columns[0], columns[1:]
    strict = _compare(column, ref, key[0], forward=True)
    if not rest:
        return strict
    return f"({strict} OR ({_equal(columns[:1], key[:1], ref)} AND {_beyond(rest, key[1:], ref)}))"


def _up_to(columns: Sequence[KeyColumn], key: Key, ref: Ref) -> str:
    """Before ``key`` in the order of the index, or ``key`` itself."""
    column, rest = columns[0], columns[1:]
    if not rest:
        return _compare(column, ref, key[0], forward=False, equal=True)
    strict = _compare(column, ref, key[0], forward=False)
    return f"({strict} OR ({_equal(columns[:1], key[:1], ref)} AND {_up_to(rest, key[1:], ref)}))"


def _compare(column: KeyColumn, ref: Ref, value: KeyPart, *, forward: bool, equal: bool = False) -> str:
    greater = forward is not column.descending
    if column.type.family is Family.ENUM:
        return _enum(column, ref, value, greater=greater, equal=equal)
    sign = (">" if greater else "<") + ("=" if equal else "")
    return f"{ref(column.name)} {sign} {literal(column, value)}"


def _enum(column: KeyColumn, ref: Ref, value: KeyPart, *, greater: bool, equal: bool) -> str:
    """An ENUM orders by number but compares by text, and no index serves ``>``: so the numbers are listed.

    Number 0 is the empty value that a non-strict session stores for a label that does not exist.
    """
    number = int(str(value))
    last = max(len(column.type.labels), number)
    listed = range(number + (not equal), last + 1) if greater else range(number + equal)
    return f"{ref(column.name)} IN ({', '.join(map(str, listed))})" if listed else _NEVER


def _equal(columns: Sequence[KeyColumn], key: Key, ref: Ref) -> str:
    return " AND ".join(f"{ref(c.name)} = {literal(c, v)}" for c, v in zip(columns, key, strict=True))


def _part(column: KeyColumn, value: object) -> KeyPart:
    if column.type.family is Family.ENUM and isinstance(value, float | int | Decimal):
        return int(value)
    if isinstance(value, int | str | bytes | Decimal | datetime | date | timedelta) and not isinstance(value, bool):
        return value
    raise ValueError(f"{column.name} gave {type(value).__name__}, which is not a key value")


def _label(column: KeyColumn, value: KeyPart) -> KeyPart:
    if column.type.family is Family.ENUM and isinstance(value, int) and 0 < value <= len(column.type.labels):
        return column.type.labels[value - 1]
    return value


def _temporal(column: KeyColumn, value: str) -> str:
    """Dates that no calendar has (zero dates) come as text from the driver and go back as a typed literal."""
    if not _TEMPORAL_TEXT.fullmatch(value):
        raise ValueError(f"{column.name} cannot hold this text")
    kind = "TIME" if column.type.family is Family.TIME else "DATE" if column.type.base == "date" else "TIMESTAMP"
    return f"{kind}'{value}'"


def _time_text(value: timedelta) -> str:
    micros = abs(value) // _MICROSECOND
    seconds, fraction = divmod(micros, 1_000_000)
    sign = "-" if value < timedelta() else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"
