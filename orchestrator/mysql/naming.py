"""Which columns a statement names, as the server reads it: one column after the other gets a name that nobody says.

A statement that could be prepared before and cannot be now names that column: aliases, joins, views of the same name
in other tables, and quoting are the server's business. A column that cannot be put aside (a generated column or a CHECK
hangs on it) is told by the words of the statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.contract import TableName
from orchestrator.model.facts import Shape
from orchestrator.mysql.declared import Declared
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import statement_trial as sql


def named_columns(
    session: Session, copy: TableName, tag: str, shape: Shape, said: Sequence[Declared]
) -> dict[str, frozenset[str]]:
    """Text of each statement → columns of the copy, in lower case. All of ``said`` can be prepared on the copy as it
    is, and it is so again afterwards. Raises ServerError."""
    found: dict[str, set[str]] = {d.text: set() for d in said}
    aside = ""
    for column in (c.name for c in shape.columns):
        asked = [d for d in said if column.lower() in d.says.writes | d.says.mentions]
        if not asked:
            continue
        if not _moved(session, sql.put_aside(copy, column, aside, tag)):
            for one in asked:
                found[one.text].add(column.lower())
            continue
        aside = column
        for one in asked:
            if _fails(session, sql.prepare(one.text)):
                found[one.text].add(column.lower())
    if aside:
        session.execute(sql.put_aside(copy, "", aside, tag))
    return {text: frozenset(columns) for text, columns in found.items()}


def _moved(session: Session, statement: str) -> bool:
    try:
        session.execute(statement)
    except ServerError as error:
        if error.cure is not Cure.STOP:
            raise
        return False
    return True


def _fails(session: Session, statements: Sequence[str]) -> bool:
    try:
        session.packet(statements)
    except ServerError as error:
        if error.cure is Cure.RECONNECT:
            raise
        # What a trigger of the table misses is not what the statement says.
        return "in 'NEW'" not in error.text and "in 'OLD'" not in error.text
    return False
