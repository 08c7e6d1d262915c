"""Statements that the server has seen, as statements that can be prepared again.

A digest has ``?`` for every value, ``(...)`` for a list of them, and blanks where a statement may have none. The server
keeps no account and no version with it, so what is captured is evidence, and what it could not show is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from orchestrator.mysql.tokens import Token, TokenKind
from orchestrator.mysql.wording import wording, words_of

_DIGITS_OF_NOW = frozenset(
    ["NOW", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "SYSDATE", "UTC_TIMESTAMP", "CURTIME", "UTC_TIME"]
)
_DOTS = [".", ".", "."]
_LITERALS = (TokenKind.STRING, TokenKind.NUMBER)


def runnable(digest: str) -> str:
    """The digest as one statement with ``?``; "" when it cannot be told what stood in it."""
    try:
        tokens = words_of(digest)
        listed = len(wording(tokens, "").listed)
    except ValueError:
        return ""
    written: list[str] = []
    at = 0
    while at < len(tokens):
        before = tokens[at - 1] if at else None
        if tokens[at].text == "(" and [t.text for t in tokens[at + 1 : at + 4]] == _DOTS:
            values = before is not None and before.word in ("VALUES", "VALUE")
            if values and not listed:
                return ""
            written.append("(" + ", ".join(["?"] * (listed if values else 1)) + ")")
            at += 5
            continue
        close = tokens[at].text == "(" and before is not None and before.kind is TokenKind.NAME
        digits = tokens[at].text == "?" and at >= 2 and tokens[at - 2].word in _DIGITS_OF_NOW
        written.append("" if close or not written or _joins(before, tokens[at]) else " ")
        written.append("3" if digits and before is not None and before.text == "(" else tokens[at].text)
        at += 1
    return "".join(written)


def _joins(before: Token | None, token: Token) -> bool:
    return token.text in (".", ",", ")") or (before is not None and before.text in (".", "("))


def meaning(statement: str) -> str:
    """The same for two statements that differ in values, quoting, case of words and blanks only."""
    try:
        tokens = words_of(statement)
    except ValueError:
        return statement
    words = ["?" if t.kind in _LITERALS else t.identifier for t in tokens if t.kind is not TokenKind.INTRODUCER]
    shown = " ".join(words)
    while ", ? " in shown and "? , ?" in shown:
        shown = shown.replace("? , ?", "?")
    return shown


def not_declared(said: Iterable[str], declared: Iterable[str]) -> Sequence[str]:
    """What was said and no declared statement means."""
    known = {meaning(text) for text in declared}
    return tuple(dict.fromkeys(text for text in said if meaning(text) not in known))


def names(statement: str) -> frozenset[str]:
    """Every name in it, in lower case."""
    try:
        return frozenset(t.identifier for t in words_of(statement) if t.kind in (TokenKind.NAME, TokenKind.QUOTED))
    except ValueError:
        return frozenset()
