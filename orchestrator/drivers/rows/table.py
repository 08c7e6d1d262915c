"""The live table of a step, or the error that says why there is none to walk; and whether it is still the same."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.errors import RunbookError
from orchestrator.model.contract import TableName
from orchestrator.model.facts import Shape
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import definition, read_shape

_ASK_EVERY_S = 1.0


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


def altered(before: Shape, now: Shape) -> tuple[str, ...]:
    """What an ALTER of somebody's has done to the columns that were there, each by name, with both types where these
    differ."""
    found = []
    for column in before.columns:
        after = now.column(column.name)
        if after is None:
            found.append(f"{column.name} is gone")
        elif after != column:
            told = f" was {column.type} and is {after.type}" if after.type != column.type else ""
            found.append(f"{column.name}{told}")
    return tuple(found)


class Definition:
    """The table that a pass was planned for. Asked by each worker on its own session, about once a second in all."""

    def __init__(self, shape: Shape, elapsed_s: Callable[[], float]) -> None:
        self._shape = shape
        self._elapsed_s = elapsed_s
        self._asked_s = float("-inf")
        self._said = ""

    def altered(self, session: Session, *, at_once: bool = False) -> tuple[str, ...]:
        """What was done to the columns since the pass was planned, and those that came and that the server would write
        by itself; an index or a plain new column is nobody's harm. ``at_once``: however lately it was asked. Raises
        ServerError."""
        if not at_once and self._elapsed_s() - self._asked_s < _ASK_EVERY_S:
            return ()
        self._asked_s = self._elapsed_s()
        said = definition(session, self._shape.table)
        if said == self._said:
            return ()
        now = read_shape(session, self._shape.table, self._shape.key)
        if now is None:
            return ("the table is gone",)
        came = (c for c in now.columns if c.on_update and self._shape.column(c.name) is None)
        found = (*altered(self._shape, now), *(f"{c.name} came, which the server sets on every write" for c in came))
        if not found:
            self._said = said  # what is otherwise is told to every worker that asks
        return found
