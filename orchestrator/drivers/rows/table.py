"""The live table of a step, or the error that says why there is none to walk."""

from __future__ import annotations

from orchestrator.errors import RunbookError
from orchestrator.model.contract import TableName
from orchestrator.model.facts import Shape
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape


def live_shape(session: Session, table: TableName, key: tuple[str, ...]) -> Shape:
    """The table as it is now. Raises RunbookError when it is missing, ServerError."""
    shape = read_shape(session, table, key)
    if shape is None:
        raise RunbookError(
            f"there is no table {table} that this account can see",
            "the table that the runbook names",
            "check table.schema and table.name in the runbook, and the account's SELECT on it",
        )
    return shape
