"""The edges of a batch: the moments around its packet at which a client, a session or a server may die."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import cycle

from pymysql.constants import COMMAND

from orchestrator.mysql.session import Row, Session
from orchestrator.mysql.sql import positions
from orchestrator.settings import ServerSettings


class Edge(Enum):
    """BEFORE the packet leaves, when it is SENT and nothing was read of its answer, when it is ANSWERED."""

    BEFORE = "before"
    SENT = "sent"
    ANSWERED = "answered"


EDGES = tuple(Edge)


class EdgySession(Session):
    """Calls ``at`` at one edge of each batch's packet; the edges come round in turn."""

    def __init__(self, settings: ServerSettings, at: Callable[[Edge], None], edges: Sequence[Edge] = EDGES) -> None:
        self._at = at
        self._edges: Iterator[Edge] = cycle(edges)
        super().__init__(settings, role="edges", timeout_s=60.0)

    def packet(self, statements: Sequence[str]) -> list[list[Row]]:
        # A statement that stands alone (the beginning of a pass, its taking over) is no batch.
        if statements[0] != "START TRANSACTION" or len(statements) == len(positions.alone("")):
            return super().packet(statements)
        edge = next(self._edges)
        if edge is Edge.BEFORE:
            self._at(edge)
        if edge is Edge.SENT:
            self._sent(edge)
        results = super().packet(statements)
        if edge is Edge.ANSWERED:
            self._at(edge)
        return results

    def _sent(self, edge: Edge) -> None:
        """The next command is sent, then the edge, then its answer is read."""
        connection = self._ready()
        send = connection._execute_command

        def send_and_tell(command: int, sql: object) -> None:
            send(command, sql)
            if command == COMMAND.COM_QUERY:
                del connection._execute_command
                self._at(edge)

        connection._execute_command = send_and_tell


def killed_child(body: Callable[[], None]) -> bool:
    """Runs ``body`` in a process of its own; whether it was killed. False: it came to its end."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return True
    assert os.WEXITSTATUS(status) == 0, "the process failed"
    return False


def die(_: Edge) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
