"""How fast long work is now: an average since the beginning tells of a throttle that is over, and of last hour."""

from __future__ import annotations

from collections import deque

_WINDOW_S = 30.0
_MARK_EVERY_S = 0.5


class RecentRate:
    """The rate over the last half minute, waits included. Times are seconds since the work began, when nothing was
    done. Holds one mark for each half second."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque([(0.0, 0)])

    def per_s(self, now_s: float, done: int) -> float:
        """Units per second, when ``done`` units are done at ``now_s``; 0 when no time has passed."""
        if now_s - self._marks[-1][0] >= _MARK_EVERY_S:
            self._marks.append((now_s, done))
        while len(self._marks) > 1 and self._marks[1][0] <= now_s - _WINDOW_S:
            self._marks.popleft()
        since_s, before = self._marks[0]
        return (done - before) / (now_s - since_s) if now_s > since_s else 0.0
