"""A way to a server whose packets can be held back, and arrive late or never: a process that is stopped and goes on."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from orchestrator.sandbox.server import Server
from tests.support.lossy import Loss, LossyWay

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Wire:
    """While the process ``pid`` is stopped, whoever came by ``port`` gets no answer, and nothing breaks; what they say
    meanwhile arrives when it goes on, unless it was cut before that."""

    pid: int
    port: int
    cuts: mmap.mmap

    def cut(self) -> None:
        """While it stands: nothing that was said on a connection that is open now arrives, and each breaks when it
        goes on and something was, or is, to be passed. Connections that begin later are whole."""
        self.cuts[0] += 1


class _CutWay(LossyWay):
    """``cuts``: how often all connections were cut, shared with whoever cuts them."""

    def __init__(self, server: Server, cuts: mmap.mmap) -> None:
        self._cuts = cuts
        super().__init__(server)

    def _pass(self, source: socket.socket, target: socket.socket, _: Loss) -> None:
        cuts = self._cuts[0]
        with suppress(OSError):
            while (data := source.recv(65536)) and self._cuts[0] == cuts:
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def wire(server: Server) -> Iterator[Wire]:
    """The caller holds no thread. Gone afterwards."""
    reading, writing = os.pipe()
    cuts = mmap.mmap(-1, 1)
    pid = os.fork()
    if pid == 0:
        try:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(reading)
            os.write(writing, str(_CutWay(server, cuts).port).encode())
            os.close(writing)
            while True:
                signal.pause()
        finally:
            os._exit(0)
    try:
        os.close(writing)
        with os.fdopen(reading) as told:
            port = int(told.read())
        yield Wire(pid, port, cuts)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
