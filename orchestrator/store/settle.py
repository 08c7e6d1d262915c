"""A write whose fate is always told: done, not done, or unknown after the server was asked for long enough."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from orchestrator.errors import ServerUnreachable
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import state as sql
from orchestrator.mysql.told import NOT_INSTALLED, rows
from orchestrator.ports import Clock

POLL_S = 0.2
TRIES = 5


class Settling(Struct, frozen=True):
    """``answer_s``: how long the server is asked what became of a write whose answer did not come."""

    session: Callable[[], Session]
    schema: str
    clock: Clock
    answer_s: float

    def settle(self, id: str, token: str, statements: tuple[sql.Statement, ...]) -> bool | None:
        """Whether the write took effect, sent again where that is safe; None when nobody can say.

        The statements are one transaction that ends with ``ANSWER_OK`` and stores ``token``. Raises ServerError when
        the server refused it for good: then it did not take effect.
        """
        for left in reversed(range(TRIES)):
            texts = [self.session().mogrify(*statement) for statement in statements]
            connection_id = self.session().connection_id
            try:
                return bool(self.session().packet(texts)[-1][0][0] == 1)
            except ServerError as error:
                arrived = self._arrived(id, token, connection_id if error.cure is Cure.RECONNECT else None)
                if arrived is not False:
                    return arrived
                if not left or error.cure not in (Cure.RETRY, Cure.RECONNECT):
                    raise
            self.clock.sleep(POLL_S)
        return False

    def _arrived(self, id: str, token: str, lost: int | None) -> bool | None:
        """Whether the write with ``token`` took effect. ``lost``: the connection whose answer did not come; while it
        still runs on the server, what it was sent may yet happen, and "no" is not known."""
        deadline = self.clock.monotonic() + self.answer_s
        while True:
            try:
                session = self.session()
                runs = lost is not None and _runs(session, lost)
                if rows(session, sql.arrived(self.schema, id, token))[0][0]:
                    return True
                if not runs:
                    return False
            except ServerError as error:
                if error.number in NOT_INSTALLED:
                    return False
            except ServerUnreachable:
                pass  # asked again until the deadline
            if self.clock.monotonic() > deadline:
                return None
            self.clock.sleep(POLL_S)


def _runs(session: Session, connection_id: int) -> bool:
    """Whether that connection is still there. One of our own account is seen without any privilege."""
    return any(int(row[0]) == connection_id for row in rows(session, (sql.CONNECTIONS, ())))
