"""A program of the user's own that moves readers: ``PROGRAM set PERCENT`` and ``PROGRAM get``.

It gets ``ROLLOUT_ID``, ``ROLLOUT_NEW_WRITES`` (open, closed) and ``ROLLOUT_EPOCH``, no shell, and an end in time.
``get`` prints the percent, and ``open`` or ``closed`` behind it when it can tell. Only exit code 0 means *done*:
whatever else happens, nobody knows what applications see, and the ramp stops.
"""

from __future__ import annotations

import shlex

from orchestrator.command import CommandFailed, run_command
from orchestrator.drivers.reads.board import BoardFailed, Shown
from orchestrator.ports import Clock

_KEPT_S = 5.0
_SHOWN = 200


class ProgramBoard:
    """Implements Board. ``get`` is asked at most every five seconds, and after every ``set``."""

    def __init__(self, command: str, rollout: str, clock: Clock, timeout_s: float) -> None:
        self._argv = tuple(shlex.split(command))
        self._rollout = rollout
        self._clock = clock
        self._timeout_s = timeout_s
        self._writes = False
        self._got: tuple[float, Shown] | None = None

    @property
    def name(self) -> str:
        return shlex.join(self._argv)

    def show(self, epoch: int, shown: Shown) -> str:
        self._got = None
        self._writes = shown[0]
        said = self._run("set", str(shown[1]), ROLLOUT_NEW_WRITES=_word(shown[0]), ROLLOUT_EPOCH=str(epoch))
        return said[-_SHOWN:]

    def seen(self) -> Shown:
        now = self._clock.monotonic()
        if self._got is None or now - self._got[0] >= _KEPT_S:
            self._got = (now, self._read(self._run("get")))
        return self._got[1]

    def describe(self, shown: Shown) -> str:
        return f"-- {self.name} set {shown[1]}  (ROLLOUT_NEW_WRITES={_word(shown[0])})"

    def by_hand(self, shown: Shown) -> str:
        return f"ROLLOUT_ID={self._rollout} ROLLOUT_NEW_WRITES={_word(shown[0])} {self.name} set {shown[1]}"

    def clear(self, epoch: int) -> None:
        """What the program keeps is the user's."""

    def _read(self, said: str) -> Shown:
        """A program that does not tell new_writes is believed in what it was told last."""
        first, *rest = said.split() or [""]
        if not first.isdecimal() or int(first) > 100 or rest not in ([], ["open"], ["closed"]):
            raise BoardFailed(f"get printed {said[:60]!r}, not a percent")
        return (rest == ["open"] if rest else self._writes), int(first)

    def _run(self, *words: str, **more: str) -> str:
        try:
            ended = run_command((*self._argv, *words), self._timeout_s, ROLLOUT_ID=self._rollout, **more)
        except CommandFailed as failed:
            raise BoardFailed(f"{words[0]}: {failed}") from failed
        if ended.code != 0:
            said = (ended.err or ended.out).strip()[-_SHOWN:]
            raise BoardFailed(f"{words[0]}: exit code {ended.code}{f': {said}' if said else ''}")
        return ended.out.strip()


def _word(new_writes: bool) -> str:
    return "open" if new_writes else "closed"
