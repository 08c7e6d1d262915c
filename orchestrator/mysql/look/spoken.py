"""What was said to a table lately: statement digests of the server, without their values, as statements again."""

from __future__ import annotations

import re

from orchestrator.model.contract import TableName
from orchestrator.mysql.captured import runnable
from orchestrator.mysql.session import Session

_MOST = 50
_CUT = "..."
_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE")


def read_spoken(session: Session, table: TableName) -> tuple[str, ...]:
    """Statements that name the table, most often sent first; cut ones, those that cannot be written out, and our own
    are left out. Raises ServerError.

    The server keeps no account and no version with a digest, and forgets the oldest: this is evidence, no proof.
    """
    rows = session.query(
        "SELECT DIGEST_TEXT FROM performance_schema.events_statements_summary_by_digest"
        " WHERE SCHEMA_NAME = %s AND INSTR(LOWER(DIGEST_TEXT), LOWER(%s)) > 0 ORDER BY COUNT_STAR DESC LIMIT 500",
        (table.schema, table.name),
    )
    named = re.compile(rf"`{re.escape(table.name.replace('`', '``'))}`", re.IGNORECASE)
    found = (str(text) for (text,) in rows if text)
    whole = (t for t in found if t.startswith(_VERBS) and named.search(t) and not t.rstrip().endswith(_CUT))
    return tuple(dict.fromkeys(s for t in whole if (s := runnable(t))))[:_MOST]
