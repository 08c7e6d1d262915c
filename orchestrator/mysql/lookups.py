"""By which columns a statement looks its rows up, and which index stands for that. Pure.

Read from the statement's words: the conditions that WHERE joins with AND, and ORDER BY. What the optimizer does with
it hangs on the data; for the shipped runbooks EXPLAIN is held to it on seeded tables
(``tests/integration/test_indexes_serve.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from orchestrator.model.contract import Index
from orchestrator.mysql.tokens import Token, TokenKind
from orchestrator.mysql.wording import words_of

_NAMES = (TokenKind.NAME, TokenKind.QUOTED)
_EQUAL = frozenset({"=", "<=>", "IN", "IS"})
_RANGED = frozenset({"<", ">", "<=", ">=", "BETWEEN", "LIKE"})
_ENDS = frozenset({"GROUP", "ORDER", "LIMIT", "FOR", "HAVING", "LOCK", "UNION", "RETURNING"})


class Lookup(Struct, frozen=True):
    """Names in lower case. ``equal``: columns held to values; ``ranged``: between values; ``ordered``: ORDER BY."""

    equal: frozenset[str] = frozenset()
    ranged: frozenset[str] = frozenset()
    ordered: tuple[str, ...] = ()


def lookup_of(sql: str) -> Lookup:
    """Empty for a statement without WHERE, for one that joins its conditions with OR, and for what cannot be read."""
    try:
        tokens = words_of(sql)
    except ValueError:
        return Lookup()
    where = _between(tokens, "WHERE")
    if not where or any(t.kind is TokenKind.NAME and t.word in ("OR", "XOR") for t in _outer(where)):
        return Lookup()
    equal, ranged = set[str](), set[str]()
    for column, sign in _conditions(where):
        if sign in _EQUAL:
            equal.add(column)
        elif sign in _RANGED:
            ranged.add(column)
    return Lookup(frozenset(equal), frozenset(ranged), tuple(_ordered(tokens)))


def serving(lookup: Lookup, indexes: Sequence[Index]) -> Index | None:
    """The index whose leading columns hold most of the lookup; None when none begins with a column of it."""
    best = max(indexes, key=lambda i: _fit(lookup, i), default=None)
    return best if best is not None and _fit(lookup, best)[1] > 0 else None


def _fit(lookup: Lookup, index: Index) -> tuple[bool, int, bool]:
    """Whether it finds one row, how many leading columns are held, and whether the next one narrows or orders."""
    columns = [c.lower() for c in index.columns]
    if not index.visible or index.kind.upper() != "BTREE" or any(p.expression is not None for p in index.parts):
        return False, 0, False
    held = next((n for n, c in enumerate(columns) if c not in lookup.equal), len(columns))
    rest = columns[held:]
    follows = bool(rest) and (rest[0] in lookup.ranged or tuple(rest[: len(lookup.ordered)]) == lookup.ordered != ())
    if held == 0 and rest and rest[0] in lookup.ranged:
        return False, 1, False
    return index.unique and held == len(columns), held, follows


def _outer(tokens: Sequence[Token]) -> Iterator[Token]:
    """What stands in no brackets, and the opening ones."""
    depth = 0
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if (depth == 0 and token.text != ")") or (depth == 1 and token.text == "("):
            yield token


def _between(tokens: Sequence[Token], word: str) -> list[Token]:
    """What stands behind the outermost ``word`` and before the next clause."""
    depth, found, inside = 0, list[Token](), False
    for token in tokens:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.kind is TokenKind.NAME:
            if inside and token.word in _ENDS:
                break
            if token.word == word and not inside:
                inside = True
                continue
        if inside:
            found.append(token)
    return found


def _conditions(where: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """(column, sign) of each condition that begins with a name."""
    part: list[Token] = []
    between = False
    for token in (*_outer(where), Token(TokenKind.NAME, "AND")):
        if token.kind is TokenKind.NAME and token.word == "AND" and not between:
            yield from _condition(part)
            part = []
            continue
        between = token.kind is TokenKind.NAME and (token.word == "BETWEEN" or (between and token.word != "AND"))
        part.append(token)


def _condition(part: Sequence[Token]) -> Iterator[tuple[str, str]]:
    at = 2 if len(part) > 2 and part[1].text == "." else 0
    negated = len(part) > at + 2 and part[at + 2].word == "NOT"
    if len(part) > at + 1 and part[at].kind in _NAMES and not negated:
        yield part[at].identifier, part[at + 1].word


def _ordered(tokens: Sequence[Token]) -> Iterator[str]:
    behind = _between(tokens, "ORDER")
    names = [t for t in _outer(behind) if t.kind in _NAMES and t.word not in ("BY", "ASC", "DESC")]
    yield from (t.identifier for t in names)
