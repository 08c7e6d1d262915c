"""How many workers a pass may have: one more while that raises the rate, one less when a check holds the work.

Nothing is known of the table or the machine beforehand. A worker that does not raise the rate by ``GAIN`` only makes
more locks, and goes again; the longer that stays so, the rarer it is tried.
"""

from __future__ import annotations

from dataclasses import dataclass

GAIN = 1.08
WINDOW_S = 1.5
_REST_WINDOWS = 8
_MOST_REST_WINDOWS = 128


@dataclass(slots=True)
class Tuning:
    """Told of one window after the other. ``rest``: windows for which nothing is tried."""

    most: int
    workers: int = 1
    rest: int = 1
    base: float = 0.0
    trying: bool = False
    pause: int = _REST_WINDOWS

    def after(self, rate: float, *, held: bool) -> int:
        """How many workers the next window has. ``rate``: rows a second in the last one; ``held``: a check waited."""
        if held:
            self._settle(max(1, self.workers - 1))
        elif self.trying and rate < self.base * GAIN:
            self._settle(self.workers - 1)
        elif self.trying or self.rest <= 0:
            self.base, self.trying = rate, self.workers < self.most
            self.workers = min(self.most, self.workers + 1)
        else:
            self.rest -= 1
        return self.workers

    def _settle(self, workers: int) -> None:
        self.workers, self.trying, self.rest = workers, False, self.pause
        self.pause = min(_MOST_REST_WINDOWS, self.pause * 2)
