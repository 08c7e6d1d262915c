"""How many workers a pass may have: begun with two, twice as many while that raises the rate, fewer where that costs
nothing, one less when a check holds the work.

Nothing is known of the table or the machine beforehand, and a small table is over soon: so the first tries come at once
and in steps of two. Workers that do not raise the rate by ``GAIN`` only make more locks, and go again; the longer that
stays so, the rarer it is tried.
"""

from __future__ import annotations

from msgspec import Struct

FIRST_WORKERS = 2
GAIN = 1.05
WINDOW_S = 0.5
_REST_WINDOWS = 16
_MOST_REST_WINDOWS = 256


class Tuning(Struct):
    """Told of one window after the other. ``kept``: the workers before the try that is on; ``rest``: windows for which
    nothing is tried; ``base``: the rate that a try is held against; ``lowered``: fewer were tried, which is done once.
    """

    most: int
    workers: int = FIRST_WORKERS
    kept: int = 0
    rest: int = 0
    base: float = 0.0
    pause: int = _REST_WINDOWS
    lowered: bool = False

    def after(self, rate: float, *, held: bool) -> int:
        """How many workers the next window has. ``rate``: rows a second in the last one; ``held``: a check waited."""
        if held:
            self._settle(max(1, self.workers - 1))
        elif self.kept > self.workers:
            self._settle(self.workers if rate * GAIN >= self.base else self.kept)
        elif self.kept and rate < self.base * GAIN:
            self._try_fewer(self.kept)
        elif self.rest > 0:
            self.rest -= 1
        else:
            self.base, self.kept = rate, self.workers if self.workers < self.most else 0
            self.workers = min(self.most, self.workers * 2)
        return self.workers

    def _try_fewer(self, than: int) -> None:
        """More than so many brought nothing; perhaps these bring nothing either."""
        if self.lowered or than == 1:
            self._settle(than)
        else:
            self.lowered, self.kept, self.workers = True, than, than // 2

    def _settle(self, workers: int) -> None:
        self.workers, self.kept, self.rest = workers, 0, self.pause
        self.pause = min(_MOST_REST_WINDOWS, self.pause * 2)
