"""What "the same value" means: byte for byte, whatever a collation, a time zone or a number's form would let pass."""

from __future__ import annotations

from orchestrator.model.contract import Column
from orchestrator.model.types import Family
from orchestrator.mysql.kinds import UTF8MB4


def exact(column: Column, sql: str) -> str:
    """``sql``, of the column's own kind, so that comparing it compares every byte (text), the instant (TIMESTAMP), and
    0 apart from -0 (which an own form shows, and ``=`` does not)."""
    match column.type.family:
        case Family.FLOAT:
            return f"CAST(CAST({sql} AS DOUBLE) AS CHAR) COLLATE utf8mb4_0900_bin"
        case Family.TEXT if (column.charset or UTF8MB4) == UTF8MB4:
            return f"{sql} COLLATE utf8mb4_0900_bin"
        case Family.TEXT | Family.ENUM | Family.SET:
            return f"CONVERT({sql} USING utf8mb4) COLLATE utf8mb4_0900_bin"
        case Family.TEMPORAL if column.type.base == "timestamp":
            return f"UNIX_TIMESTAMP({sql})"
        case _:
            return sql


def same(column: Column, stored: str, value: str, sign: str = "<=>") -> str:
    """The column's ``stored`` value is exactly ``value``, or both are NULL; 0 or 1. With ``=`` NULL when one is NULL.

    JSON is compared as the server compares it: an UPDATE from 1 to 1.0 changes nothing (seen on 9.7.4), so no pass
    could mend such a difference. ``other_form`` finds it."""
    both_sides = column.type.family is Family.FLOAT or column.type.base == "timestamp"
    compared = exact(column, value) if both_sides or "COLLATE" in value.upper() else value
    return f"{exact(column, stored)} {sign} {compared}"


def other_form(column: Column, stored: str, value: str) -> str | None:
    """The JSON ``stored`` is written in another form than ``value``, such as 1.0 for 1; None for other columns."""
    if column.type.family is not Family.JSON:
        return None
    return f"NOT (CAST({stored} AS CHAR) COLLATE utf8mb4_0900_bin <=> CAST({value} AS CHAR))"
