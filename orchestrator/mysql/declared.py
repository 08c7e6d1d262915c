"""Statements that a runbook declares, with values bound to their parameters so that a scratch copy can run them.

A parameter becomes a value of the column that it is compared with or assigned to: in a condition that of the first
sample row, elsewhere that of another row; of a foreign key what its parent holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from orchestrator.model.contract import Column, Contract
from orchestrator.model.facts import Shape
from orchestrator.mysql.sql.family_copy import sample
from orchestrator.mysql.tokens import Token, TokenKind, tokenise
from orchestrator.mysql.wording import Wording, wording, words_of

_WRITES = frozenset({"INSERT", "UPDATE", "REPLACE", "DELETE"})
_COMPARES = frozenset({"=", "<=>", "<", ">", "<=", ">=", "<>", "!=", "LIKE"})
_NAMES = (TokenKind.NAME, TokenKind.QUOTED)
THERE, FRESH = 1, 7
# Column, in lower case → the literal that it must hold.
Held = Mapping[str, str]
_NOTHING = Wording("", "", (), frozenset(), frozenset(), False, False, False)


class Declared(Struct, frozen=True):
    """``text`` as it runs in the schema of the copies; ``arguments``: a literal for each ``?``; ``writes``: mapped
    columns that it names. ``problem``: why it cannot be run on a copy, "" when it can. ``counts``: the number of rows
    that it touches means something (not with REPLACE)."""

    text: str
    arguments: tuple[str, ...] = ()
    writes: frozenset[str] = frozenset()
    problem: str = ""
    counts: bool = True
    says: Wording = _NOTHING


def declared(contract: Contract, shape: Shape, held: Held) -> tuple[Declared, ...]:
    """The statements of all versions that write."""
    texts = dict.fromkeys((*contract.old_statements, *contract.new_statements))
    found = (bound(text, contract, shape, held) for text in texts)
    return tuple(d for d in found if d.problem or d.says.verb in _WRITES)


def bound(
    text: str, contract: Contract, shape: Shape, held: Held, given: Callable[[Column], str] | None = None
) -> Declared:
    """One statement of any kind, with its parameters bound by ``shape``. ``given``: the literal of a value that is
    written, a sample where it is left out."""
    try:
        own = _without_schema(tokenise(text), contract.table.schema)
    except ValueError as error:
        return Declared(text, problem=f"{text} was left out: {error}")
    tokens = words_of(own)
    if any(t.kind in _NAMES and t.identifier == contract.table.schema.lower() for t in tokens):
        return Declared(text, problem=f"{text} was left out: it names the schema, and would reach production")
    mapped = {m.new.lower() for m in contract.mappings} | {(m.old or "").lower() for m in contract.mappings}
    names = frozenset(t.identifier for t in tokens if t.kind in _NAMES)
    says = wording(tokens, contract.table.name)
    value = given or (lambda column: sample(column, FRESH))
    arguments = tuple(
        held.get(c.name.lower()) or (sample(c, THERE) if there else value(c)) if c is not None else "1"
        for c, there in _parameters(tokens, says, shape)
    )
    return Declared(own, arguments, names & mapped, counts=says.verb != "REPLACE", says=says)


def _without_schema(tokens: Sequence[Token], schema: str) -> str:
    """The text with ``schema.table`` as ``table``: in the schema of the copies that is the copy."""
    kept: list[str] = []
    skip = False
    for at, token in enumerate(tokens):
        follows = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if token.kind in _NAMES and token.identifier == schema.lower() and follows == ".":
            skip = True
        elif skip:
            skip = False
        else:
            kept.append(token.text)
    return "".join(kept)


def _parameters(tokens: list[Token], says: Wording, shape: Shape) -> Iterator[tuple[Column | None, bool]]:
    """For each ``?`` the column that it is about, and whether it shall be the value of a row that is there."""
    keys = {name.lower() for name in shape.key}
    places = _places(tokens, says)
    for at, token in enumerate(tokens):
        if token.text != "?":
            continue
        name, there = _before(tokens, at), _in_condition(tokens, at)
        if at in places:
            name, there = places[at], False
        elif name is not None and name in keys and says.verb != "INSERT":
            there = True
        yield (shape.column(name) if name is not None else None), there


def _places(tokens: list[Token], says: Wording) -> dict[int, str]:
    """The column that each ``?`` in the rows of an INSERT stands for, by its place among their values."""
    start = next((n for n, t in enumerate(tokens) if t.word in ("VALUES", "VALUE") and t.kind is TokenKind.NAME), None)
    if start is None or not says.listed:
        return {}
    found: dict[int, str] = {}
    depth, place = 0, 0
    for at in range(start + 1, len(tokens)):
        text = tokens[at].text
        if depth == 0 and tokens[at].word in ("ON", "AS"):
            break
        place = 0 if text == "(" and depth == 0 else place + (text == "," and depth == 1)
        depth += (text == "(") - (text == ")")
        if text == "?" and depth and place < len(says.listed):
            found[at] = says.listed[place]
    return found


def _before(tokens: list[Token], at: int) -> str | None:
    """The name that ``?`` is compared with or assigned to: before a sign, or before IN and its list."""
    back = at - 1
    while back >= 0 and tokens[back].text in ("?", ","):
        back -= 1
    if back >= 1 and tokens[back].text == "(" and tokens[back - 1].word == "IN":
        back -= 2 if tokens[back - 2].word != "NOT" else 3
        return tokens[back].identifier if back >= 0 and tokens[back].kind in _NAMES else None
    back = at - 1
    if back < 1 or tokens[back].word not in _COMPARES:
        return None
    return tokens[back - 1].identifier if tokens[back - 1].kind in _NAMES else None


def _in_condition(tokens: list[Token], at: int) -> bool:
    return any(t.word in ("WHERE", "ON", "HAVING") and t.kind is TokenKind.NAME for t in tokens[:at]) and not any(
        t.word == "DUPLICATE" for t in tokens[:at]
    )
