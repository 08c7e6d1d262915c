"""Two locks of ours by which a tool's attempt at its cut-over is timed; neither keeps a user of the table waiting.

A stand-in has the name that the old table will get. While we hold it, a tool whose word for the cut-over was given
stands before it; its attempt begins in the moment in which we let go. gh-ost makes such a table itself in each attempt,
empty and known by its comment, and clears away first what it finds of that kind. So one that is there is nothing new to
it, and nothing that is lost when we die.

A brake is a read lock on the copy. gh-ost sleeps for a second whenever it has taken up all that was written into the
table, and is not to be woken. One that stands before the brake is awake, and goes on in the moment in which we let go.
"""

from __future__ import annotations

import contextlib

from orchestrator.errors import RolloutError
from orchestrator.model.contract import TableName
from orchestrator.mysql.errno import LOCK_WAIT_TIMEOUT, ServerError
from orchestrator.mysql.quote import literal, table
from orchestrator.mysql.session import Session

_COMMENT = "SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
_WAITS = (
    "SELECT t.PROCESSLIST_ID FROM performance_schema.metadata_locks m"
    " JOIN performance_schema.threads t ON t.THREAD_ID = m.OWNER_THREAD_ID"
    " WHERE m.OBJECT_TYPE = 'TABLE' AND m.OBJECT_SCHEMA = %s AND m.OBJECT_NAME = %s AND m.LOCK_STATUS = 'PENDING'"
)


class _Held:
    """``session`` is its own: it does nothing else while it holds."""

    def __init__(self, session: Session, named: TableName) -> None:
        self._session = session
        self._table = named

    def stands_before(self, look: Session) -> int | None:
        """The session that waits until we let go, None when none does. Raises ServerError."""
        id = look.value(_WAITS, (self._table.schema, self._table.name))
        return int(id) if id is not None else None

    def let_go(self) -> None:
        """A session that is lost has let go by itself."""
        with contextlib.suppress(ServerError, RolloutError):
            self._session.execute("UNLOCK TABLES")


class StandIn(_Held):
    """It never drops the table: after the cut-over the one of that name is the old table with its data."""

    def __init__(self, session: Session, named: TableName, comment: str) -> None:
        super().__init__(session, named)
        self._comment = comment

    def hold(self) -> bool:
        """False: a table with data is there. Raises ServerError."""
        named, comment = table(self._table), literal(self._comment)
        self._session.execute(f"CREATE TABLE IF NOT EXISTS {named} (id INT PRIMARY KEY) COMMENT = {comment}")
        if self._session.value(_COMMENT, (self._table.schema, self._table.name)) != self._comment:
            return False
        self._session.execute(f"LOCK TABLES {named} WRITE")
        return True


class Brake(_Held):
    """Must be let go before the tool's rename; no longer than a second, because the tool has limits of its own."""

    pressed = False

    def press(self) -> None:
        """Not pressed afterwards: the tool is in the middle of a long transaction; to be tried again. Raises
        ServerError."""
        if not self.pressed:
            try:
                self._session.execute(f"LOCK TABLES {table(self._table)} READ")
            except ServerError as error:
                if error.number != LOCK_WAIT_TIMEOUT:
                    raise
                return
            self.pressed = True

    def let_go(self) -> None:
        if self.pressed:
            super().let_go()
            self.pressed = False
