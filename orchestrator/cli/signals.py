"""What a signal to the running command asks for: the first Ctrl-C, SIGTERM or SIGHUP pauses, a second Ctrl-C aborts."""

from __future__ import annotations

import signal
from types import FrameType

from orchestrator.model.state import Ask


class Interrupts:
    """Remembers what was asked; the beat reads it. Installed once for a command that acts."""

    def __init__(self) -> None:
        self._ask: Ask | None = None

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)
        # Who started us under nohup meant that the end of the terminal is nothing.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._note)

    def asked(self) -> Ask | None:
        return self._ask

    def _note(self, number: int, frame: FrameType | None) -> None:
        again = self._ask is not None and number == signal.SIGINT
        self._ask = Ask.ABORT if again else (self._ask or Ask.PAUSE)
