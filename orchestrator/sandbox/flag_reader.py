"""How an application obeys the two flags: asked once a poll, held for one poll, decided when a transaction begins."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from orchestrator.model.keys import Key, show_key
from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.sql import applications as sql


class Decision(Struct, frozen=True):
    """What holds for one transaction, from its first statement to its end."""

    new_writes: bool = False
    read_percent: int = 0
    salt: str = ""
    double_writes: bool = False

    def reads_new(self, entity: Key) -> bool:
        """Whether this entity is on the new column."""
        if self.read_percent >= 100:
            return True
        return self.read_percent > 0 and bucket(self.salt, entity) < self.read_percent


OLD = Decision()
WITHOUT_FLAG = Decision(new_writes=True, read_percent=100)


def bucket(salt: str, entity: Key) -> int:
    """``CRC32(CONCAT(salt, ':', keytext)) % 100`` over UTF-8; bytes as lower-case hex, parts joined by a colon."""
    return zlib.crc32(f"{salt}:{show_key(entity)}".encode()) % 100


class Deciding(Protocol):
    """Whoever tells an application's process what holds for its next transaction."""

    def decide(self) -> Decision: ...

    def close(self) -> None: ...


class FlagReader:
    """One for each application process; thread-safe. An answer is good for ``poll_s`` from the moment of asking.

    But for ``double_writes``, which goes on until it is seen lowered: it is the mirror, and must not end for want of an
    answer.
    """

    def __init__(
        self,
        session: ApplicationSession,
        state_schema: str,
        rollout: str,
        poll_s: float,
        monotonic: Callable[[], float],
    ) -> None:
        self._session = session
        self._question = sql.read_flag(state_schema)
        self._double_writes = False
        self._rollout = rollout
        self._poll_s = poll_s
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._asked_at = float("-inf")
        self._answer = OLD

    def decide(self) -> Decision:
        """Call before a transaction begins, never inside one. An unreadable, missing or late answer is ``OLD``, with
        double writes as they were last seen."""
        with self._lock:
            now = self._monotonic()
            if now - self._asked_at >= self._poll_s:
                self._answer = self._ask()
                self._asked_at = now
                if self._monotonic() - now >= self._poll_s:
                    return self._unknown()  # so late that it is worth nothing any more
            return self._answer

    def close(self) -> None:
        with self._lock:
            self._session.close()

    def _ask(self) -> Decision:
        try:
            rows = self._session.query(self._question, (self._rollout,))
        except ServerError:
            return self._unknown()
        if not rows:
            return OLD
        new_writes, percent, salt, double_writes = rows[0]
        self._double_writes = bool(double_writes)
        return Decision(bool(new_writes), int(percent), str(salt), self._double_writes)

    def _unknown(self) -> Decision:
        return Decision(double_writes=self._double_writes)
