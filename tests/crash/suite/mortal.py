"""Dying at a chosen moment of a command: around the Nth statement that one of its threads sends to the server.

Statements are counted apart for the thread that walks and for all threads beside it (the keeper of the lease, DDL and
its watch, gates, looks at replicas): what walks sends the same statements every time, save where it waits for time to
pass, and how many of the others come in between hangs on the machine.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import threading
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
    whole process stands still until somebody wakes it. WIRE: its way to the server stands still, and it does not; what
    was said meanwhile arrives late. LOSS: likewise, and what was said meanwhile never arrives."""

    TOOL = "tool"
    CONNECTION = "connection"
    SLEEPER = "sleeper"
    WIRE = "wire"
    LOSS = "loss"


class Sender(Enum):
    """Which threads of a command are counted: the one that WALKS, or all BESIDE it."""

    WALK = "walk"
    BESIDE = "beside"


class Edge(Enum):
    """BEFORE the statement leaves, when it is SENT and its answer was not read, when it is ANSWERED."""

    BEFORE = "before"
    SENT = "sent"
    ANSWERED = "answered"


@dataclass(frozen=True)
class Moment:
    """``statement`` counts from 1, over the threads of ``sender``; one that is never reached harms nobody. ``wire``:
    the process of it."""

    victim: Victim
    edge: Edge
    statement: int
    sender: Sender = Sender.WALK
    wire: int = 0

    def __str__(self) -> str:
        return f"{self.victim.value} {self.edge.value} statement {self.statement} of {self.sender.value}"


class Blow:
    """Arms this process. ``statements``: how many were sent so far, by sender; ``sessions``: the connections by which;
    ``struck``: the statement at the moment, once it came; ``last_words`` is called with it before the process ends."""

    def __init__(self, moment: Moment | None, last_words: Callable[[str], None]) -> None:
        self._moment = moment
        self._last_words = last_words
        self._counts = {sender: itertools.count(1) for sender in Sender}
        self.statements = dict.fromkeys(Sender, 0)
        self.sessions = set[int]()
        self.struck = ""
        self._query = Connection.query
        blow = self

        def query(connection: Any, sql: str, unbuffered: bool = False) -> Any:
            return blow._sent(connection, sql, unbuffered)

        Connection.query = query

    def _sent(self, connection: Any, sql: str, unbuffered: bool) -> Any:
        walks = threading.current_thread() is threading.main_thread()
        sender = Sender.WALK if walks else Sender.BESIDE
        self.statements[sender] = number = next(self._counts[sender])
        self.sessions.add(connection.thread_id())
        if self._moment is None or (sender, number) != (self._moment.sender, self._moment.statement):
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
            case Victim.WIRE | Victim.LOSS:
                os.kill(self._moment.wire, signal.SIGSTOP)
            case Victim.CONNECTION:
                with suppress(OSError):
                    connection._sock.shutdown(socket.SHUT_RDWR)
