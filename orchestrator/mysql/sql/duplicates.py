"""Counts the rows that a unique index would refuse, as the index itself would compare them. Pure.

GROUP BY compares by the column's collation, as the index does; a prefix is compared as its first characters. A row with
NULL in any part is nobody's duplicate.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.contract import Index, IndexPart, TableName
from orchestrator.mysql.quote import name, table

_SAMPLES = 5


def count_duplicates(of: TableName, index: Index, absent: Sequence[str], tag: str) -> str:
    """Groups of more than one row, and the rows in them. ``absent``: columns that do not exist yet and will hold one
    constant in every row that exists."""
    return f"SELECT {tag} COUNT(*), COALESCE(SUM(n), 0) FROM ({_groups(of, index, absent, 'COUNT(*) AS n')}) g"


def sample_duplicates(of: TableName, index: Index, absent: Sequence[str], key: Sequence[str], tag: str) -> str:
    """The largest groups: rows in each, the values that are alike, and the least and greatest key of each."""
    shown = [f"MIN({_part(p)})" for p in _present(index, absent)]
    values = f"CONCAT_WS(', ', {', '.join(shown)})" if shown else "''"
    keyed = f"CONCAT_WS(':', {', '.join(name(c) for c in key)})" if key else "''"
    ends = f"MIN({keyed}), MAX({keyed})"
    groups = _groups(of, index, absent, f"COUNT(*), {values}, {ends}", tag)
    return f"{groups} ORDER BY COUNT(*) DESC, 2 LIMIT {_SAMPLES}"


def _groups(of: TableName, index: Index, absent: Sequence[str], what: str, tag: str = "") -> str:
    parts = [_part(p) for p in _present(index, absent)]
    given = " AND ".join(f"{p} IS NOT NULL" for p in parts)
    where = f" WHERE {given}" if given else ""
    by = f" GROUP BY {', '.join(parts)}" if parts else ""
    return f"SELECT {tag + ' ' if tag else ''}{what} FROM {table(of)}{where}{by} HAVING COUNT(*) > 1"


def _present(index: Index, absent: Sequence[str]) -> list[IndexPart]:
    gone = {c.lower() for c in absent}
    return [p for p in index.parts if p.expression is not None or p.column.lower() not in gone]


def _part(part: IndexPart) -> str:
    if part.expression is not None:
        return f"({part.expression})"
    return f"LEFT({name(part.column)}, {part.prefix})" if part.prefix else name(part.column)
