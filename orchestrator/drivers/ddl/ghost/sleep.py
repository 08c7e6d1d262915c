"""When gh-ost wakes. Pure.

Whenever its queue of changes is empty gh-ost sleeps for a second, and nothing wakes it, also while it has the table
locked (``executeWriteFuncs`` in go/logic/migrator.go of 1.1.10). Its own heartbeat, ten a second, goes through the
queue too: so the length of the queue, which its status line tells, grows while it sleeps and falls when it wakes.
"""

from __future__ import annotations

_SLEEPS_S = 1.0
# A queue that falls again so soon after it fell is still being emptied.
_SAME_ROUND_S = 0.6
# Its users need not wait for what was there before they did: the lock may come when most of that has been taken up, but
# must not come when it sleeps again.
_TAKEN_UP = 0.6
_SURE_S = 0.05


class Sleep:
    """What was seen of it, by moments of one clock."""

    def __init__(self) -> None:
        self._seen: tuple[float, int] | None = None
        self._woke_at = 0.0
        self._slept_at: float | None = None

    def see(self, at_s: float, waiting_rows: int) -> None:
        """The queue had that length then."""
        last, self._seen = self._seen, (at_s, waiting_rows)
        if last is not None and waiting_rows < last[1]:
            if self._slept_at is None or last[0] - self._slept_at > _SAME_ROUND_S:
                self._woke_at = last[0]
            self._slept_at = last[0]

    def takes_up_after(self, at_s: float) -> float | None:
        """The first moment later than that in which it will be at work; None while nothing was seen of it. Rather too
        early than too late."""
        if self._slept_at is None:
            return None
        busy_s = self._slept_at - self._woke_at
        moment_s = self._slept_at + _SLEEPS_S + max(0.0, busy_s * _TAKEN_UP - _SURE_S)
        while moment_s <= at_s:
            moment_s += _SLEEPS_S + busy_s
        return moment_s
