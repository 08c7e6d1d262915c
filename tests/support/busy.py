"""Threads that are busy on a server for as long as a block runs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Busy(ABC):
    """``work`` runs in each of the threads, told its number, until ``stop`` is set; they have ended when it is left."""

    def __init__(self, threads: int) -> None:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self.work, args=(n,), daemon=True) for n in range(threads)]

    @abstractmethod
    def work(self, number: int) -> None:
        """Runs in one of the threads."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
