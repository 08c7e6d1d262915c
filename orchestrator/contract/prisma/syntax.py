"""A Prisma schema taken apart: blocks, fields, attributes, each with its line. Only the grammar is judged here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from msgspec import Struct, field

from orchestrator.model.findings import FileFindings, Finding

MAX_NESTING = 20
_TOKEN = re.compile(
    r"""[ \t\r\f]*(?: (?P<name>[^\W\d][\w-]*) | (?P<sign>@@|[@{}()\[\],:.=?!]) | (?P<newline>\n) | (?P<end>\Z)
    | (?P<text>"(?:[^"\\\n]|\\.)*") | (?P<number>-?\d+(?:\.\d+)?) | (?P<comment>//[^\n]* | /\*.*?\*/) )""",
    re.VERBOSE | re.DOTALL,
)
_KINDS = ("datasource", "generator", "model", "view", "enum", "type")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class Call(Struct, frozen=True):
    """A bare word (``Cascade``) or a function (``now()``), with its arguments."""

    name: str
    arguments: tuple[Argument, ...] = ()
    called: bool = False


class Number(Struct, frozen=True):
    text: str


Value = str | Number | Call | tuple["Value", ...]


class Argument(Struct, frozen=True):
    """``name`` is "" for one that is told by its place."""

    name: str
    value: Value


class Attribute(Struct, frozen=True):
    """``@db.VarChar(40)`` has the name ``db.VarChar``."""

    name: str
    arguments: tuple[Argument, ...]
    line: int

    def given(self, name: str) -> Value | None:
        """The argument of that name."""
        return next((a.value for a in self.arguments if a.name == name), None)

    def first(self, name: str) -> Value | None:
        """The argument of that name, or the one without a name."""
        named = self.given(name)
        return named if named is not None else self.given("")


class Field(Struct):
    """A field of a model, or a value of an enum (then ``type`` is ""). ``type`` of ``Unsupported("x")`` is ``x``."""

    name: str
    line: int
    type: str = ""
    optional: bool = False
    many: bool = False
    unsupported: bool = False
    attributes: list[Attribute] = field(default_factory=list)

    def attribute(self, name: str) -> Attribute | None:
        return next((a for a in self.attributes if a.name == name), None)


class Block(Struct):
    kind: str
    name: str
    line: int
    path: str
    fields: list[Field] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)
    settings: dict[str, Value] = field(default_factory=dict)

    def attribute(self, name: str) -> Attribute | None:
        return next((a for a in self.attributes if a.name == name), None)

    def field(self, name: str) -> Field | None:
        return next((f for f in self.fields if f.name == name), None)


class _Word(NamedTuple):
    kind: str
    text: str
    line: int


def read_blocks(text: str, path: str) -> list[Block]:
    """Every block of the file. Raises FileFindings with the line of the first thing that is no Prisma schema."""
    return _Parser(list(_words(text, path)), path).blocks()


def _words(text: str, path: str) -> Iterator[_Word]:
    at, line, matched = 0, 1, _TOKEN.match
    while at < len(text):
        match = matched(text, at)
        if match is None:
            seen = f"{text[at : at + 20].strip().splitlines()[0]!r} is not part of a Prisma schema"
            raise FileFindings(path, [Finding(line, seen, "a Prisma schema", "close the quote, or delete the line")])
        kind = match.lastgroup or ""
        if kind == "comment":
            line += match[kind].count("\n")
        elif kind != "end":
            yield _Word(kind, match[kind], line)
        line += kind == "newline"
        at = match.end()


class _Parser:
    def __init__(self, words: list[_Word], path: str) -> None:
        self._words = words
        self._at = 0
        self._path = path
        self._depth = 0

    def blocks(self) -> list[Block]:
        found = []
        self._skip_lines()
        while self._at < len(self._words):
            found.append(self._block())
            self._skip_lines()
        return found

    def _line(self) -> int:
        return self._words[min(self._at, len(self._words) - 1)].line if self._words else 1

    def _fail(self, expected: str) -> NoReturn:
        here = self._words[self._at].text if self._at < len(self._words) else "the file ends here"
        seen = "the line ends here" if here == "\n" else here if self._at >= len(self._words) else repr(here)
        raise FileFindings(self._path, [Finding(self._line(), seen, expected, "compare with Prisma's reference")])

    def _next_is(self, text: str) -> bool:
        return self._at < len(self._words) and self._words[self._at].text == text

    def _take(self, text: str) -> bool:
        if not self._next_is(text):
            return False
        self._at += 1
        return True

    def _need(self, text: str) -> None:
        if not self._take(text):
            self._fail(text)

    def _kind_is(self, kind: str) -> bool:
        return self._at < len(self._words) and self._words[self._at].kind == kind

    def _name(self, what: str) -> str:
        if not self._kind_is("name"):
            self._fail(what)
        self._at += 1
        return self._words[self._at - 1].text

    def _skip_lines(self) -> None:
        while self._take("\n"):
            pass

    def _end_of_line(self) -> None:
        if not self._take("\n") and not self._next_is("}"):
            self._fail("the end of the line")

    def _block(self) -> Block:
        line = self._line()
        kind = self._name("one of " + ", ".join(_KINDS))
        if kind not in _KINDS:
            self._at -= 1
            self._fail("one of " + ", ".join(_KINDS))
        block = Block(kind, self._name(f"the name of the {kind}"), line, self._path)
        self._need("{")
        self._skip_lines()
        while not self._take("}"):
            self._entry(block)
            self._skip_lines()
        return block

    def _entry(self, block: Block) -> None:
        if self._take("@@"):
            block.attributes.append(self._attribute(self._line()))
        elif block.kind in ("datasource", "generator"):
            name = self._name("a setting")
            self._need("=")
            block.settings[name] = self._value()
        else:
            block.fields.append(self._field(block.kind == "enum"))
        self._end_of_line()

    def _field(self, of_enum: bool) -> Field:
        line = self._line()
        read = Field(self._name("a field"), line)
        if not of_enum:
            read.type = self._name("the type of the field")
            if read.type == "Unsupported" and self._take("("):
                value = self._value()
                read.type, read.unsupported = value if isinstance(value, str) else "", True
                self._need(")")
            if self._take("["):
                self._need("]")
                read.many = True
            read.optional = self._take("?")
        while self._take("@"):
            read.attributes.append(self._attribute(self._line()))
        return read

    def _attribute(self, line: int) -> Attribute:
        name = self._name("the name of an attribute")
        while self._take("."):
            name += "." + self._name("the name of an attribute")
        arguments = self._arguments() if self._next_is("(") else ()
        return Attribute(name, arguments, line)

    def _arguments(self) -> tuple[Argument, ...]:
        """What stands in round brackets; lines may end inside."""
        self._need("(")
        found: list[Argument] = []
        self._skip_lines()
        while not self._take(")"):
            found.append(self._argument())
            self._skip_lines()
            if not self._take(",") and not self._next_is(")"):
                self._fail(", or )")
            self._skip_lines()
        return tuple(found)

    def _argument(self) -> Argument:
        named = self._at + 1 < len(self._words) and self._words[self._at + 1].text == ":"
        name = ""
        if named:
            name = self._name("the name of an argument")
            self._need(":")
        return Argument(name, self._value())

    def _value(self) -> Value:
        self._depth += 1
        if self._depth > MAX_NESTING:
            self._fail("brackets that are not nested so deep")
        try:
            return self._one_value()
        finally:
            self._depth -= 1

    def _one_value(self) -> Value:
        if self._kind_is("text"):
            self._at += 1
            return _unescaped(self._words[self._at - 1].text)
        if self._kind_is("number"):
            self._at += 1
            return Number(self._words[self._at - 1].text)
        if self._take("["):
            return self._list()
        name = self._name("a value")
        while self._take("."):
            name += "." + self._name("a name")
        called = self._next_is("(")
        return Call(name, self._arguments() if called else (), called)

    def _list(self) -> tuple[Value, ...]:
        found: list[Value] = []
        self._skip_lines()
        while not self._take("]"):
            found.append(self._value())
            self._skip_lines()
            if not self._take(",") and not self._next_is("]"):
                self._fail(", or ]")
            self._skip_lines()
        return tuple(found)


def _unescaped(literal: str) -> str:
    def meant(match: re.Match[str]) -> str:
        said = match[1]
        return chr(int(said[1:], 16)) if said[0] == "u" and len(said) == 5 else _ESCAPES.get(said, said)

    return _ESCAPE.sub(meant, literal[1:-1])
