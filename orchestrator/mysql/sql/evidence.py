"""Sampled evidence of who still says what: statement digests with their last-seen times, and transactions still open.

The server keeps no digest by account and cuts long statements, so this is evidence, not proof, and is called so.
"""

from __future__ import annotations

from collections.abc import Sequence

SERVER_NOW = "SELECT UTC_TIMESTAMP(6)"

# FIRST/LAST_SEEN are in the session's time zone, which is pinned to UTC.
DIGESTS_SINCE = (
    "SELECT LEFT(DIGEST_TEXT, 1024), LAST_SEEN FROM performance_schema.events_statements_summary_by_digest "
    "WHERE LAST_SEEN > %s AND (DIGEST_TEXT LIKE %s OR DIGEST_TEXT LIKE %s) ORDER BY LAST_SEEN DESC LIMIT 500"
)
DIGESTS_LOST = "SHOW GLOBAL STATUS LIKE 'Performance_schema_digest_lost'"
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
    """The first of ``columns`` that the digest text names; digests write every name in backticks."""
    lowered = digest.lower()
    return next((c for c in columns if f"`{c.lower()}`" in lowered), None)


def writes(digest: str) -> bool:
    """Whether the digest is of a statement that changes rows."""
    first = digest.lstrip().split(" ", 1)[0].upper()
    return first in ("INSERT", "UPDATE", "REPLACE", "DELETE", "LOAD", "WITH")
