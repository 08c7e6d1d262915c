"""Why a table is not seen: it is not there, it is called otherwise, or the account may not look."""

from __future__ import annotations

from orchestrator.model.contract import TableName
from orchestrator.mysql import quote
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session


def hidden(session: Session, table: TableName) -> None:
    """information_schema hides a table from an account without rights on it; only a statement tells which it is.

    Raises ServerError when the account may not look; returns when there is nothing to be seen.
    """
    try:
        session.query(f"SELECT 1 FROM {quote.table(table)} LIMIT 0")
    except ServerError as error:
        if error.is_privilege:
            raise


def like_named(session: Session, table: TableName) -> tuple[TableName, ...]:
    """Tables whose names differ from this one in case only. Raises ServerError."""
    rows = session.query(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
        " WHERE LOWER(TABLE_SCHEMA) = LOWER(%s) AND LOWER(TABLE_NAME) = LOWER(%s) ORDER BY TABLE_SCHEMA, TABLE_NAME",
        (table.schema, table.name),
    )
    return tuple(TableName(str(schema), str(name)) for schema, name in rows)
