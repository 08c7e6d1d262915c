"""A way to a server that loses things on demand: requests, answers, or everything; or is just long."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from enum import Enum

from orchestrator.sandbox.server import Server


class Loss(Enum):
    """NOTHING. REQUEST: the next request never arrives and the connection breaks. ANSWER: the next request arrives, its
    answer does not, and the connection breaks. SILENCE: nothing is passed on any more, and nothing breaks."""

    NOTHING = "nothing"
    REQUEST = "request"
    ANSWER = "answer"
    SILENCE = "silence"


class LossyWay:
    """Listens on ``port`` and passes on to ``server``, but for what ``lose`` says. REQUEST and ANSWER happen once.
    ``far_s``: how long everything is under way, in each direction; ``spoke_at``: when something arrived last."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.lose = Loss.NOTHING
        self.lost = 0
        self.far_s = 0.0
        self.spoke_at = time.monotonic()
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        for end in self._open:
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection((self._server.host, self._server.port))
                self._open += [near, far]
                for source, target, loss in ((near, far, Loss.REQUEST), (far, near, Loss.ANSWER)):
                    threading.Thread(target=self._pass, args=(source, target, loss), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, mine: Loss) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.lose is Loss.SILENCE:
                    self.lost += 1
                    continue
                if self._loses(mine):
                    break
                time.sleep(self.far_s)
                target.sendall(data)
                self.spoke_at = time.monotonic()
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _loses(self, mine: Loss) -> bool:
        with self._lock:
            if self.lose is not mine:
                return False
            self.lose = Loss.NOTHING
            self.lost += 1
            return True


@contextlib.contextmanager
def lossy_way(server: Server) -> Iterator[LossyWay]:
    way = LossyWay(server)
    try:
        yield way
    finally:
        way.close()
