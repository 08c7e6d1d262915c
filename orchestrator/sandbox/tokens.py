"""SQL text as tokens: the plain part of the language that mappings and ordinary statements are written in."""

from __future__ import annotations

import re
from decimal import Decimal

from msgspec import Struct

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>(?:_utf8mb4\s*|_binary\s*)?'(?:[^'\\]|''|\\.)*')
    | (?P<hex>0x[0-9a-fA-F]+|x'[0-9a-fA-F]*')
    | (?P<number>\d+\.\d*|\.\d+|\d+)
    | `(?P<quoted>(?:[^`]|``)+)`
    | :(?P<param>[A-Za-z_]\w*(?:\.\w+)?)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<sign><=>|<>|!=|<=|>=|[-+*/%=<>(),.])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "Z": "\x1a"}


class Token(Struct, frozen=True):
    """``kind`` is text, hex, number, name, param, word or sign; a quoted identifier is a name."""

    kind: str
    text: str

    def says(self, *words: str) -> bool:
        return self.kind in ("word", "sign") and self.text.upper() in words


def tokens(sql: str) -> list[Token]:
    """Raises ValueError on what is not a token of the plain part of the language."""
    found: list[Token] = []
    at = 0
    text = sql.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            raise ValueError(f"cannot read {text[at : at + 20]!r} in {sql!r}")
        kind = match.lastgroup
        found.append(Token("name" if kind == "quoted" else kind, match[kind].replace("``", "`")))
        at = match.end()
    return found


def literal(token: Token) -> int | Decimal | bytes | str:
    """The value of a text, hex or number token."""
    if token.kind == "number":
        return Decimal(token.text) if "." in token.text else int(token.text)
    if token.kind == "hex":
        return bytes.fromhex(token.text[2:].rstrip("'"))
    body = token.text[token.text.index("'") + 1 : -1].replace("''", "'")
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), body, flags=re.DOTALL)
