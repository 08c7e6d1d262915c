"""Two hundred connections of applications, served by one thread that waits for all of them at once.

A thread for each connection would measure the interpreter's lock instead of the server: a thread that has its answer
waits for the lock for 5 ms where others want it too. So here one thread writes statements to sockets and reads answers
from them, with some 0.1 ms of CPU each.
"""

from __future__ import annotations

import heapq
import random
import select
import socket
import threading
import time
from collections.abc import Callable

from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.settings import ServerSettings

_QUERY, _OK, _EOF, _ERROR = 3, 0, 254, 255
_HEADER = 4
_LONGEST_SLEEP_S = 0.5


class _Connection:
    """A session of an application, spoken to in packets. Source of their form: the server's own documentation of the
    client protocol (COM_QUERY, text result set, OK, ERR and EOF packets)."""

    def __init__(self, settings: ServerSettings, name: str, schema: str) -> None:
        self._session = ApplicationSession(settings, name, schema)
        self._session.open()
        self._socket: socket.socket = self._session._connection._sock
        self._socket.setblocking(False)
        self._unread = b""
        self._ends_due = 0
        self.error = ""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, statement: bytes) -> None:
        self._unread, self._ends_due, self.error = b"", -1, ""
        self._socket.sendall((len(statement) + 1).to_bytes(3, "little") + bytes((0, _QUERY)) + statement)

    def answered(self) -> bool:
        """Read what has come; whether the answer is whole."""
        came = self._socket.recv(65536)
        if not came:
            raise ConnectionError("the server has closed the connection")
        self._unread += came
        at = 0
        while (left := len(self._unread) - at) >= _HEADER:
            length = int.from_bytes(self._unread[at : at + 3], "little")
            if left < _HEADER + length:
                break
            self._met(self._unread[at + _HEADER : at + _HEADER + length])
            at += _HEADER + length
        self._unread = self._unread[at:]
        return self._ends_due == 0

    def _met(self, packet: bytes) -> None:
        """One packet: the first one says whether rows follow; their columns end with one EOF, they with another."""
        kind = packet[0]
        if kind == _ERROR:
            self.error, self._ends_due = packet[3:].decode(errors="replace"), 0
        elif self._ends_due < 0:
            self._ends_due = 0 if kind == _OK else 2
        elif kind == _EOF and len(packet) < 9:
            self._ends_due -= 1

    def close(self) -> None:
        self._session.close()


class Applications:
    """They send statements until the end, and each thinks before its next one. ``rate``: how many a second of all
    together while the server answers at once; 0: ``at_once`` of them are always on their way, and nobody thinks."""

    def __init__(
        self,
        settings: ServerSettings,
        schema: str,
        connections: int,
        at_once: int,
        statement: Callable[[random.Random], bytes],
    ) -> None:
        self._idle = [_Connection(settings, f"load {n}", schema) for n in range(connections)]
        self._thinking: list[tuple[float, int, _Connection]] = []
        self._busy: dict[_Connection, float] = {}
        self._connections, self._at_once = connections, at_once
        self._statement = statement
        self._draw = random.Random(7)
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._waits_s: list[float] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.rate = 0.0
        self.errors: list[str] = []

    def __enter__(self) -> Applications:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)
        for connection in (*self._idle, *self._busy, *(c for _, _, c in self._thinking)):
            connection.close()

    def waits(self) -> list[float]:
        """Every wait since it was last asked for, in seconds from the moment when the statement was due."""
        with self._lock:
            taken, self._waits_s = self._waits_s, []
        return taken

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                if self.rate:
                    while self._idle:
                        self._think(self._idle.pop())
                    while self._thinking and self._thinking[0][0] <= time.perf_counter():
                        due, _, connection = heapq.heappop(self._thinking)
                        self._send(connection, due)
                else:
                    while len(self._busy) < self._at_once:
                        self._send(self._idle.pop(self._draw.randrange(len(self._idle))), time.perf_counter())
                self._hear(self._sleep_s())
        except OSError as error:
            self.errors.append(f"a connection broke: {error}")

    def _think(self, connection: _Connection) -> None:
        due = time.perf_counter() + self._draw.expovariate(self.rate / self._connections)
        heapq.heappush(self._thinking, (due, connection.fileno(), connection))

    def _send(self, connection: _Connection, due: float) -> None:
        connection.send(self._statement(self._draw))
        self._busy[connection] = due

    def _sleep_s(self) -> float:
        due = self._thinking[0][0] if self._thinking else float("inf")
        return min(max(due - time.perf_counter(), 0.0), _LONGEST_SLEEP_S)

    def _hear(self, within_s: float) -> None:
        ready, _, _ = select.select(list(self._busy), (), (), within_s)
        for connection in ready:
            if connection.answered():
                waited_s = time.perf_counter() - self._busy.pop(connection)
                self._idle.append(connection)
                if connection.error:
                    self.errors.append(connection.error)
                with self._lock:
                    self._waits_s.append(waited_s)
