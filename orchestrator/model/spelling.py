"""One spelling for what the server stores alike: defaults, and expressions as it shows them. Pure."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from orchestrator.model.contract import Default
from orchestrator.model.types import ColumnType, Family

_NUMBERS = frozenset({Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.YEAR, Family.BIT})
_NOW = re.compile(r"\b(now|localtime|localtimestamp|current_timestamp)(?![\w(])|\b(now|localtime|localtimestamp)(?=\()")
_LITERAL = re.compile(r"""('(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")""", re.DOTALL)
_INTRODUCER = re.compile(r"\b_(utf8mb4|utf8mb3|latin1|ascii|binary)(?=\s*['\"])")


def spelled_default(default: Default | None, kind: ColumnType) -> str:
    """The default in one spelling, whichever way it was written; "none" without one."""
    if default is None:
        return "none"
    if default.is_expression:
        return spelled(default.text) or ""
    return repr(_literal(default.text, kind))


def _literal(written: str, kind: ColumnType) -> str:
    """One spelling for what the server stores alike: ``0`` and ``0.00``, a date and its midnight."""
    if kind.family in _NUMBERS:
        return _number(written)
    if kind.base in ("datetime", "timestamp"):
        whole = written if " " in written.strip() else f"{written} 00:00:00"
        moment, _, fraction = whole.partition(".")
        return moment + (f".{fraction}".rstrip("0").rstrip("."))
    if kind.family is Family.BINARY:
        as_hex = written[2:].lower() if written.lower().startswith("0x") else written.encode().hex()
        return "0x" + (as_hex.rstrip("0") if kind.base == "binary" else as_hex)
    return written


def _number(written: str) -> str:
    bits = re.fullmatch(r"b'([01]+)'", written, re.IGNORECASE)
    if bits:
        return str(int(bits[1], 2))
    named = {"true": "1", "false": "0"}.get(written.lower(), written)
    try:
        return format(Decimal(named).normalize(), "f")
    except InvalidOperation:
        return written


def spelled(sql: str | None) -> str | None:
    """An expression without what the server adds or drops when it stores one: quotes of names, introducers, blanks,
    outer brackets, the case of words outside of literals."""
    if sql is None:
        return None
    pieces = _LITERAL.split(sql)
    bare = "".join(_one_quote(p) if i % 2 else _bare(p, next_is_text=i + 1 < len(pieces)) for i, p in enumerate(pieces))
    while bare.startswith("(") and _closes_at_end(bare):
        bare = bare[1:-1]
    return bare


def _one_quote(literal: str) -> str:
    """A text literal in one spelling, whichever quotes and escapes it was written with."""
    quote, inside = literal[0], literal[1:-1]
    return repr(re.sub(r"\\(.)", r"\1", inside.replace(quote * 2, f"\\{quote}"), flags=re.DOTALL))


def _bare(piece: str, next_is_text: bool) -> str:
    lowered = piece.replace("`", "").lower()
    if next_is_text:
        lowered = _INTRODUCER.sub("", lowered + "'")[:-1]
    lowered = _NOW.sub("current_timestamp", lowered).replace("current_timestamp()", "current_timestamp")
    return re.sub(r"\s+", "", lowered)


def _closes_at_end(bare: str) -> bool:
    depth = 0
    for at, sign in enumerate(bare):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return at == len(bare) - 1
    return False
