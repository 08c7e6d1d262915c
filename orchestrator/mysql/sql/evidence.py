"""Sampled evidence of who still says what: statement digests with their last-seen times, and transactions still open.

What a digest's text means is read in ``mysql.digests``.
"""

from __future__ import annotations

SERVER_NOW = "SELECT UTC_TIMESTAMP(6)"

# Accounts whose present sessions said a kind of statement lately: the server keeps the last ten of each session.
LATELY_BY = (
    "SELECT DISTINCT h.DIGEST, CONCAT(t.PROCESSLIST_USER, '@', t.PROCESSLIST_HOST) "
    "FROM performance_schema.events_statements_history h "
    "JOIN performance_schema.threads t ON t.THREAD_ID = h.THREAD_ID "
    "WHERE h.DIGEST IS NOT NULL AND t.PROCESSLIST_USER IS NOT NULL ORDER BY 1, 2"
)
DIGESTS_ON = (
    "SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = 'statements_digest' AND ENABLED = 'YES'"
)

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


# How many bytes of a statement the server keeps, to make its text from. What is longer is cut, and nothing shows it.
KEPT_BYTES = "LEAST(@@GLOBAL.max_digest_length, @@GLOBAL.performance_schema_max_digest_length)"
# A name has up to 64 characters of three bytes, and takes four more.
LONGEST_NAME_BYTES = 196


def digests_since(names: int) -> str:
    """Kinds of statement that were seen after a moment: text, schema, first and last seen, count, digest, and the bytes
    that the server keeps of one.

    Arguments: the moment, then ``names`` words of which a text must have one; or it is long enough to be cut.

    FIRST_SEEN and LAST_SEEN are in the session's time zone, which is pinned to UTC. When the table is full, every
    statement that it does not know yet is counted in one row without a digest. A text is never shorter than four fifths
    of what it is made from.
    """
    named = "".join(" OR LOCATE(%s, DIGEST_TEXT) > 0" for _ in range(names))
    return (
        f"SELECT DIGEST_TEXT, SCHEMA_NAME, FIRST_SEEN, LAST_SEEN, COUNT_STAR, DIGEST, {KEPT_BYTES} "
        "FROM performance_schema.events_statements_summary_by_digest WHERE LAST_SEEN > %s AND (DIGEST IS NULL"
        f"{named} OR 5 * OCTET_LENGTH(DIGEST_TEXT) > 4 * ({KEPT_BYTES} - {LONGEST_NAME_BYTES})) ORDER BY LAST_SEEN DESC"
    )
