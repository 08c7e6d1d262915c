"""What the words of one statement say about one table: what it assigns, what it takes whole, what it leaves open. Pure.

This finds assignments, which stand at fixed places of the grammar, and hazards that no error shows. Whether a name is a
column of the table is not judged here: the server tells that (``mysql.naming``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from orchestrator.mysql.tokens import Token, TokenKind, tokenise

WRITING = ("INSERT", "UPDATE", "REPLACE", "DELETE", "LOAD")
_VERBS = frozenset({"SELECT", "INSERT", "UPDATE", "REPLACE", "DELETE", "TABLE", "VALUES"})
_INSERT_NOISE = frozenset({"LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "INTO"})
_BEFORE_ALL = frozenset({"SELECT", "DISTINCT", "DISTINCTROW", "ALL", "SQL_NO_CACHE", "STRAIGHT_JOIN", ","})
# What may follow a table and is no alias of it.
_CLAUSES = (
    "WHERE SET ON USING JOIN INNER LEFT RIGHT CROSS NATURAL STRAIGHT_JOIN ORDER GROUP LIMIT FOR VALUES VALUE SELECT "
    "HAVING PARTITION FORCE USE IGNORE UNION EXCEPT INTERSECT WINDOW LOCK INTO"
)
_AFTER_TABLE = frozenset(_CLAUSES.split())
_NAMES = (TokenKind.NAME, TokenKind.QUOTED)


class Wording(Struct, frozen=True):
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


class Part(Struct, frozen=True):
    """Positions among the words where a column stands that is stored. ``every``: a list was not written, so all are
    stored. ``cut``: the text ends before the part does, so there may be others."""

    at: tuple[int, ...]
    every: bool = False
    cut: bool = False


def words_of(sql: str) -> list[Token]:
    """Tokens that are neither blank nor comment. Raises ValueError."""
    return [t for t in tokenise(sql) if t.kind not in (TokenKind.SPACE, TokenKind.COMMENT)]


def wording(tokens: Sequence[Token], table: str) -> Wording:
    """The statement that those tokens make, as it speaks of ``table``."""
    at = _verb_at(tokens)
    verb = tokens[at].word if at < len(tokens) else ""
    parts = stored_parts(tokens)
    assigned = frozenset(n for part in parts for n in part.at)
    inserts = verb in ("INSERT", "REPLACE")
    silent = assigned | frozenset(_inserted_values(tokens))
    return Wording(
        verb=verb,
        target=_target(tokens, at + 1) if inserts else "",
        listed=tuple(tokens[n].identifier for n in parts[0].at) if inserts else (),
        writes=frozenset(tokens[n].identifier for n in assigned),
        mentions=frozenset(t.identifier for n, t in enumerate(tokens) if t.kind in _NAMES and n not in silent),
        takes_all=any(_takes_all(tokens, n, table.lower()) for n in range(at, len(tokens))),
        lists_nothing=any(part.every for part in parts),
        joins_naturally=any(t.word == "NATURAL" for t in tokens if t.kind is TokenKind.NAME),
    )


def stored_parts(words: Sequence[Token], *, cut: bool = False) -> tuple[Part, ...]:
    """Where columns stand that the statement stores: the list of an INSERT, what follows its SET, or that of an UPDATE,
    and what follows ON DUPLICATE KEY UPDATE. ``cut``: the text ends too early."""
    depths = _depths(words)
    verbs = (w.word for w, d in zip(words, depths, strict=True) if d == 0 and w.kind is TokenKind.NAME)
    verb = next((v for v in verbs if v in (*WRITING, "SELECT")), "")
    if verb in ("INSERT", "REPLACE", "LOAD"):
        update = _find(words, depths, "UPDATE", after="KEY")
        part = _listed(words[:update], depths, verb, cut)
        return (part,) if update is None else (part, _assigned(words, depths, update + 1, cut))
    if verb == "UPDATE" and (at := _find(words, depths, "SET")) is not None:
        return (_assigned(words, depths, at + 1, cut),)
    return (Part((), cut=True),) if verb in ("UPDATE", "") and cut else ()


def _verb_at(tokens: Sequence[Token]) -> int:
    """Where the statement proper begins: behind WITH and its parts."""
    for at, (token, depth) in enumerate(zip(tokens, _depths(tokens), strict=True)):
        if depth == 0 and token.kind is TokenKind.NAME and token.word in _VERBS:
            return at
    return len(tokens)


def _target(tokens: Sequence[Token], at: int) -> str:
    """The table that an INSERT or REPLACE writes, without its schema."""
    while at < len(tokens) and tokens[at].word in _INSERT_NOISE:
        at += 1
    if at + 2 < len(tokens) and tokens[at + 1].text == ".":
        at += 2
    return tokens[at].identifier if at < len(tokens) else ""


def _depths(words: Sequence[Token]) -> list[int]:
    depth, found = 0, []
    for word in words:
        depth -= word.text == ")"
        found.append(depth)
        depth += word.text == "("
    return found


def _find(words: Sequence[Token], depths: Sequence[int], name: str, after: str = "") -> int | None:
    """Where the keyword stands outside of all brackets; ``after``: right behind that one."""
    for at, word in enumerate(words):
        behind = not after or (at > 0 and words[at - 1].word == after)
        if depths[at] == 0 and word.kind is TokenKind.NAME and word.word == name and behind:
            return at
    return None


def _listed(words: Sequence[Token], depths: Sequence[int], verb: str, cut: bool) -> Part:
    """The column list of an INSERT, which follows the table's name, or its SET; of a LOAD DATA both, at its end."""
    at = _find(words, depths, "SET")
    given = Part(()) if at is None else _assigned(words, depths, at + 1, cut)
    if at is not None and verb != "LOAD":
        return given
    select = _find(words, depths, "SELECT")
    opens = [i for i, w in enumerate(words[: select if at is None else at]) if w.text == "(" and depths[i] == 0]
    for i in opens if verb != "LOAD" else opens[-1:]:
        follows = words[i + 1].word if i + 1 < len(words) else ""
        if words[i - 1].word in ("VALUES", "VALUE", "ROW", "PARTITION") or follows in ("SELECT", "WITH", "("):
            continue
        closes = next((j for j in range(i, len(words)) if words[j].text == ")" and depths[j] == 0), None)
        names = tuple(j for j in range(i + 1, closes or len(words)) if words[j].kind in _NAMES)
        return Part((*names, *given.at), cut=given.cut or (closes is None and cut))
    return Part((), every=True)


def _assigned(words: Sequence[Token], depths: Sequence[int], at: int, cut: bool) -> Part:
    """The left sides of ``a = x , b = y`` from there on, to the end of the list."""
    found, ended = list[int](), False
    left = True
    for i in range(at, len(words)):
        if depths[i] > 0:
            continue
        if words[i].kind is TokenKind.NAME and words[i].word in ("WHERE", "ORDER", "LIMIT", "ON"):
            ended = True
            break
        if words[i].text == ",":
            left = True
        elif left and words[i].text in ("=", ":="):
            left = False
            found.append(i - 1)
    return Part(tuple(found), cut=cut and not ended)


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
