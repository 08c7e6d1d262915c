"""What else on the server names a table: views, routines, events, triggers of other tables. Only what the account sees.

A view or routine of its schema whose text this account may not read may name it too, and is told; what this account may
not see at all, an event or a trigger, is not in information_schema.
"""

from __future__ import annotations

import re

from orchestrator.model.contract import TableName
from orchestrator.model.facts import Dependent
from orchestrator.model.shape_digest import OUR_TRIGGERS
from orchestrator.model.words import says
from orchestrator.mysql.session import Session

_VIEWS = (
    "SELECT CONCAT('view ', v.TABLE_SCHEMA, '.', v.TABLE_NAME), v.VIEW_DEFINITION"
    " FROM information_schema.VIEW_TABLE_USAGE u JOIN information_schema.VIEWS v"
    " ON v.TABLE_SCHEMA = u.VIEW_SCHEMA AND v.TABLE_NAME = u.VIEW_NAME"
    " WHERE u.TABLE_SCHEMA = %s AND u.TABLE_NAME = %s"
)
# VIEW_TABLE_USAGE hides a view whose definition the account may not see; VIEWS shows it with none.
_UNREAD_VIEWS = (
    "SELECT CONCAT('view ', TABLE_SCHEMA, '.', TABLE_NAME), NULL FROM information_schema.VIEWS"
    " WHERE TABLE_SCHEMA = %s AND TABLE_NAME <> %s AND COALESCE(VIEW_DEFINITION, '') = ''"
)
_BODIES = (
    "SELECT CONCAT(LOWER(ROUTINE_TYPE), ' ', ROUTINE_SCHEMA, '.', ROUTINE_NAME), ROUTINE_DEFINITION"
    " FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = %s"
    " AND (ROUTINE_DEFINITION IS NULL OR INSTR(LOWER(ROUTINE_DEFINITION), LOWER(%s)) > 0)",
    "SELECT CONCAT('event ', EVENT_SCHEMA, '.', EVENT_NAME), EVENT_DEFINITION FROM information_schema.EVENTS"
    " WHERE EVENT_SCHEMA = %s AND INSTR(LOWER(EVENT_DEFINITION), LOWER(%s)) > 0",
)
_TRIGGERS = (
    "SELECT CONCAT('trigger ', TRIGGER_SCHEMA, '.', TRIGGER_NAME, ' on ', EVENT_OBJECT_TABLE), ACTION_STATEMENT"
    " FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_OBJECT_TABLE <> %s"
    " AND LEFT(TRIGGER_NAME, %s) <> %s AND INSTR(LOWER(ACTION_STATEMENT), LOWER(%s)) > 0"
)
# A view is stored with every column behind its table and every name that it gives behind AS.
_GIVEN = re.compile(r" AS `(?:[^`]|``)*`")


def read_dependents(session: Session, table: TableName) -> tuple[Dependent, ...]:
    """``view shop.recent``, ``procedure shop.tidy``, ``event shop.nightly``, ``trigger shop.t on items``: sorted.

    Raises ServerError."""
    of = (table.schema, table.name)
    views = [Dependent(str(n), _GIVEN.sub("", str(d))) for n, d in session.query(_VIEWS, of)]
    bodies = [row for statement in (*_BODIES, _UNREAD_VIEWS) for row in session.query(statement, of)]
    bodies += session.query(_TRIGGERS, (*of, len(OUR_TRIGGERS), OUR_TRIGGERS, table.name))
    named = [Dependent(str(n), str(d)) for n, d in bodies if d is not None and says(str(d), table.name)]
    unread = [Dependent(str(n), None) for n, d in bodies if d is None]
    return tuple(sorted((*views, *named, *unread), key=lambda d: d.name))
