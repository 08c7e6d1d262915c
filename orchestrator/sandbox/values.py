"""Values that a column can hold: drawn at random and at the edges of its type, and in one form for comparing."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from random import Random
from typing import Any

from msgspec import Struct

from orchestrator.model.contract import Column
from orchestrator.model.facts import Shape
from orchestrator.model.types import Family

Value = Any
_PIECES = (
    "timed out", "naïve", "Überlauf", "日本語のエラー", "ошибка", "שגיאה", "🚀", "👩‍🔬", "it's", '"quoted"', "50 %s",
    "a\\b",     "line\nbreak", "tab\there", ":row", "`tick`", "--", "0", "NULL", "é", "ﬁ", "ẞ",
)  # fmt: skip
_CODECS = {
    "utf8mb4": "utf-8",
    "latin1": "cp1252",
    "ascii": "ascii",
    "utf16": "utf-16",
    "ucs2": "utf-16",
    "cp1251": "cp1251",
}
_CONDENSED_FROM = 256


class Condensed(Struct, frozen=True):
    """A long value, kept as its length and a 64-bit hash so that a ledger of many rows stays small."""

    length: int
    hash: int


def condense(value: Value) -> Value:
    if isinstance(value, str | bytes) and len(value) > _CONDENSED_FROM:
        return Condensed(len(value), hash(value))
    return value


def stored(value: Value, column: Column) -> Value:
    """The value in one form: as the driver reads it back, JSON in canonical text, BIT as a number."""
    if value is None or isinstance(value, Condensed):
        return value
    match column.type.family:
        case Family.JSON:
            return json.dumps(json.loads(value), sort_keys=True)
        case Family.BIT:
            return int.from_bytes(value, "big") if isinstance(value, bytes) else int(value)
        case Family.FLOAT:
            return float(value)
        case Family.DECIMAL:
            return Decimal(value)
        case Family.INTEGER if isinstance(value, Decimal) and value == int(value):
            return int(value)
        case Family.TEXT if isinstance(value, int | Decimal):
            return str(value)
        case _:
            return value


def fits(value: Value, column: Column) -> bool:
    """Whether the column stores the value unchanged. A value of another kind than the column's does not fit."""
    if value is None or isinstance(value, Condensed):
        return value is not None or column.null
    kind = column.type
    match kind.family:
        case Family.INTEGER | Family.YEAR | Family.BIT:
            return _is_number(value) and value == int(value) and kind.integer_range[0] <= value <= kind.integer_range[1]
        case Family.DECIMAL:
            return _is_number(value) and _fits_decimal(Decimal(value), column)
        case Family.FLOAT:
            return _is_number(value)
        case Family.TEXT:
            return isinstance(value, str) and _fits_text(value, column)
        case Family.BINARY:
            limit = kind.byte_limit or kind.length or 0
            whole = kind.base != "binary"
            return isinstance(value, bytes) and (len(value) <= limit if whole else len(value) == limit)
        case Family.ENUM:
            return value in kind.labels
        case Family.TEMPORAL:
            return isinstance(value, date) and _fits_time(value, column)
        case Family.SET | Family.TIME | Family.JSON | Family.SPATIAL:
            return True


def _is_number(value: Value) -> bool:
    return isinstance(value, int | Decimal | float)


def _fits_decimal(value: Decimal, column: Column) -> bool:
    digits, scale = column.type.length or 10, column.type.scale or 0
    step = Decimal(1).scaleb(-scale)
    return (
        abs(value) < Decimal(10) ** (digits - scale)
        and value == value.quantize(step)
        and not (column.type.unsigned and value < 0)
    )


def _fits_text(value: str, column: Column) -> bool:
    limit = column.type.byte_limit
    short = len(value.encode()) <= limit if limit is not None else len(value) <= (column.type.length or 0)
    return short and encodable(value, column.charset) and not (column.type.base == "char" and value.endswith(" "))


def _fits_time(value: date, column: Column) -> bool:
    if column.type.base == "date":
        return not isinstance(value, datetime) or value == datetime(value.year, value.month, value.day)
    digits = column.type.length or 0
    exact = not isinstance(value, datetime) or value.microsecond % 10 ** (6 - digits) == 0
    return exact and (column.type.base != "timestamp" or 1970 < value.year < 2038)


def encodable(value: str, charset: str | None) -> bool:
    """Whether the character set has every character. Sets that are not listed are taken as plain ASCII."""
    if charset in ("utf8mb3", "utf8", "ucs2") and any(ord(c) > 0xFFFF for c in value):
        return False
    try:
        value.encode("utf-8" if charset in ("utf8mb3", "utf8") else _CODECS.get(charset or "utf8mb4", "ascii"))
    except UnicodeEncodeError:
        return False
    return True


@lru_cache(maxsize=8)
def _written(charset: str | None) -> str:
    """Some pages of text that the character set can write; texts are cut out of it."""
    rng = Random(1)
    pieces = [p for p in _PIECES if encodable(p, charset)]
    return " ".join(rng.choice(pieces) for _ in range(1200))


def draw_text(rng: Random, characters: int, charset: str | None = "utf8mb4") -> str:
    """A text of up to that many characters, multi-byte where the character set allows; never ends with a blank."""
    pages = _written(charset)
    wanted = min(rng.choice((1, 8, 40, 40, 200, characters)), characters)
    begin = rng.randrange(max(1, len(pages) - wanted))
    return pages[begin : begin + wanted].rstrip()


def draw(rng: Random, column: Column) -> Value:
    """A value of the column's type: its edges now and then, NULL now and then where it may be."""
    if column.null and rng.random() < 0.1:
        return None
    kind = column.type
    match kind.family:
        case Family.INTEGER | Family.YEAR | Family.BIT:
            low, high = kind.integer_range
            return (
                rng.choice((low, high, 0, 1))
                if kind.family is Family.INTEGER and rng.random() < 0.1
                else _near(rng, low, high)
            )
        case Family.DECIMAL:
            scale = kind.scale or 0
            top = 10 ** (kind.length or 10) - 1
            least = 0 if kind.unsigned else -top
            return Decimal(rng.choice((least, top, 0)) if rng.random() < 0.1 else _near(rng, least, top)).scaleb(-scale)
        case Family.FLOAT:
            return rng.randint(0 if kind.unsigned else -4000, 4000) / 4
        case Family.TEXT:
            return draw_text(rng, min(kind.length or (kind.byte_limit or 0) // 4, 3000), column.charset)
        case Family.BINARY:
            limit = min(kind.length or kind.byte_limit or 0, 500)
            return rng.randbytes(limit if kind.base == "binary" else rng.randint(0, limit))
        case Family.ENUM:
            return rng.choice(kind.labels)
        case Family.SET:
            return ",".join(label for label in kind.labels if rng.random() < 0.5)
        case Family.JSON:
            return draw_json(rng)
        case Family.TEMPORAL | Family.TIME:
            return _draw_time(rng, column)
        case Family.SPATIAL:
            pass
    if column.null:
        return None
    raise ValueError(f"{column.name}: values of type {kind} are not drawn")


def _near(rng: Random, low: int, high: int) -> int:
    return max(low, min(high, rng.choice((rng.randint(0, 9), rng.randint(-500, 100_000)))))


def draw_json(rng: Random) -> str:
    body = {
        "n": rng.randint(0, 9),
        "note": draw_text(rng, 30),
        "list": [rng.randint(0, 3) for _ in range(rng.randint(0, 3))],
    }
    return json.dumps(body, ensure_ascii=False)


def _draw_time(rng: Random, column: Column) -> Value:
    base, digits = column.type.base, column.type.length or 0
    if base == "time":
        return timedelta(seconds=rng.randint(-3_020_398, 3_020_398))
    day = datetime(2026, 1, 1) + timedelta(seconds=rng.randint(-40_000_000, 40_000_000))
    if base != "timestamp" and rng.random() < 0.02:
        day = rng.choice((datetime(1000, 1, 1), datetime(9999, 12, 31, 23, 59, 59)))
    if base == "date":
        return day.date()
    return day.replace(microsecond=rng.randint(0, 10**digits - 1) * 10 ** (6 - digits)) if digits else day


def with_charset(column: Column, shape: Shape) -> Column:
    """The column with its character set written out: its own, else the table's."""
    if column.charset is not None or column.type.family is not Family.TEXT:
        return column
    live = shape.column(column.name)
    charset = (live.charset if live else None) or shape.charset
    return Column(column.name, column.type, column.null, column.default, charset, column.collation, column.on_update)
