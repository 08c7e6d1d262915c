"""What else on the server names a table: views, routines and events. Only what the account may see."""

from __future__ import annotations

import re

from orchestrator.model.contract import TableName
from orchestrator.mysql.session import Session

_BODIES = (
    "SELECT CONCAT(LOWER(ROUTINE_TYPE), ' ', ROUTINE_SCHEMA, '.', ROUTINE_NAME), ROUTINE_DEFINITION"
    " FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = %s AND INSTR(LOWER(ROUTINE_DEFINITION), LOWER(%s)) > 0",
    "SELECT CONCAT('event ', EVENT_SCHEMA, '.', EVENT_NAME), EVENT_DEFINITION FROM information_schema.EVENTS"
    " WHERE EVENT_SCHEMA = %s AND INSTR(LOWER(EVENT_DEFINITION), LOWER(%s)) > 0",
)


def read_dependents(session: Session, table: TableName) -> tuple[str, ...]:
    """``view shop.recent``, ``procedure shop.tidy``, ``event shop.nightly``: sorted. Raises ServerError."""
    views = session.query(
        "SELECT CONCAT('view ', VIEW_SCHEMA, '.', VIEW_NAME) FROM information_schema.VIEW_TABLE_USAGE"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s",
        (table.schema, table.name),
    )
    as_a_word = re.compile(rf"(?<![\w$]){re.escape(table.name)}(?![\w$])", re.IGNORECASE)
    bodies = [row for statement in _BODIES for row in session.query(statement, (table.schema, table.name))]
    named = [name for name, body in bodies if as_a_word.search(str(body))]
    return tuple(sorted(str(name) for name in (*(view for (view,) in views), *named)))
