"""A way to a server whose packets can be held back, and arrive late: a process that is stopped and goes on."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from orchestrator.sandbox.server import Server
from tests.support.lossy import LossyWay

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Wire:
    """While the process ``pid`` is stopped, whoever came by ``port`` gets no answer, and nothing breaks; what they say
    meanwhile arrives when it goes on."""

    pid: int
    port: int


@contextmanager
def wire(server: Server) -> Iterator[Wire]:
    """The caller holds no thread. Gone afterwards."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(reading)
            os.write(writing, str(LossyWay(server).port).encode())
            os.close(writing)
            while True:
                signal.pause()
        finally:
            os._exit(0)
    try:
        os.close(writing)
        with os.fdopen(reading) as told:
            port = int(told.read())
        yield Wire(pid, port)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
