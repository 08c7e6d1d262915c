"""Dying at a chosen moment of a command: around the Nth statement that it sends to the server, in whichever session.

Every write of the tool is a statement, so the moments around statements are all the moments at which a death can leave
something half done. The count runs over all sessions and threads of the process.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pymysql.connections import Connection
from pymysql.constants import COMMAND

DIED = 99


class Victim(Enum):
    """TOOL: the whole process ends without any farewell. CONNECTION: the socket under one session is cut. SLEEPER: the
    whole process stands still until somebody wakes it. WIRE: its way to the server stands still, and it does not."""

    TOOL = "tool"
    CONNECTION = "connection"
    SLEEPER = "sleeper"
    WIRE = "wire"


class Edge(Enum):
    """BEFORE the statement leaves, when it is SENT and its answer was not read, when it is ANSWERED."""

    BEFORE = "before"
    SENT = "sent"
    ANSWERED = "answered"


@dataclass(frozen=True)
class Moment:
    """``statement`` counts from 1; one that is never reached harms nobody. ``wire``: the process of it."""

    victim: Victim
    edge: Edge
    statement: int
    wire: int = 0

    def __str__(self) -> str:
        return f"{self.victim.value} {self.edge.value} statement {self.statement}"


class Blow:
    """Arms this process. ``statements``: how many were sent so far; ``sessions``: the connections by which;
    ``struck``: the statement at the moment, once it came; ``last_words`` is called with it before the process ends."""

    def __init__(self, moment: Moment | None, last_words: Callable[[str], None]) -> None:
        self._moment = moment
        self._last_words = last_words
        self._count = itertools.count(1)
        self.statements = 0
        self.sessions = set[int]()
        self.struck = ""
        self._query = Connection.query
        blow = self

        def query(connection: Any, sql: str, unbuffered: bool = False) -> Any:
            return blow._sent(connection, sql, unbuffered)

        Connection.query = query

    def _sent(self, connection: Any, sql: str, unbuffered: bool) -> Any:
        self.statements = number = next(self._count)
        self.sessions.add(connection.thread_id())
        if self._moment is None or number != self._moment.statement:
            return self._query(connection, sql, unbuffered)
        self.struck = sql if isinstance(sql, str) else bytes(sql).decode(errors="replace")
        match self._moment.edge:
            case Edge.BEFORE:
                self._strike(connection)
            case Edge.SENT:
                text = sql.encode(connection.encoding, "surrogateescape") if isinstance(sql, str) else sql
                connection._execute_command(COMMAND.COM_QUERY, text)
                self._strike(connection)
                connection._affected_rows = connection._read_query_result(unbuffered=unbuffered)
                return connection._affected_rows
            case Edge.ANSWERED:
                answer = self._query(connection, sql, unbuffered)
                self._strike(connection)
                return answer
        return self._query(connection, sql, unbuffered)

    def _strike(self, connection: Any) -> None:
        assert self._moment is not None
        match self._moment.victim:
            case Victim.TOOL:
                self._last_words(self.struck)
                os._exit(DIED)
            case Victim.SLEEPER:
                os.kill(os.getpid(), signal.SIGSTOP)
            case Victim.WIRE:
                os.kill(self._moment.wire, signal.SIGSTOP)
            case Victim.CONNECTION:
                with suppress(OSError):
                    connection._sock.shutdown(socket.SHUT_RDWR)
