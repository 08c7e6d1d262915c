"""Statements that a runbook declares, with values bound to their parameters so that a scratch copy can run them."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.model.contract import Contract
from orchestrator.model.facts import Shape
from orchestrator.mysql.sql.family_copy import sample
from orchestrator.mysql.tokens import Token, TokenKind, tokenise

_WRITES = frozenset({"INSERT", "UPDATE", "REPLACE", "DELETE"})
_COMPARES = frozenset({"=", "<=>", "<", ">", "<=", ">=", "<>", "!=", "LIKE", "IN", "(", ","})
_NAMES = (TokenKind.NAME, TokenKind.QUOTED)


@dataclass(frozen=True, slots=True)
class Declared:
    """``arguments``: a literal for each ``?``; ``writes``: mapped columns that it names. ``problem``: why it cannot be
    run on a copy, "" when it can. ``counts``: the number of rows that it touches means something (not with REPLACE)."""

    text: str
    arguments: tuple[str, ...] = ()
    writes: frozenset[str] = frozenset()
    problem: str = ""
    counts: bool = True


def declared(contract: Contract, shape: Shape) -> tuple[Declared, ...]:
    """The statements of all versions that write; a parameter becomes a value of the column that stands before it."""
    texts = dict.fromkeys((*contract.old_statements, *contract.new_statements))
    found = (_declared(text, contract, shape) for text in texts)
    return tuple(d for d in found if d is not None)


def _declared(text: str, contract: Contract, shape: Shape) -> Declared | None:
    try:
        tokens = [t for t in tokenise(text) if t.kind not in (TokenKind.SPACE, TokenKind.COMMENT)]
    except ValueError as error:
        return Declared(text, problem=f"{text} was left out: {error}")
    if not tokens or tokens[0].word not in _WRITES:
        return None
    if any(t.kind in _NAMES and t.identifier == contract.table.schema.lower() for t in tokens):
        return Declared(text, problem=f"{text} was left out: it names the schema, and would reach production")
    mapped = {m.new.lower() for m in contract.mappings} | {(m.old or "").lower() for m in contract.mappings}
    names = frozenset(t.identifier for t in tokens if t.kind in _NAMES)
    return Declared(text, _arguments(tokens, shape), names & mapped, counts=tokens[0].word != "REPLACE")


def _arguments(tokens: list[Token], shape: Shape) -> tuple[str, ...]:
    listed = _listed(tokens, shape)
    keys = {name.lower() for name in shape.key}
    found: list[str] = []
    for at, token in enumerate(tokens):
        if token.text != "?":
            continue
        name = _before(tokens, at)
        if name is None and listed:
            name = listed[len(found) % len(listed)]
        column = shape.column(name) if name is not None else None
        number = 1 if name is None or (name.lower() in keys and tokens[0].word != "INSERT") else 2
        found.append("1" if column is None else sample(column, number if number == 1 else 7))
    return tuple(found)


def _before(tokens: list[Token], at: int) -> str | None:
    """The name that ``?`` is compared with or assigned to."""
    back = at - 1
    if back < 1 or tokens[back].word not in _COMPARES - {"(", ","}:
        return None
    return tokens[back - 1].identifier if tokens[back - 1].kind in _NAMES else None


def _listed(tokens: list[Token], shape: Shape) -> list[str]:
    """The columns of ``INSERT INTO t (…)``."""
    if tokens[0].word not in ("INSERT", "REPLACE"):
        return []
    opening = next((n for n, t in enumerate(tokens) if t.text == "("), len(tokens))
    closing = next((n for n, t in enumerate(tokens) if t.text == ")"), opening)
    return [t.identifier for t in tokens[opening:closing] if t.kind in _NAMES and shape.column(t.identifier)]
