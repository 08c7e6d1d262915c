"""Whether a literal can be stored in a column type unchanged: what the server would cut, round or refuse is not fit."""

from __future__ import annotations

import json
import re
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from orchestrator.model.types import ColumnType, Family, decimal_bound

_CODECS = {"ascii": "ascii", "latin1": "cp1252", "binary": "utf-8"}
_MOMENT = re.compile(r"^([0-9]{4}-[0-9]{2}-[0-9]{2}) ([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?$")
_INTEGER = re.compile(r"^-?[0-9]{1,20}$")


def literal_problem(text: str, kind: ColumnType, charset: str | None) -> str:
    """Why the literal does not fit, as the end of a sentence; empty when it fits or only the server can say."""
    match kind.family:
        case Family.INTEGER | Family.YEAR:
            return _integer(text, kind)
        case Family.DECIMAL | Family.FLOAT:
            return _number(text, kind)
        case Family.TEXT:
            return _text(text, kind, charset)
        case Family.ENUM:
            return "" if text in kind.labels else f"is none of its labels {', '.join(kind.labels)}"
        case Family.SET:
            unknown = [p for p in text.split(",") if text and p not in kind.labels]
            return f"has {unknown[0]!r}, which is none of its labels" if unknown else ""
        case Family.TEMPORAL:
            return _moment(text, kind)
        case Family.JSON:
            return _json(text)
        case Family.BINARY:
            limit = kind.length or kind.byte_limit or 0
            return f"is longer than {limit} bytes" if len(text.encode()) > limit else ""
        case _:
            return ""


def _integer(text: str, kind: ColumnType) -> str:
    if not _INTEGER.match(text):
        return "is not a whole number"
    low, high = kind.integer_range
    return "" if low <= int(text) <= high else f"is not between {low} and {high}"


def _number(text: str, kind: ColumnType) -> str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return "is not a number"
    if not number.is_finite():
        return "is not a finite number"
    if kind.family is Family.FLOAT:
        return ""
    if abs(number) >= decimal_bound(kind):
        return f"has more digits before the point than {kind} holds"
    exponent = number.normalize().as_tuple().exponent
    if isinstance(exponent, int) and -exponent > (kind.scale or 0):
        return f"has more digits after the point than {kind} holds"
    return "is below 0" if kind.unsigned and number < 0 else ""


def _text(text: str, kind: ColumnType, charset: str | None) -> str:
    if kind.length is not None and len(text) > kind.length:
        return f"has {len(text)} characters, more than {kind.length}"
    if kind.byte_limit is not None and len(text.encode()) > kind.byte_limit:
        return f"is longer than {kind.byte_limit} bytes"
    if kind.base == "char" and text != text.rstrip(" "):
        return "ends with a blank, which char does not keep"
    if charset == "utf8mb3" and any(ord(c) > 0xFFFF for c in text):
        return "has a character that utf8mb3 cannot hold"
    try:
        text.encode(_CODECS.get(charset or "", "utf-8"))
    except UnicodeEncodeError:
        return f"has a character that {charset} cannot hold"
    return ""


def _moment(text: str, kind: ColumnType) -> str:
    try:
        if kind.base == "date":
            date.fromisoformat(text)
            return ""
        match = _MOMENT.match(text)
        if match is None:
            return "is not a moment such as 2030-01-31 12:00:00"
        datetime.fromisoformat(f"{match[1]} {match[2]}")
    except ValueError:
        return "is no date of the calendar"
    if len((match[3] or "").rstrip("0")) > (kind.length or 0):
        return f"has more fraction digits than {kind}"
    return ""


def _json(text: str) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return "is not JSON"
    return ""
