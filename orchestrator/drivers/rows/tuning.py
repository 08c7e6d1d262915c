"""How many workers a pass may have: one to begin with, twice as many while that raises the rate, fewer where that costs
nothing, one less when a check holds the work.

Nothing is known of the table or the machine beforehand. More workers than the server has use for cost: each batch takes
longer, so it has fewer rows, and more of the work is commits. So a try must bring ``GAIN``, and the longer nothing is
gained, the rarer it is tried.
"""

from __future__ import annotations

from msgspec import Struct

GAIN = 1.1
# Fewer stay where they are as fast; windows are not measured more exactly than this.
_AS_FAST = 1.02
WINDOW_S = 1.0
_REST_WINDOWS = 16
_MOST_REST_WINDOWS = 256


class Tuning(Struct):
    """Told of one window after the other. ``kept``: the workers before the try that is on, 0: none is; ``rest``:
    windows for which nothing is tried; ``base``: the rate that a try is held against; ``up``: the next try is of more;
    ``fresh``: the window that ended began with other workers. What the server has room for in its buffers, it takes at
    any rate for a moment, so that one says nothing."""

    most: int
    workers: int = 1
    kept: int = 0
    rest: int = 0
    base: float = 0.0
    pause: int = _REST_WINDOWS
    up: bool = True
    fresh: bool = True

    def after(self, rate: float, *, held: bool) -> int:
        """How many workers the next window has. ``rate``: rows a second in the last one; ``held``: a check waited."""
        if held:
            self._stay(max(1, self.workers - 1))
        elif self.fresh:
            self.fresh = False
        elif self.kept:
            self._judge(rate)
        elif self.rest > 0:
            self.rest -= 1
        else:
            up = self.workers == 1 or (self.up and self.workers < self.most)
            self._try(min(self.most, self.workers * 2) if up else self.workers // 2, rate)
            self.up = not up
        return self.workers

    def _judge(self, rate: float) -> None:
        more = self.workers > self.kept
        better = rate >= self.base * GAIN if more else rate * _AS_FAST >= self.base
        if more and better and self.workers < self.most:
            self._try(min(self.most, self.workers * 2), rate)
        else:
            self._stay(self.workers if better else self.kept)
            self.pause = min(_MOST_REST_WINDOWS, self.pause * 2)

    def _try(self, workers: int, base: float) -> None:
        self.base, self.kept, self.workers, self.fresh = base, self.workers, workers, True

    def _stay(self, workers: int) -> None:
        self.fresh = workers != self.workers
        self.workers, self.kept, self.rest = workers, 0, self.pause
