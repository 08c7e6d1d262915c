"""The values that a value map names, as literals of a column's own family; what a column cannot hold is found here.

Because a value map's results are checked when it is read, what it gives needs no fit test.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import struct
from decimal import Decimal, InvalidOperation

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column
from orchestrator.model.types import Family, decimal_bound
from orchestrator.mysql import quote

_CODECS = {"utf8mb4": "utf-8", "latin1": "cp1252", "latin2": "iso8859_2", "greek": "iso8859_7", "hebrew": "iso8859_8"}
_INTEGER = re.compile(r"-?[0-9]+")
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.([0-9]{1,6}))?"
_DATETIME = re.compile(f"{_DATE}(?:[ T]{_CLOCK})?")
_TIME = re.compile(r"-?[0-9]{2,3}:[0-9]{2}:[0-9]{2}(?:\.([0-9]{1,6}))?")
_BITS = re.compile(r"b'([01]+)'", re.IGNORECASE)


def literal(column: Column, value: str | None, what: str) -> str:
    """``value`` as SQL that the column stores unchanged. Raises RunbookError naming value and type."""
    if value is None:
        return "NULL"
    try:
        return _of_family(column, value)
    except (ValueError, InvalidOperation) as error:
        why = str(error) if isinstance(error, ValueError) else "it is not a number"
        raise RunbookError(
            f"{what}: {value!r} is no value of {column.name} {column.type}: {why}",
            f"values that {column.name} can hold unchanged",
            "change the value, or the type of the column",
        ) from error


def _of_family(column: Column, value: str) -> str:
    kind = column.type
    match kind.family:
        case Family.INTEGER | Family.YEAR | Family.BIT:
            return _integer(column, value)
        case Family.DECIMAL:
            return _decimal(column, value)
        case Family.FLOAT:
            return _float(column, value)
        case Family.TEXT:
            return _text(column, value)
        case Family.BINARY:
            return _bytes(column, value)
        case Family.ENUM:
            return _label(column, value)
        case Family.SET:
            return _labels(column, value)
        case Family.TEMPORAL | Family.TIME:
            return _moment(column, value)
        case Family.JSON:
            json.loads(value)
            return f"CAST({quote.literal(value)} AS JSON)"
        case Family.SPATIAL:
            raise ValueError("spatial values cannot be mapped")


def _integer(column: Column, value: str) -> str:
    bits = _BITS.fullmatch(value)
    if bits is None and not _INTEGER.fullmatch(value):
        raise ValueError("it is not a whole number")
    number = int(bits[1], 2) if bits else int(value)
    low, high = column.type.integer_range
    if not low <= number <= high and not (column.type.family is Family.YEAR and number == 0):
        raise ValueError(f"the type holds {low} to {high}")
    return str(number)


def _decimal(column: Column, value: str) -> str:
    number, scale = Decimal(value), column.type.scale or 0
    if not number.is_finite():
        raise ValueError("it is not a number")
    if number != number.quantize(Decimal(1).scaleb(-scale)):
        raise ValueError(f"the type holds {scale} decimals")
    if abs(number) >= decimal_bound(column.type) or (column.type.unsigned and number < 0):
        raise ValueError("it is out of the type's range")
    return f"{number:f}"


def _float(column: Column, value: str) -> str:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("it is not a number")
    if column.type.base == "float":
        try:
            number = float(struct.unpack("f", struct.pack("f", number))[0])
        except OverflowError as error:
            raise ValueError("it is out of the type's range") from error
    text = repr(number)
    return text if "e" in text else f"{text}e0"


def _text(column: Column, value: str) -> str:
    kind, charset = column.type, column.charset or "utf8mb4"
    encoded = _encoded(charset, value)
    if kind.length is not None and len(value) > kind.length:
        raise ValueError(f"it has {len(value)} characters")
    if kind.byte_limit is not None and len(encoded) > kind.byte_limit:
        raise ValueError(f"it has {len(encoded)} bytes")
    if kind.base == "char" and value.endswith(" "):
        raise ValueError("CHAR loses blanks at the end")
    return quote.literal(value)


def _encoded(charset: str, value: str) -> bytes:
    if charset in ("utf8mb3", "utf8", "ucs2"):
        if any(ord(c) > 0xFFFF for c in value):
            raise ValueError(f"{charset} holds no character above U+FFFF")
        return value.encode("utf-8")
    try:
        return value.encode(_CODECS.get(charset, charset))
    except UnicodeEncodeError as error:
        raise ValueError(f"{charset} has no {error.object[error.start : error.end]!r}") from error
    except LookupError:
        if value.isascii():
            return value.encode()
        raise ValueError(f"cannot tell whether {charset} has it; use characters of ASCII") from None


def _bytes(column: Column, value: str) -> str:
    encoded, length = value.encode(), column.type.length or column.type.byte_limit or 1
    if len(encoded) > length:
        raise ValueError(f"it has {len(encoded)} bytes")
    if column.type.base == "binary" and len(encoded) != length:
        raise ValueError(f"the type holds exactly {length} bytes")
    return f"x'{encoded.hex()}'"


def _label(column: Column, value: str) -> str:
    if value not in column.type.labels:
        near = difflib.get_close_matches(value, column.type.labels, 1)
        raise ValueError("it is no label" + (f"; the nearest is {near[0]!r}" if near else ""))
    return quote.literal(value)


def _labels(column: Column, value: str) -> str:
    members = value.split(",") if value else []
    if unknown := [m for m in members if m not in column.type.labels]:
        raise ValueError(f"{unknown[0]!r} is no member")
    if members != [label for label in column.type.labels if label in members]:
        raise ValueError("members stand once and in the order of the type")
    return quote.literal(value)


def _moment(column: Column, value: str) -> str:
    base = column.type.base
    if base == "timestamp":
        raise ValueError("what a TIMESTAMP means depends on the session's time zone; use a DATETIME column")
    match = (_TIME if base == "time" else _DATETIME).fullmatch(value)
    if match is None:
        raise ValueError("it is not written YYYY-MM-DD hh:mm:ss" if base != "time" else "it is not written hh:mm:ss")
    if len((match[1] or "").rstrip("0")) > (column.type.length or 0):
        raise ValueError(f"the type holds {column.type.length or 0} digits of a second's fraction")
    if base == "date":
        if len(value) != 10:
            raise ValueError("the type holds no time of day")
        return f"DATE'{value}'"
    if base == "time":
        return f"TIME'{value}'"
    return f"TIMESTAMP'{value if len(value) > 10 else value + ' 00:00:00'}'"
