"""The machine's own time, for everybody who is not given another."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """Implements ports.Clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
