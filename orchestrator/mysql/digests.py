"""Which kinds of statement the server has seen, and which columns of a table each of them reads and stores.

The server keeps one text for each kind (its digest, without values), cuts long ones without a sign, forgets, and keeps
no account with it: this is sampled evidence, never proof, and is called so. Where a text does not show something, too
much is said rather than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from orchestrator.model.contract import TableName
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import evidence
from orchestrator.mysql.tokens import Token, TokenKind
from orchestrator.mysql.wording import WRITING, stored_parts, words_of

NO_DIGEST = "statements that the server keeps no digest of: performance_schema_digests_size is used up"
MAKE_ROOM = "TRUNCATE performance_schema.events_statements_summary_by_digest makes room"
# In our own statement that reads the flag row (it asks for the seconds left); applications ask otherwise.
_OUR_LOOK = "TIMESTAMPDIFF"
# How every walk of ours names the table: no application writes the alias and the index so.
_OUR_WALK = re.compile(r"\bAS `?[ts]`? FORCE INDEX \(", re.IGNORECASE)
MORE_TEXT = (
    "let the server keep longer texts (max_digest_length and performance_schema_max_digest_length, when it starts)"
)
_SELECTS = re.compile(r"\bSELECT\b")
_OF_THE_SERVER = re.compile(r"\bFROM `?(?:performance|information)_schema`? \.", re.IGNORECASE)
_PIECE = re.compile(r"`(?:[^`]|``)*`|\S+")
Pair = tuple[str, str]


class Said(Struct, frozen=True):
    """One kind of statement. ``text`` None: some that the server keeps no digest of. ``schema``: in which it was said,
    None without one. ``first`` and ``last``: when it was seen, by the server's clock in UTC. ``by``: accounts whose
    present sessions said it lately; there may be others. ``cut``: the server may have cut the text."""

    text: str | None
    schema: str | None
    first: datetime
    last: datetime
    count: int = 1
    by: tuple[str, ...] = ()
    cut: bool = False

    @property
    def ours(self) -> bool:
        """Whether it is a walk of ours over the table, or our look at the flag."""
        return self.text is not None and (_OUR_LOOK in self.text or _OUR_WALK.search(self.text) is not None)

    @property
    def shapes(self) -> bool:
        """Whether it is DDL: a migration's, or a step of ours. What becomes of it is no application's trouble."""
        return self.text is not None and _verb(self.text) in ("CREATE", "ALTER", "DROP", "RENAME")

    @property
    def writes(self) -> bool:
        """Whether it changes rows; without a text it may."""
        return self.text is None or _verb(self.text) in (*WRITING, "WITH")

    def on(self, table: TableName) -> bool:
        """Whether it names the table; without a text it may."""
        return self.text is None or names_table(self.text, self.schema, table)

    def hides_a_table(self, *, written: bool) -> bool:
        """Whether it may name a table behind the cut; ``written``: as the one that it changes, which all but WITH name
        first."""
        if self.text is None or not self.cut or self.shapes or _OF_THE_SERVER.search(self.text):
            return False
        return _verb(self.text) == "WITH" if written else _SELECTS.search(self.text) is not None

    def __str__(self) -> str:
        if self.text is None:
            return NO_DIGEST
        return f"{self.text[:160]}{' (so long that the server may have cut it)' if self.cut else ''}"


class Stored(Struct, frozen=True):
    """The columns (lower case) that one part of a statement stores: the INSERT's list, or what follows SET or ON
    DUPLICATE KEY UPDATE. ``every``: a list was not written, so all are stored. ``cut``: the text ends before the part
    does, so there may be others."""

    columns: frozenset[str]
    every: bool = False
    cut: bool = False


def keeps_digests(session: Session) -> bool:
    """Whether the server remembers statements at all. Raises ServerError."""
    return bool(session.query(evidence.DIGESTS_ON))


def server_now(session: Session) -> datetime:
    """The moment by which ``first`` and ``last`` are told. Raises ServerError."""
    now: datetime = session.value(evidence.SERVER_NOW)
    return now


def said_since(session: Session, since: datetime, names: Sequence[str]) -> list[Said]:
    """Every kind of statement seen after ``since`` whose text has one of ``names`` in it, and those without a text;
    the latest first. Raises ServerError."""
    rows = session.query(evidence.digests_since(len(names)), (since, *names))
    return [Said(t, s, first, last, int(n), cut=may_be_cut(t, kept)) for t, s, first, last, n, _, kept in rows]


def who_said(session: Session, since: datetime, names: Sequence[str]) -> list[Said]:
    """As ``said_since``, with the accounts of present sessions whose last statements are of that kind."""
    rows = session.query(evidence.digests_since(len(names)), (since, *names))
    by: dict[str, list[str]] = {}
    for digest, account in session.query(evidence.LATELY_BY):
        by.setdefault(str(digest), []).append(str(account))
    return [
        Said(t, s, first, last, int(n), tuple(by.get(str(d), ())), may_be_cut(t, kept))
        for t, s, first, last, n, d, kept in rows
    ]


def may_be_cut(text: str | None, kept_bytes: int) -> bool:
    """Whether the text is so long that the name behind it may have found no room.

    The server keeps two bytes for each word or sign, and for a name two more and its bytes (``sql/sql_digest.cc``). It
    stops at the first one for which there is no room.
    """
    pieces = _PIECE.findall(text or "")
    named = sum(len(piece.encode()) for piece in pieces if piece.startswith("`"))
    return 2 * len(pieces) + named > kept_bytes - evidence.LONGEST_NAME_BYTES


def names_column(digest: str, columns: Sequence[str]) -> str | None:
    """The first of ``columns`` that the digest text names. A name that is a keyword as well (STATUS, TYPE) stands there
    without backticks, so a keyword may be taken for the name: too much is named rather than too little."""
    return next((c for c in columns if re.search(_name(c), digest, re.IGNORECASE)), None)


def names_table(digest: str, default: str | None, table: TableName) -> bool:
    """Whether the digest text names the table. ``default`` is the schema in which it was said, None without one."""
    schema, name = _name(table.schema), _name(table.name)
    if re.search(rf"{schema}\s*\.\s*{name}", digest, re.IGNORECASE):
        return True
    said_there = default is not None and default.lower() == table.schema.lower()
    return said_there and re.search(rf"(?<!\. ){name}", digest, re.IGNORECASE) is not None


def stores(text: str, *, cut: bool = False) -> tuple[Stored, ...]:
    """What a statement stores, part by part; empty for one that stores nothing. ``cut``: its end may be missing."""
    words = _words(text)
    if words is None:
        return (Stored(frozenset(), cut=True),) if _verb(text) in (*WRITING, "WITH") else ()
    parts = stored_parts(words, cut=cut)
    return tuple(Stored(frozenset(words[at].identifier for at in p.at), p.every, p.cut) for p in parts)


def reads(text: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of ``columns`` that the statement looks at, be it in a condition or in what it stores elsewhere.

    ``*`` after SELECT names none: nobody knows what becomes of it (``reads_all``)."""
    words = _words(text)
    if words is None:
        return tuple(c for c in columns if names_column(text, (c,)) is not None)
    stored = {at for part in stored_parts(words) for at in part.at}
    behind = [*(w.text for w in words[1:]), ""]
    named = {w.identifier for at, w in enumerate(words) if at not in stored and _is_column(w, behind[at])}
    return tuple(c for c in columns if c.lower() in named)


def reads_all(text: str) -> bool:
    """Whether it asks for every column without naming them."""
    return re.search(r"(?:\bSELECT|,|\.) \*(?: ,| FROM)", text, re.IGNORECASE) is not None


def one_sided(said: Said, pairs: Iterable[Pair]) -> tuple[tuple[str, str], ...]:
    """(column that it stores, partner that it does not) of each pair; ("", "") when that cannot be told. Empty: it
    stores both columns of a pair or none."""
    if said.text is None:
        return (("", ""),)
    missed: dict[tuple[str, str], None] = {}
    for part in stores(said.text, cut=said.cut):
        if part.cut:
            missed["", ""] = None
        for old, new in () if part.every else pairs:
            if (old.lower() in part.columns) != (new.lower() in part.columns):
                missed[(old, new) if old.lower() in part.columns else (new, old)] = None
    return tuple(missed)


def _name(name: str) -> str:
    return rf"(?<![\w$`])`?{re.escape(name)}`?(?![\w$`])"


def _verb(text: str) -> str:
    return text.lstrip("( ").split(" ", 1)[0].upper()


def _is_name(word: Token) -> bool:
    return word.kind in (TokenKind.NAME, TokenKind.QUOTED)


def _is_column(word: Token, behind: str) -> bool:
    """Whether the word may be a column: a plain name before a bracket is a function."""
    return _is_name(word) and not (word.kind is TokenKind.NAME and behind == "(")


def _words(text: str) -> list[Token] | None:
    """The text as words and signs; None when it cannot be taken apart."""
    try:
        return words_of(text)
    except ValueError:
        return None
