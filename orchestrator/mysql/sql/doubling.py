"""An application's statement with the other column of each pair written beside the one that it writes.

Text in, text out, for the sandbox's applications: the same values in the same statement, so that every committed row
corresponds. In the list behind, the server reads columns as they were just assigned, or their defaults.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrator.model.contract import Copy, Expression, Transform, Unmapped, ValueMap
from orchestrator.mysql import quote

# (column, SQL of its value over the row)
Addition = tuple[str, str]
_WHERE = re.compile(r"\sWHERE\s", re.IGNORECASE)


def value_of(transform: Transform, column: str, *, number: bool) -> str:
    """The transform of that column as an application would write it. ``number``: its results are numbers."""
    match transform:
        case Copy():
            return quote.name(column)
        case Expression(sql):
            return f"({sql})"
        case ValueMap():
            return _case(transform, column, number)


def quoted(text: str) -> str:
    """A default as a literal; any type takes it."""
    return quote.literal(text)


def update_beside(text: str, additions: Sequence[Addition]) -> str:
    """The UPDATE with these assignments behind its own."""
    if not additions:
        return text
    at = _WHERE.search(text)
    end = len(text) if at is None else at.start()
    return f"{text[:end]}, {_assignments(additions)}{text[end:]}"


def insert_beside(text: str, additions: Sequence[Addition], on_duplicate: Sequence[Addition]) -> str:
    """The INSERT with these columns behind its own in each row; ``on_duplicate`` behind what it assigns then."""
    closes = _closing(text)
    for n, at in reversed(list(enumerate(closes))):
        parts = [quote.name(column) if n == 0 else value for column, value in additions]
        text = f"{text[:at]}{''.join(f', {part}' for part in parts)}{text[at:]}"
    return f"{text}, {_assignments(on_duplicate)}" if on_duplicate else text


def _assignments(additions: Sequence[Addition]) -> str:
    return ", ".join(f"{quote.name(column)} = {value}" for column, value in additions)


def _case(of: ValueMap, column: str, number: bool) -> str:
    name = quote.name(column)
    whens = (
        f"WHEN {name} {'IS NULL' if source is None else f'= {quote.literal(source)}'} THEN {_literal(target, number)}"
        for source, target in of.values
    )
    kept = f" ELSE {name}" if of.unmapped is Unmapped.KEEP else ""
    return f"CASE {' '.join(whens)}{kept} END"


def _literal(text: str | None, number: bool) -> str:
    if text is None:
        return "NULL"
    return str(int(text)) if number else quote.literal(text)


def _closing(text: str) -> list[int]:
    """Where the outer brackets close before ON DUPLICATE KEY UPDATE: of the column list, then of each row."""
    found, depth = list[int](), 0
    for token in re.finditer(r"'(?:[^'\\]|''|\\.)*'|\bON\s+DUPLICATE\b|[()]", text, re.IGNORECASE):
        depth += (token[0] == "(") - (token[0] == ")")
        if token[0] == ")" and depth == 0:
            found.append(token.start())
        if token[0][:2].upper() == "ON" and depth == 0:
            break
    return found
