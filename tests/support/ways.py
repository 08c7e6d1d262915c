"""Proxies as they stand before servers: one sends later sessions to another server, one shares sessions."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

from orchestrator.sandbox.server import Server


class Spreading:
    """Listens on ``port``. New sessions go to ``servers[0]``, and from the moment of ``turn`` to ``servers[1]``; with
    ``cut`` the ones that are open break. ``greeting`` may change the first packet of each session."""

    def __init__(self, servers: tuple[Server, Server], greeting: Callable[[bytes], bytes] = lambda data: data) -> None:
        self._servers = servers
        self._greeting = greeting
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._turned = False
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def turn(self, *, cut: bool = False) -> None:
        self._turned = True
        if cut:
            self._cut()

    def close(self) -> None:
        self._listener.close()
        self._cut()

    def _cut(self) -> None:
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                server = self._servers[self._turned]
                far = socket.create_connection((server.host, server.port))
                self._open += [near, far]
                near.sendall(self._greeting(far.recv(65536)))
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def as_its_own(greeting: bytes) -> bytes:
    """The greeting of a proxy that counts connections by itself: behind the version stand four bytes of its number."""
    at = greeting.index(b"\0", 5) + 1
    (number,) = struct.unpack_from("<I", greeting, at)
    return greeting[:at] + struct.pack("<I", number + 1_000_000) + greeting[at + 4 :]


@contextlib.contextmanager
def spreading(
    first: Server, then: Server, greeting: Callable[[bytes], bytes] = lambda data: data
) -> Iterator[Spreading]:
    way = Spreading((first, then), greeting)
    try:
        yield way
    finally:
        way.close()
