"""What an unquoted word means: YAML 1.2 decides, and a word that YAML 1.1 reads otherwise is known for it."""

from __future__ import annotations

import re
from decimal import Decimal

from msgspec import Struct

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"^-?(0|[1-9][0-9]{0,39})$")
_DECIMAL = re.compile(r"^-?(0|[1-9][0-9]{0,39})\.[0-9]{1,40}$")
_ODD = (
    (re.compile(r"^[-+]?0[0-9_]+$"), "a number with a leading zero (octal to some)"),
    (re.compile(r"^0o[0-7]+$|^[-+]?0x[0-9a-fA-F_]+$|^[-+]?0b[01_]+$"), "a number in another base"),
    (re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"), "a number with an exponent"),
    (re.compile(r"^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$"), "infinity or not a number"),
    (re.compile(r"^\+[0-9]+(\.[0-9]*)?$|^[-+]?\.[0-9]+$|^[-+]?[0-9]+\.$|^-?0[0-9]+\.[0-9]+$"), "a number"),
    (re.compile(r"^-?[0-9]{40,}(\.[0-9]*)?$|^-?[0-9]+\.[0-9]{41,}$"), "a number too long to be one"),
)
_OLDER = (
    (re.compile(r"^(y|Y|yes|Yes|YES|n|N|no|No|NO|on|On|ON|off|Off|OFF)$"), "a boolean"),
    (re.compile(r"^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$"), "a number in base 60"),
    (re.compile(r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?$"), "a date"),
    (re.compile(r"^[-+]?[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?$"), "a number"),
)


class Odd(Struct, frozen=True):
    """A plain word that is a number to YAML, in a spelling that loses or changes something."""

    kind: str


def resolve(text: str) -> str | int | Decimal | bool | Odd | None:
    """The YAML 1.2 meaning of a plain word; numbers in odd spellings are not guessed at."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if _INTEGER.match(text):
        return int(text)
    if _DECIMAL.match(text):
        return Decimal(text)
    for pattern, kind in _ODD:
        if pattern.match(text):
            return Odd(kind)
    return text


def misread_word(text: str) -> str:
    """What some reader of YAML takes the plain word for, when not for a text; empty when all agree on text."""
    value = resolve(text)
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | Decimal):
        return "a number"
    if isinstance(value, Odd):
        return value.kind
    return next((kind for pattern, kind in _OLDER if pattern.match(text)), "")
