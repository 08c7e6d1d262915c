"""How busy the server is, and which transactions have been open for long."""

from __future__ import annotations

from orchestrator.model.facts import LoadFacts, OpenTransaction
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.patience import ask_again
from orchestrator.mysql.session import Session

_THREADS = "SHOW GLOBAL STATUS WHERE Variable_name = 'Threads_running'"
_HISTORY = (
    "SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len' AND STATUS = 'enabled'"
)
# InnoDB shows the time at which a transaction began in the system's time zone, not in the session's.
_TRANSACTIONS = """
SELECT it.trx_mysql_thread_id, t.PROCESSLIST_USER, t.PROCESSLIST_HOST,
 COALESCE(tx.TIMER_WAIT / 1e12,
  TIMESTAMPDIFF(SECOND, it.trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM'))),
 it.trx_rows_modified, LEFT(COALESCE(it.trx_query, es.SQL_TEXT), 200)
FROM information_schema.INNODB_TRX it
LEFT JOIN performance_schema.threads t ON t.PROCESSLIST_ID = it.trx_mysql_thread_id
LEFT JOIN performance_schema.events_transactions_current tx ON tx.THREAD_ID = t.THREAD_ID AND tx.STATE = 'ACTIVE'
LEFT JOIN performance_schema.events_statements_current es
 ON es.THREAD_ID = t.THREAD_ID AND es.NESTING_EVENT_LEVEL = 0
WHERE it.trx_mysql_thread_id <> CONNECTION_ID()
"""


def read_load(session: Session) -> LoadFacts:
    """Threads running now without ours, and undo that waits for purge (None without PROCESS). Raises ServerError."""
    row = session.one(_THREADS)
    running = int(row[1]) - 1 if row else 0
    try:
        history = session.value(_HISTORY)
    except ServerError as error:
        if not error.is_privilege:
            raise
        history = None
    return LoadFacts(threads_running=max(0, running), history_list=None if history is None else int(history))


def read_transactions(session: Session) -> tuple[OpenTransaction, ...]:
    """Open InnoDB transactions of others, the oldest first. A prepared XA transaction whose session is gone has id 0.

    Needs PROCESS and SELECT on performance_schema: without them it raises ServerError, it is never empty.
    """
    found = [
        OpenTransaction(
            process_id=int(id),
            user=user or "",
            host=host or "",
            age_s=max(0.0, float(age_s or 0)),
            rows_modified=int(modified),
            statement=" ".join((statement or "").split())[:120],
        )
        for id, user, host, age_s, modified, statement in ask_again(session, _TRANSACTIONS)
    ]
    return tuple(sorted(found, key=lambda t: -t.age_s))
