"""One long count in a thread of its own, so that whoever waits for it can go on listening."""

from __future__ import annotations

import threading

from orchestrator.errors import RolloutError
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session


class Count:
    """Begins at once. Owns ``session`` and closes it."""

    def __init__(self, session: Session, statement: str) -> None:
        self._session = session
        self._statement = statement
        self._rows: int | None = None
        self._error: ServerError | RolloutError | None = None
        self.process_id = session.connection_id
        self._thread = threading.Thread(target=self._run, name="rollout-count", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """True when it has ended within ``seconds``."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def rows(self) -> int:
        """The count, once it has ended. Raises ServerError, RolloutError."""
        if self._error is not None:
            raise self._error
        assert self._rows is not None
        return self._rows

    def close(self) -> None:
        self._session.close()

    def _run(self) -> None:
        try:
            self._rows = int(self._session.value(self._statement))
        except (ServerError, RolloutError) as error:
            self._error = error
