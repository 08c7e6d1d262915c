"""The hours in which exclusive locks may be asked for, on the clock of one place. Pure: the moment comes in."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct

_DAY_MIN = 24 * 60


class Window(Struct, frozen=True):
    """``opens_min`` and ``closes_min`` are minutes after midnight in ``zone``; it may pass midnight."""

    opens_min: int
    closes_min: int
    zone: str

    def opens_in_s(self, now: datetime) -> float:
        """Seconds until it opens, 0 while it is open. ``now`` is aware. An hour off across a change of the clocks."""
        local = now.astimezone(ZoneInfo(self.zone))
        minute = local.hour * 60 + local.minute
        if (minute - self.opens_min) % _DAY_MIN < (self.closes_min - self.opens_min) % _DAY_MIN:
            return 0.0
        return ((self.opens_min - minute) % _DAY_MIN) * 60.0 - local.second - local.microsecond / 1e6

    def __str__(self) -> str:
        opens, closes = (f"{m // 60:02d}:{m % 60:02d}" for m in (self.opens_min, self.closes_min))
        return f"{opens}-{closes} {self.zone}"
