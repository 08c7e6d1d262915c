"""A file of SQL taken apart into statements, each token with its line: DELIMITER, comments and dumps' version comments.

The tokens are those of the SQL room, so that a name or a literal means the same here as anywhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from orchestrator.model.findings import FileFindings, Finding
from orchestrator.mysql.tokens import Token, TokenKind, token_at

_DELIMITER = re.compile(r"[ \t]*DELIMITER[ \t]+(\S+)[ \t]*(?:\n|$)", re.IGNORECASE)
_VERSION_COMMENT = re.compile(r"/\*!(\d{5,6})?(.*?)\*/", re.DOTALL)
_NAMES = (TokenKind.NAME, TokenKind.QUOTED)
_OF_TABLES = (
    ("CREATE", "TABLE"),
    ("CREATE", "INDEX"),
    ("CREATE", "UNIQUE", "INDEX"),
    ("CREATE", "FULLTEXT", "INDEX"),
    ("CREATE", "SPATIAL", "INDEX"),
    ("ALTER", "TABLE"),
    ("DROP", "TABLE"),
    ("DROP", "INDEX"),
    ("RENAME", "TABLE"),
)
_SPACING = (TokenKind.SPACE, TokenKind.COMMENT)


class Word(Struct, frozen=True):
    """A token, the line that it stands on, and whether a blank stands before it (``NOW (`` is not ``NOW(``)."""

    token: Token
    line: int
    spaced: bool = False

    @property
    def upper(self) -> str:
        """Upper-case text; a quoted name is no keyword."""
        return "" if self.token.kind is TokenKind.QUOTED else self.token.text.upper()


Statement = tuple[Word, ...]


def statements(text: str, path: str) -> Iterator[Statement]:
    """Every statement that is not empty, without comments. Raises FileFindings where no token can be read."""
    text = _VERSION_COMMENT.sub(_laid_open, text)
    at, line, delimiter = 0, 1, ";"
    words: list[Word] = []
    spaced = False
    while at < len(text):
        if not words and _at_line_start(text, at) and (said := _DELIMITER.match(text, at)):
            delimiter, at, line = said[1], said.end(), line + said[0].count("\n")
            continue
        if text.startswith(delimiter, at):
            if words:
                yield tuple(words)
            words, at = [], at + len(delimiter)
            continue
        token = token_at(text, at)
        if token is None:
            seen = f"this is not SQL: {text[at : at + 20]!r}"
            raise FileFindings(path, [Finding(line, seen, "a file of SQL", "close the quote or comment, or delete it")])
        if token.kind not in _SPACING:
            words.append(Word(token, line, spaced))
        spaced = token.kind in _SPACING
        line += token.text.count("\n")
        at += len(token.text)
    if words:
        yield tuple(words)


def joined(words: Statement) -> str:
    """The text of the words, with one blank wherever there were blanks or a comment."""
    return "".join((" " if w.spaced and i else "") + w.token.text for i, w in enumerate(words))


def table_statements(text: str, path: str, schema: str) -> Iterator[tuple[int, str]]:
    """Line and text of each statement that makes or changes tables, with every name in the schema of the session.

    Nothing else may be sent to a server that holds other things too: a name in another schema is refused. Raises
    FileFindings.
    """
    for statement in statements(text, path):
        if any(tuple(w.upper for w in statement[: len(k)]) == k for k in _OF_TABLES):
            yield statement[0].line, joined(_unqualified(statement, path, schema))


def _unqualified(statement: Statement, path: str, schema: str) -> Statement:
    kept: list[Word] = []
    for word in statement:
        if len(kept) > 1 and kept[-1].token.text == "." and kept[-2].token.kind in _NAMES:
            named = kept[-2].token
            if named.identifier != schema.lower():
                seen = f"the statement names the schema {named.text}"
                cure = f"leave the schema out, or name {schema}"
                raise FileFindings(path, [Finding(word.line, seen, f"tables of {schema} only", cure)])
            word = Word(word.token, word.line, kept[-2].spaced)
            del kept[-2:]
        kept.append(word)
    return tuple(kept)


def _laid_open(match: re.Match[str]) -> str:
    """``/*!50100 PARTITION BY … */``: the server reads what is inside; lines stay where they are."""
    return f" {match[2]} "


def _at_line_start(text: str, at: int) -> bool:
    return at == 0 or text[at - 1] == "\n" or text[text.rfind("\n", 0, at) + 1 : at].isspace()
