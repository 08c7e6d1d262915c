"""The values that live in a column of few values, each with its number of rows: what a value map is held to."""

from __future__ import annotations

from orchestrator.model.contract import Column, TableName
from orchestrator.model.types import Family
from orchestrator.mysql import quote
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Row, Session

MOST_VALUES = 200
_LONGEST_MS = 10_000
_SAMPLE_ROWS = 200_000
_TOOK_TOO_LONG = 3024


def read_live_values(
    session: Session, table: TableName, column: Column
) -> tuple[tuple[tuple[str | None, int], ...], bool]:
    """(value, rows), most rows first, at most ``MOST_VALUES``; and whether the whole table was counted.

    Values are told apart byte by byte. Counting ends after ten seconds; then the first rows are a sample, said so.
    Raises ServerError.
    """
    value = _as_text(column)
    hint = f"/*+ MAX_EXECUTION_TIME({_LONGEST_MS}) */"
    grouped = f"GROUP BY 1 ORDER BY 2 DESC LIMIT {MOST_VALUES}"
    try:
        found = session.query(f"SELECT {hint} {value}, COUNT(*) FROM {quote.table(table)} {grouped}")
        return _counted(found), True
    except ServerError as error:
        if error.number != _TOOK_TOO_LONG:
            raise
    some = f"SELECT {quote.name(column.name)} FROM {quote.table(table)} LIMIT {_SAMPLE_ROWS}"
    return _counted(session.query(f"SELECT {value}, COUNT(*) FROM ({some}) sample {grouped}")), False


def _as_text(column: Column) -> str:
    named = quote.name(column.name)
    if column.type.family is Family.BINARY:
        return f"LOWER(HEX({named}))"
    return f"CAST(CONVERT({named} USING utf8mb4) AS BINARY)"


def _counted(rows: list[Row]) -> tuple[tuple[str | None, int], ...]:
    return tuple((_decoded(value), int(count)) for value, count in rows)


def _decoded(value: object) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else None if value is None else str(value)
