"""Column defaults: one spelling for each, so that a digest does not depend on how somebody writes zero."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation, localcontext

from orchestrator.model.contract import Default
from orchestrator.model.findings import Wrong
from orchestrator.model.types import ColumnType, Family
from orchestrator.runbook.forms import closed

_NOW = re.compile(
    r"^\(?\s*(?:now|current_timestamp|localtimestamp|localtime)\s*(?:\(\s*([0-6]?)\s*\))?\s*\)?$", re.IGNORECASE
)
_NUMBERS = frozenset({Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.YEAR})
_DAY = re.compile(r"^([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?)?$")


def read_default(value: object, kind: ColumnType) -> Default | None:
    """The default that the file's value means for a column of that type. Raises Wrong."""
    match value:
        case None:
            return None
        case dict():
            sql = value.get("sql")
            if len(value) == 1 and isinstance(sql, str) and sql.strip():
                return read_expression(closed(sql))
        case bool():
            if kind.family is not Family.INTEGER:
                raise Wrong(
                    f"true or false as the default of {kind}", "a literal of that type", "quote it if it is a text"
                )
            return Default("1" if value else "0")
        case int() | float() | Decimal():
            if kind.family not in _NUMBERS:
                raise Wrong(f"the number {value} as the default of {kind}", "a text", f'quote it: "{value}"')
            return Default(canonical_literal(str(value), kind))
        case str():
            if kind.base in ("datetime", "timestamp") and _NOW.match(value.strip()):
                return read_expression(value)
            return Default(canonical_literal(value, kind))
        case _:
            pass
    raise Wrong(f"{str(value)[:60]!r} is not a default", "a literal, now(3), or {sql: …}", "write one of these")


def read_expression(sql: str) -> Default:
    """``now(3)`` and its kin are CURRENT_TIMESTAMP(3); anything else keeps its text, in one pair of brackets."""
    bare = sql.strip()
    if match := _NOW.match(bare):
        digits = match[1] if match[1] and match[1] != "0" else ""
        return Default(f"CURRENT_TIMESTAMP({digits})" if digits else "CURRENT_TIMESTAMP", is_expression=True)
    return Default(bare if bare.startswith("(") and bare.endswith(")") else f"({bare})", is_expression=True)


def canonical_literal(text: str, kind: ColumnType) -> str:
    """One spelling for literals that the server stores alike; one that does not fit its type is left as it is."""
    if kind.family in _NUMBERS:
        return _number(text, kind)
    if kind.base in ("datetime", "timestamp") and (match := _DAY.match(text.strip())):
        fraction = (match[3] or "").ljust(kind.length or 0, "0")
        return f"{match[1]} {match[2] or '00:00:00'}" + (f".{fraction}" if fraction else "")
    return text


def _number(text: str, kind: ColumnType) -> str:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return text
    if not number.is_finite() or abs(number.adjusted()) > 100:
        return text
    with localcontext(prec=200):
        if kind.family is Family.DECIMAL and round(number, kind.scale or 0) == number:
            return f"{number:.{kind.scale or 0}f}"
        return f"{number.normalize():f}" if number else "0"
