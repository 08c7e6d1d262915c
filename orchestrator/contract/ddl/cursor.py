"""A place in one statement: what stands here, what is expected, and the finding when it is not there."""

from __future__ import annotations

from typing import NoReturn

from orchestrator.contract.ddl.statements import Statement, Word, joined
from orchestrator.model.contract import TableName
from orchestrator.model.findings import FileFindings, Finding
from orchestrator.model.types import LENGTH
from orchestrator.mysql.tokens import Token, TokenKind, string_value

_NAMES = (TokenKind.NAME, TokenKind.QUOTED)


def keywords(text: str) -> tuple[str, ...]:
    """Keywords written with blanks between them."""
    return tuple(text.split())


class Cursor:
    """Reads one statement from left to right. Every method that cannot go on raises FileFindings with the line."""

    def __init__(self, statement: Statement, path: str) -> None:
        self._words = statement
        self._at = 0
        self.path = path

    def here(self) -> Cursor:
        """A second cursor at this place, to look ahead with."""
        ahead = Cursor(self._words, self.path)
        ahead._at = self._at
        return ahead

    @property
    def line(self) -> int:
        return self._words[min(self._at, len(self._words) - 1)].line

    @property
    def done(self) -> bool:
        return self._at >= len(self._words)

    def refuse(self, seen: str, expected: str = "DDL of MySQL", next: str = "") -> NoReturn:
        cure = next or "correct the statement, or let a server read the file: drift --ddl FILE --scratch"
        raise FileFindings(self.path, [Finding(self.line, seen, expected, cure)])

    def unexpected(self, expected: str) -> NoReturn:
        self.refuse("the statement ends here" if self.done else f"{self._words[self._at].token.text!r}", expected)

    def _peek(self) -> Word | None:
        return None if self.done else self._words[self._at]

    def next_is(self, *words: str) -> bool:
        """Whether these keywords or signs stand here, in this order."""
        here = self._words[self._at : self._at + len(words)]
        return len(here) == len(words) and all(w.upper == k for w, k in zip(here, words, strict=True))

    def take(self, *words: str) -> bool:
        """Go past these keywords when they stand here."""
        if not self.next_is(*words):
            return False
        self._at += len(words)
        return True

    def take_any(self, *words: str) -> str:
        """The one of these keywords that stands here; "" when none does."""
        return next((w for w in words if self.take(w)), "")

    def need(self, *words: str) -> None:
        if not self.take(*words):
            self.unexpected(" ".join(words))

    def take_token(self) -> Token:
        word = self._peek()
        if word is None:
            self.unexpected("more")
        self._at += 1
        return word.token

    def name(self, what: str = "a name") -> str:
        word = self._peek()
        if word is None or word.token.kind not in _NAMES:
            self.unexpected(what)
        self._at += 1
        return word.token.word if word.token.kind is TokenKind.QUOTED else word.token.text

    def name_is_next(self) -> bool:
        word = self._peek()
        return word is not None and word.token.kind in _NAMES

    def table(self, schema: str) -> TableName:
        """``name`` or ``schema.name``; ``schema`` where none is written."""
        first = self.name("the name of a table")
        return TableName(first, self.name("the name of a table")) if self.take(".") else TableName(schema, first)

    def text(self) -> str:
        """The value of a string literal."""
        word = self._peek()
        if word is None or word.token.kind is not TokenKind.STRING:
            self.unexpected("a text in quotes")
        self._at += 1
        return string_value(word.token.text)

    def string_is_next(self) -> bool:
        word = self._peek()
        return word is not None and word.token.kind is TokenKind.STRING

    def number(self) -> int:
        word = self._peek()
        if word is None or not LENGTH.fullmatch(word.token.text):
            self.unexpected("a whole number")
        self._at += 1
        return int(word.token.text)

    def bracketed(self) -> str:
        """The text between a pair of brackets that begins here."""
        self.need("(")
        depth, begins = 1, self._at
        while depth:
            token = self.take_token()
            depth += (token.text == "(") - (token.text == ")")
        return joined(self._words[begins : self._at - 1])

    def skip_value(self) -> None:
        """One option's value: ``= x``, ``x``, or what stands in brackets."""
        self.take("=")
        if self.next_is("("):
            self.bracketed()
        else:
            self.take_token()
