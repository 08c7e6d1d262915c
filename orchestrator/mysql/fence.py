"""A fence before a copy: while it stands, no rename can put the copy into the place of its table, whoever sends it and
whenever. Rows may still be written into the copy.

It is a shared metadata lock on the copy, held by an open transaction. Behind it the session sleeps on the server in
pieces that are shorter than the time after which a sleeping statement looks for its client (5 s, ``Interruptible_wait``
in the server's source). So the fence outlives us by up to twelve seconds, and then falls by itself; a rename that a
tool sent before it died with us waits for four at most. A fence that is needed for longer sleeps again and again: who
dies near the end of a sleep leaves it for that rest only.
"""

from __future__ import annotations

import contextlib
import threading

from orchestrator.errors import RolloutError
from orchestrator.model.contract import TableName
from orchestrator.mysql.copied import kill_session
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.quote import table
from orchestrator.mysql.session import Session

# A rename waits up to two seconds at each of two locks; an attempt needs up to five to be over.
_STANDS_ALONE = "DO SLEEP(4), SLEEP(4), SLEEP(4)"
_STANDS = (
    "SELECT COUNT(*) FROM performance_schema.metadata_locks m"
    " JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID"
    " WHERE m.OBJECT_TYPE = 'TABLE' AND m.OBJECT_SCHEMA = %s AND m.OBJECT_NAME = %s AND m.LOCK_STATUS = 'GRANTED'"
    " AND t.PROCESSLIST_ID = %s"
)
_FALLS_WITHIN_S = 2.0


class Fence:
    """``session`` is its own: nobody else says anything on it. It is asked for without waiting, because a rename that
    is at work on the copy would be waited for."""

    def __init__(self, session: Session, before: TableName) -> None:
        self._session = session
        self._copy = before
        self._id = 0
        self._fallen = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def asked(self) -> bool:
        return self._thread is not None

    def rise(self) -> None:
        """Ask for it, again where the server refused it the last time."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._hold, name="rollout-fence", daemon=True)
            self._thread.start()

    def stands(self, look: Session) -> bool:
        """Raises ServerError."""
        return bool(look.value(_STANDS, (self._copy.schema, self._copy.name, self._id)))

    def fall(self, look: Session) -> None:
        """It is gone afterwards. Raises ServerError."""
        self._fallen.set()
        if self._thread is not None:
            kill_session(look, self._id)
            self._thread.join(_FALLS_WITHIN_S)
        self._session.close()

    def _hold(self) -> None:
        with contextlib.suppress(ServerError, RolloutError):
            self._session.ensure()
            self._id = self._session.connection_id
            self._session.packet(("START TRANSACTION", f"SELECT 1 FROM {table(self._copy)} LIMIT 0", _STANDS_ALONE))
            while not self._fallen.is_set():
                # Without a word a session is ended that idles, and the transaction with it.
                self._session.execute(_STANDS_ALONE)
