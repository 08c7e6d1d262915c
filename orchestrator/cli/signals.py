"""What a signal to the running command asks for: the first Ctrl-C, SIGTERM or SIGHUP pauses, a second Ctrl-C aborts."""

from __future__ import annotations

import signal
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orchestrator.model.state import Ask


class Interrupts:
    """Remembers what was asked; the beat reads it. Installed once for a command that acts."""

    def __init__(self) -> None:
        self._pause = False
        self._abort = False

    def install(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)
        # Who started us under nohup meant that the end of the terminal is nothing.
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._note)

    def asked(self) -> Ask | None:
        # Only a command that acts asks, and it has the state; a verb on a file alone should not pay for it.
        from orchestrator.model.state import Ask

        if self._abort:
            return Ask.ABORT
        return Ask.PAUSE if self._pause else None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._abort = self._abort or (self._pause and number == signal.SIGINT)
        self._pause = True
