"""How long the applications' statements waited, and what came of them: kept small, whatever the traffic."""

from __future__ import annotations

import math
import threading

from msgspec import Struct, field

_STEP = 1.1
_ERROR_TEXTS = 20


class Window:
    """The longest wait since it was opened; opening another one does not disturb it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._max_ms = 0.0
        self._statement = ""
        self._statements = 0
        self._buckets: dict[int, int] = {}

    def add(self, wait_ms: float, statement: str) -> None:
        bucket = max(0, math.ceil(math.log(max(wait_ms, 0.01) / 0.01, _STEP)))
        with self._lock:
            self._statements += 1
            self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
            if wait_ms > self._max_ms:
                self._max_ms, self._statement = wait_ms, statement

    def reset(self) -> None:
        with self._lock:
            self._max_ms, self._statement, self._statements = 0.0, "", 0
            self._buckets.clear()

    @property
    def max_wait_ms(self) -> float:
        return self._max_ms

    @property
    def max_wait_statement(self) -> str:
        return self._statement

    @property
    def statements(self) -> int:
        return self._statements

    def percentile_ms(self, share: float) -> float:
        """The wait that this share of the statements did not exceed, to within a tenth; 0 when there were none."""
        with self._lock:
            wanted, seen = self._statements * share, 0
            for bucket, count in sorted(self._buckets.items()):
                seen += count
                if seen >= wanted:
                    return float(0.01 * _STEP**bucket)
        return 0.0


class TrafficStats(Struct, frozen=True):
    """Figures since the start. ``errors``: database errors after the application's own retries; ``injected_errors``:
    faults of the new application that were switched on; ``stale_reads``: rows whose new columns did not correspond."""

    writes: int = 0
    reads: int = 0
    errors: int = 0
    error_texts: tuple[str, ...] = ()
    injected_errors: int = 0
    stale_reads: int = 0
    retries: int = 0
    unknown_commits: int = 0
    new_column_reads: int = 0
    new_column_writes: int = 0
    max_wait_ms: float = 0.0
    max_wait_statement: str = ""
    p99_ms: float = 0.0


class Tally(Struct):
    """What one application counts. ``take_health`` gives requests and errors since the last call."""

    name: str
    window: Window = field(default_factory=Window)
    texts: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _requests: int = 0
    _failed: int = 0

    def count(self, what: str, by: int = 1) -> None:
        with self._lock:
            self.counts[what] = self.counts.get(what, 0) + by

    def request(self, *, failed: bool) -> None:
        with self._lock:
            self._requests += 1
            self._failed += failed

    def error(self, text: str) -> None:
        with self._lock:
            self.counts["errors"] = self.counts.get("errors", 0) + 1
            if len(self.texts) < _ERROR_TEXTS:
                self.texts.append(f"{self.name}: {text}")

    def take_health(self) -> tuple[int, int]:
        with self._lock:
            taken = self._requests, self._failed
            self._requests = self._failed = 0
            return taken

    def stats(self) -> TrafficStats:
        with self._lock:
            return TrafficStats(
                **self.counts,
                error_texts=tuple(self.texts),
                max_wait_ms=self.window.max_wait_ms,
                max_wait_statement=self.window.max_wait_statement,
                p99_ms=self.window.percentile_ms(0.99),
            )
