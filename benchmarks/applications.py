"""Two hundred connections of applications, served by one thread that waits for all of them at once.

A thread for each connection would measure the interpreter's lock instead of the server: a thread that has its answer
waits for the lock for 5 ms where others want it too. So here one thread writes statements to sockets and reads answers
from them, with some 0.1 ms of CPU each.
"""

from __future__ import annotations

import random
import select
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

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
    """They send statements until the end. ``rate``: how many a second, at random moments; 0: ``at_once`` of them are
    always on their way."""

    def __init__(
        self,
        settings: ServerSettings,
        schema: str,
        connections: int,
        at_once: int,
        statement: Callable[[random.Random], bytes],
    ) -> None:
        self._free = [_Connection(settings, f"load {n}", schema) for n in range(connections)]
        self._busy: dict[_Connection, float] = {}
        self._at_once = at_once
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
        for connection in (*self._free, *self._busy):
            connection.close()

    def waits(self) -> list[float]:
        """Every wait since it was last asked for, in seconds from the moment when the statement was due."""
        with self._lock:
            taken, self._waits_s = self._waits_s, []
        return taken

    def _run(self) -> None:
        with suppress(OSError):
            rate, due = self.rate, time.perf_counter()
            while not self._ended.is_set():
                if self.rate != rate:
                    rate, due = self.rate, time.perf_counter()
                if rate:
                    due = self._sent_by(due, rate)
                else:
                    while len(self._busy) < self._at_once:
                        self._send(time.perf_counter())
                sleep_s = min(due - time.perf_counter(), _LONGEST_SLEEP_S) if rate and self._free else _LONGEST_SLEEP_S
                self._hear(max(sleep_s, 0.0))
            return
        self.errors.append("a connection broke")

    def _sent_by(self, due: float, rate: float) -> float:
        """Send all that is due, so far as a connection is free. When the next one is due."""
        while due <= time.perf_counter() and self._free:
            self._send(due)
            due += self._draw.expovariate(rate)
        return due

    def _send(self, due: float) -> None:
        connection = self._free.pop(self._draw.randrange(len(self._free)))
        connection.send(self._statement(self._draw))
        self._busy[connection] = due

    def _hear(self, within_s: float) -> None:
        ready, _, _ = select.select(list(self._busy), (), (), within_s)
        for connection in ready:
            if connection.answered():
                waited_s = time.perf_counter() - self._busy.pop(connection)
                self._free.append(connection)
                if connection.error:
                    self.errors.append(connection.error)
                with self._lock:
                    self._waits_s.append(waited_s)
