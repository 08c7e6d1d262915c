"""SQL text taken apart far enough to find columns, and no further: the server stays the only parser.

Only what every session of ours and every trigger reads the same way is accepted (no comments, no variables, no
parameters), so that one expression means one thing wherever it is rendered.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from itertools import zip_longest

from msgspec import Struct


class TokenKind(Enum):
    SPACE = "space"
    COMMENT = "comment"
    NAME = "name"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    INTRODUCER = "introducer"
    OPERATOR = "operator"


class Token(Struct, frozen=True):
    kind: TokenKind
    text: str

    @property
    def word(self) -> str:
        """The name without backticks, or upper-case text of anything else that is not quoted."""
        if self.kind is TokenKind.QUOTED:
            return self.text[1:-1].replace("``", "`")
        return self.text.upper() if self.kind is TokenKind.NAME else self.text

    @property
    def identifier(self) -> str:
        """The name in lower case, as column names are compared; not by way of ``word``: upper case turns ß into SS."""
        return (self.word if self.kind is TokenKind.QUOTED else self.text).lower()


_TOKEN = r"""
      (?P<space>\s+)
    | (?P<comment>/\*.*?(?:\*/|\Z) | \#[^\n]* | --(?=[\s\x00-\x1f]|$)[^\n]*)
    | (?P<string>(?:[xXbB])?'(?:[^'\\]|''|\\.)*' | "(?:[^"\\]|""|\\.)*")
    | (?P<quoted>`(?:[^`]|``)+`)
    | (?P<number>0[xX][0-9a-fA-F]+(?![\w$]) | 0b[01]+(?![\w$]) | (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w$]))
    | (?P<introducer>_[A-Za-z0-9]+(?=\s*(?:'|"|0[xX]|[xX]')))
    | (?P<name>[A-Za-z_$\u0080-\uffff][\w$\u0080-\uffff]*)
    | (?P<operator>->>|->|<=>|<=|>=|<>|!=|:=|\|\||&&|<<|>>|[-+*/%^~!=<>|&(),.;@?{}\[\]:\\])
    """


@cache
def _pattern() -> re.Pattern[str]:
    """Compiled when the first text comes: it takes longer than all that a look at the state does."""
    return re.compile(_TOKEN, re.VERBOSE | re.DOTALL)


def tokenise(sql: str) -> tuple[Token, ...]:
    """Every character of ``sql`` in some token. Raises ValueError at the first one that belongs to none."""
    tokens, at = list[Token](), 0
    while at < len(sql):
        token = token_at(sql, at)
        if token is None:
            raise ValueError(f"cannot be read at {sql[at : at + 20]!r}")
        tokens.append(token)
        at += len(token.text)
    return tuple(tokens)


def token_at(sql: str, at: int) -> Token | None:
    """The token that begins at this position; None when none does."""
    match = _pattern().match(sql, at)
    return None if match is None else Token(_KINDS[match.lastgroup or ""], match.group())


def loose_end(sql: str) -> str:
    """Why an expression, put between parentheses, could reach beyond them; "" when it cannot: what it opens it closes,
    and nothing in it is a comment or ends the statement."""
    try:
        tokens = tokenise(sql)
    except ValueError as error:
        return str(error)
    depth = 0
    for token, after in zip_longest(tokens, tokens[1:]):
        if token.kind is TokenKind.COMMENT or token.text == ";":
            return f"has {token.text!r}"
        if token.text == "*" and after is not None and after.text == "/":
            return "has '*/'"
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0:
            return "closes a parenthesis that it does not open"
    return "leaves a parenthesis open" if depth else ""


def string_value(literal: str) -> str:
    """What a string token in quotes means: escapes resolved, doubled quotes single."""
    quote = literal[0]
    meant = re.compile(rf"\\(.)|{quote}{quote}", re.DOTALL)
    return meant.sub(lambda m: quote if m[1] is None else _ESCAPES.get(m[1], m[1]), literal[1:-1])


def single_quoted(string: str) -> str:
    """A string token in single quotes: in double quotes it would be a name under ANSI_QUOTES."""
    if not string.startswith('"'):
        return string
    return "'" + string[1:-1].replace('""', '"').replace("'", "''") + "'"


def as_shown(body: str) -> str:
    """A trigger's body as information_schema shows it: strings with their escapes resolved, introducers left out."""
    return "".join(_as_shown(t) for t in tokenise(body) if t.kind is not TokenKind.INTRODUCER)


def _as_shown(token: Token) -> str:
    if token.kind is not TokenKind.STRING or token.text[0] not in "'\"":
        return token.text
    quote = token.text[0]
    return quote + string_value(token.text) + quote


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_KINDS: dict[str, TokenKind] = {
    "space": TokenKind.SPACE,
    "comment": TokenKind.COMMENT,
    "string": TokenKind.STRING,
    "quoted": TokenKind.QUOTED,
    "number": TokenKind.NUMBER,
    "introducer": TokenKind.INTRODUCER,
    "name": TokenKind.NAME,
    "operator": TokenKind.OPERATOR,
}
