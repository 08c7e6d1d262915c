"""What was said to a table lately: statement digests of the server, without their values, as statements again."""

from __future__ import annotations

from msgspec import Struct

from orchestrator.model.contract import TableName
from orchestrator.mysql.captured import runnable
from orchestrator.mysql.digests import may_be_cut, names_table
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.evidence import KEPT_BYTES

_MOST = 50
_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE")


# The digests, and beside them the last statements of each session, which are there when no digest had room.
_SAID = (
    f"SELECT DIGEST_TEXT, {KEPT_BYTES} FROM (SELECT DIGEST_TEXT, SCHEMA_NAME AS said_in, COUNT_STAR AS times"
    " FROM performance_schema.events_statements_summary_by_digest UNION ALL SELECT DIGEST_TEXT, CURRENT_SCHEMA, 1"
    " FROM performance_schema.events_statements_history) said WHERE said_in = %s"
    " AND INSTR(LOWER(DIGEST_TEXT), LOWER(%s)) > 0 GROUP BY DIGEST_TEXT ORDER BY SUM(times) DESC LIMIT 500"
)


class Heard(Struct, frozen=True):
    """``statements``: as they can be prepared, most often said first. ``left_out``: how many the server may have
    cut, or do not show what stood in them."""

    statements: tuple[str, ...]
    left_out: int = 0


def read_spoken(session: Session, table: TableName) -> Heard:
    """What names the table, said by sessions in its schema. Raises ServerError.

    The server keeps no account and no version with a digest, and forgets the oldest: this is evidence, no proof.
    """
    rows = session.query(_SAID, (table.schema, table.name))
    said = ((str(text), int(kept)) for text, kept in rows if text)
    found = [(t, kept) for t, kept in said if t.startswith(_VERBS) and names_table(t, table.schema, table)]
    written = ["" if may_be_cut(t, kept) else runnable(t) for t, kept in found]
    return Heard(tuple(dict.fromkeys(w for w in written if w))[:_MOST], written.count(""))
