"""Sampled evidence of who still says what: statement digests with their last-seen times, and transactions still open.

The server keeps no digest by account and cuts long statements, so this is evidence, not proof, and is called so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrator.model.contract import TableName

SERVER_NOW = "SELECT UTC_TIMESTAMP(6)"

# FIRST/LAST_SEEN are in the session's time zone, which is pinned to UTC. When the table is full, every statement that
# it does not know yet is counted in one row without a digest.
DIGESTS_SINCE = (
    "SELECT LEFT(DIGEST_TEXT, 1024), LAST_SEEN, SCHEMA_NAME "
    "FROM performance_schema.events_statements_summary_by_digest WHERE LAST_SEEN > %s "
    "AND (DIGEST IS NULL OR LOCATE(%s, DIGEST_TEXT) > 0 OR LOCATE(%s, DIGEST_TEXT) > 0) ORDER BY LAST_SEEN DESC"
)
NO_DIGEST = "statements that the server keeps no digest of: performance_schema_digests_size is used up"
MAKE_ROOM = "TRUNCATE performance_schema.events_statements_summary_by_digest makes room"
DIGESTS_ON = (
    "SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = 'statements_digest' AND ENABLED = 'YES'"
)

# In our own statement that reads the flag row (it asks for the seconds left); applications ask otherwise.
OUR_LOOK = "TIMESTAMPDIFF"

# Open for longer than %s seconds: begun before a moment that lies so far back. InnoDB tells whole seconds, and in the
# system's time zone. A transaction without a thread is a prepared XA that outlived its session.
TRANSACTIONS_OLDER = (
    "SELECT d.id, MAX(d.age_s), MAX(d.says) FROM (SELECT trx_mysql_thread_id AS id, "
    "TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS age_s, '' AS says "
    "FROM information_schema.INNODB_TRX UNION ALL "
    "SELECT t.PROCESSLIST_ID, x.TIMER_WAIT / 1e12, LEFT(COALESCE(t.PROCESSLIST_INFO, ''), 120) "
    "FROM performance_schema.events_transactions_current x "
    "JOIN performance_schema.threads t ON t.THREAD_ID = x.THREAD_ID "
    "WHERE x.STATE = 'ACTIVE' AND x.AUTOCOMMIT = 'NO') AS d "
    "WHERE d.id <> CONNECTION_ID() AND d.age_s >= %s - 1 GROUP BY d.id ORDER BY 2 DESC LIMIT 20"
)


def names_column(digest: str, columns: Sequence[str]) -> str | None:
    """The first of ``columns`` that the digest text names. A name that is a keyword as well (STATUS, TYPE) stands there
    without backticks, so a keyword may be taken for the name: too much is named rather than too little."""
    return next((c for c in columns if re.search(_name(c), digest, re.IGNORECASE)), None)


def names_table(digest: str, default: str | None, table: TableName) -> bool:
    """Whether the digest text names the table. ``default`` is the schema in which it was said, None without one."""
    schema, name = _name(table.schema), _name(table.name)
    if re.search(rf"{schema}\s*\.\s*{name}", digest, re.IGNORECASE):
        return True
    said_there = default is not None and default.lower() == table.schema.lower()
    return said_there and re.search(rf"(?<!\. ){name}", digest, re.IGNORECASE) is not None


def _name(name: str) -> str:
    return rf"(?<![\w$`])`?{re.escape(name)}`?(?![\w$`])"


def writes(digest: str) -> bool:
    """Whether the digest is of a statement that changes rows."""
    first = digest.lstrip().split(" ", 1)[0].upper()
    return first in ("INSERT", "UPDATE", "REPLACE", "DELETE", "LOAD", "WITH")
