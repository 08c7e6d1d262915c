"""What the words of one statement say about one table: what it assigns, what it takes whole, what it leaves open. Pure.

This finds assignments, which stand at fixed places of the grammar, and hazards that no error shows. Whether a name is a
column of the table is not judged here: the server tells that (``mysql.naming``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orchestrator.mysql.tokens import Token, TokenKind, tokenise

_VERBS = frozenset({"SELECT", "INSERT", "UPDATE", "REPLACE", "DELETE", "TABLE", "VALUES"})
_INSERT_NOISE = frozenset({"LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"})
_ENDS_SET = frozenset({"WHERE", "ORDER", "LIMIT", "AS"})
_BEFORE_ALL = frozenset({"SELECT", "DISTINCT", "DISTINCTROW", "ALL", "SQL_NO_CACHE", "STRAIGHT_JOIN", ","})
# What may follow a table and is no alias of it.
_CLAUSES = (
    "WHERE SET ON USING JOIN INNER LEFT RIGHT CROSS NATURAL STRAIGHT_JOIN ORDER GROUP LIMIT FOR VALUES VALUE SELECT "
    "HAVING PARTITION FORCE USE IGNORE UNION EXCEPT INTERSECT WINDOW LOCK INTO"
)
_AFTER_TABLE = frozenset(_CLAUSES.split())
_NAMES = (TokenKind.NAME, TokenKind.QUOTED)


@dataclass(frozen=True, slots=True)
class Wording:
    """Names in lower case. ``target``: the table that an INSERT or REPLACE writes. ``listed``: the columns that it
    lists, in order. ``writes``: all that is assigned; ``mentions``: every name at any other place.

    ``takes_all``: a ``*`` gives all columns of the table; ``lists_nothing``: an INSERT or REPLACE without a list.
    """

    verb: str
    target: str
    listed: tuple[str, ...]
    writes: frozenset[str]
    mentions: frozenset[str]
    takes_all: bool
    lists_nothing: bool
    joins_naturally: bool


def words_of(sql: str) -> list[Token]:
    """Tokens that are neither blank nor comment. Raises ValueError."""
    return [t for t in tokenise(sql) if t.kind not in (TokenKind.SPACE, TokenKind.COMMENT)]


def wording(tokens: Sequence[Token], table: str) -> Wording:
    """The statement that those tokens make, as it speaks of ``table``."""
    at = _verb_at(tokens)
    verb = tokens[at].word if at < len(tokens) else ""
    target, listed, assigned, lists_nothing = "", tuple[int, ...](), frozenset[int](), False
    if verb in ("INSERT", "REPLACE"):
        target, listed, lists_nothing = _insert(tokens, at + 1)
        assigned = frozenset(listed) | frozenset(_upserted(tokens, at))
    elif verb == "UPDATE":
        start = _depth_zero(tokens, at, "SET")
        assigned = frozenset(_assignments(tokens, start + 1)) if start is not None else frozenset()
    silent = assigned | frozenset(_inserted_values(tokens))
    return Wording(
        verb=verb,
        target=target,
        listed=tuple(tokens[n].identifier for n in listed),
        writes=frozenset(tokens[n].identifier for n in assigned),
        mentions=frozenset(t.identifier for n, t in enumerate(tokens) if t.kind in _NAMES and n not in silent),
        takes_all=any(_takes_all(tokens, n, table.lower()) for n in range(at, len(tokens))),
        lists_nothing=lists_nothing,
        joins_naturally=any(t.word == "NATURAL" for t in tokens if t.kind is TokenKind.NAME),
    )


def _verb_at(tokens: Sequence[Token]) -> int:
    """Where the statement proper begins: behind WITH and its parts."""
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.kind is TokenKind.NAME and token.word in _VERBS:
            return at
    return len(tokens)


def _insert(tokens: Sequence[Token], at: int) -> tuple[str, tuple[int, ...], bool]:
    """Target, the places of the columns that are listed, and whether none are."""
    while at < len(tokens) and tokens[at].word in _INSERT_NOISE:
        at += 1
    if at + 2 < len(tokens) and tokens[at + 1].text == ".":
        at += 2
    if at >= len(tokens):
        return "", (), False
    target, at = tokens[at].identifier, at + 1
    if at < len(tokens) and tokens[at].word == "PARTITION":
        at = _closing(tokens, at + 1) + 1
    if at < len(tokens) and tokens[at].word == "SET":
        return target, tuple(_assignments(tokens, at + 1)), False
    follows = tokens[at + 1].word if at + 1 < len(tokens) else ""
    if at >= len(tokens) or tokens[at].text != "(" or follows in ("SELECT", "WITH", "("):
        return target, (), True
    end = _closing(tokens, at)
    return target, tuple(n for n in range(at + 1, end) if tokens[n].kind in _NAMES), False


def _closing(tokens: Sequence[Token], at: int) -> int:
    """The bracket that closes the one at ``at``."""
    depth = 0
    for n in range(at, len(tokens)):
        depth += (tokens[n].text == "(") - (tokens[n].text == ")")
        if depth == 0:
            return n
    return len(tokens)


def _upserted(tokens: Sequence[Token], at: int) -> Iterator[int]:
    start = _depth_zero(tokens, at, "DUPLICATE")
    if start is not None:
        yield from _assignments(tokens, start + 3)


def _depth_zero(tokens: Sequence[Token], at: int, word: str) -> int | None:
    depth = 0
    for n in range(at, len(tokens)):
        depth += (tokens[n].text == "(") - (tokens[n].text == ")")
        if depth == 0 and tokens[n].word == word and tokens[n].kind is TokenKind.NAME:
            return n
    return None


def _assignments(tokens: Sequence[Token], at: int) -> Iterator[int]:
    """Places of the names on the left of ``=`` in ``a = …, t.b = …``."""
    depth, begins = 0, True
    for n in range(at, len(tokens)):
        token = tokens[n]
        depth += (token.text == "(") - (token.text == ")")
        ends = token.kind is TokenKind.NAME and token.word in _ENDS_SET
        if depth < 0 or (depth == 0 and (ends or token.word == "DUPLICATE")):
            return
        if begins and token.text == "=" and n > at and tokens[n - 1].kind in _NAMES:
            yield n - 1
            begins = False
        elif depth == 0 and token.text == ",":
            begins = True


def _inserted_values(tokens: Sequence[Token]) -> Iterator[int]:
    """``VALUES(c)`` of an upsert is what was given, not what is stored."""
    for n in range(2, len(tokens) - 1):
        inside = tokens[n - 1].text == "(" and tokens[n + 1].text == ")"
        if inside and tokens[n - 2].word == "VALUES" and tokens[n].kind in _NAMES:
            yield n


def _takes_all(tokens: Sequence[Token], at: int, table: str) -> bool:
    if tokens[at].word == "TABLE" and tokens[at].kind is TokenKind.NAME:
        return at + 1 < len(tokens) and tokens[at + 1].identifier == table
    if tokens[at].text != "*" or at == 0:
        return False
    before = tokens[at - 1]
    if before.text == ".":
        return tokens[at - 2].identifier in _called(tokens, table)
    if before.kind is TokenKind.QUOTED or before.word not in _BEFORE_ALL:
        return False
    # EXISTS (SELECT * …) looks at no column.
    asks = at >= 3 and tokens[at - 2].text == "(" and tokens[at - 3].word == "EXISTS"
    return not asks and any(t.identifier == table for t in tokens if t.kind in _NAMES)


def _called(tokens: Sequence[Token], table: str) -> set[str]:
    """The table's names in the statement: its own and its aliases."""
    names = {table}
    for n, token in enumerate(tokens[:-1]):
        if token.kind not in _NAMES or token.identifier != table:
            continue
        at = n + 2 if tokens[n + 1].word == "AS" else n + 1
        if at < len(tokens) and tokens[at].kind in _NAMES and tokens[at].word not in _AFTER_TABLE:
            names.add(tokens[at].identifier)
    return names
