"""Whether an operator's expression can leave the range of its type: the server then gives an error (1690), no NULL."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.contract import Column
from orchestrator.model.types import Family
from orchestrator.mysql.tokens import Token, TokenKind

ARITHMETIC = frozenset(["+", "-", "*"])
_BITWISE = frozenset(["&", "|", "^", "~", "<<", ">>"])
# What is computed exactly, and as a signed number.
_EXACT = frozenset([Family.INTEGER, Family.DECIMAL, Family.TEMPORAL, Family.TIME])
# So many digits are a number of 32 bits, or far from 63, whichever they are.
_SURELY_32_BITS, _SURELY_62_BITS = 9, 17
_A_HUNDRED = 100


def leaves_its_range(tokens: Sequence[Token], columns: Sequence[Column]) -> bool:
    """Whether arithmetic could end in 1690; in doubt it could. Measured on 9.7.4, with the extremes of each type.

    Wider integers are read as DECIMAL, which the server does not refuse; what is read as a double (text, JSON), what is
    unsigned whatever it is made of (BIT, YEAR, CRC32, bit operators), and DIV, whose answer has 64 bits, leave theirs.
    """
    signs = [t.text for t in tokens if t.kind is TokenKind.OPERATOR and t.text in ARITHMETIC]
    said = {t.word for t in tokens if t.kind is TokenKind.NAME}
    if "DIV" in said and _divides_widely(tokens, columns, signs):
        return True
    if not signs:
        return "ABS" in said and any(c.type.base == "bigint" for c in columns)
    unsigned = "CRC32" in said or any(t.text in _BITWISE for t in tokens if t.kind is TokenKind.OPERATOR)
    return unsigned or any(c.type.family not in _EXACT for c in columns) or _multiplies_widely(tokens, columns, signs)


def _divides_widely(tokens: Sequence[Token], columns: Sequence[Column], signs: Sequence[str]) -> bool:
    """Anything but an integer DIV a whole number: -2^63 DIV -1 and 1 DIV 1e-30 have no 64 bits. A sum may be a little
    longer than they are: DIV a hundred or more it is not."""
    by = [tokens[at + 1].text if at + 1 < len(tokens) else "" for at, t in enumerate(tokens) if t.word == "DIV"]
    if "*" in signs or any(not b.isdigit() or (signs and int(b) < _A_HUNDRED) for b in by):
        return True
    return any(c.type.family is not Family.INTEGER for c in columns)


def _multiplies_widely(tokens: Sequence[Token], columns: Sequence[Column], signs: Sequence[str]) -> bool:
    """A product of more than two factors of 32 bits, of a sum, or with a number, a moment or a text, leaves 64 bits; a
    sum does with a number that needs them all."""
    numbers = [t.text.lower() for t in tokens if t.kind is TokenKind.NUMBER]
    digits = [64 if n.startswith(("0x", "0b")) or "e" in n else len(n.partition(".")[0]) for n in numbers]
    if any(d > _SURELY_62_BITS for d in digits) or ("*" in signs and len(signs) > 1):
        return True
    moments = any(c.type.family in (Family.TEMPORAL, Family.TIME) for c in columns)
    decimals = any(c.type.family is Family.DECIMAL for c in columns)
    texts = any(t.kind is TokenKind.STRING for t in tokens)
    return "*" in signs and (moments or decimals or texts or any(d > _SURELY_32_BITS for d in digits))
