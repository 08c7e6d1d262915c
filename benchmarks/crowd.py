"""The backfill among others: an application on the same rows, several workers, a replica that must keep up."""

from __future__ import annotations

import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks.backfill import INDEXES, Beat, empty, filled, make, plain_loop, rate, settings_of
from benchmarks.figures import Figure, interleaved
from orchestrator.model.outcome import Progress, Signal, SignalKind
from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.mysql.errno import DEADLOCK, ServerError
from orchestrator.mysql.session import Session
from orchestrator.sandbox.pair import Pair, start_pair
from orchestrator.settings import ServerSettings

_ROWS = 40_000
# Enough for a way to be found and then to be gone.
_WORKERS_ROWS = 80_000
_TARGET_S = 0.08
_BATCH_ROWS = 500
_APPLICATIONS = 3
_FRESH_S, _FRESH_WITHIN_S = 0.3, 60.0
_ROUNDS = 5


class _Application:
    """Threads that write pairs of rows of the table, in a transaction each, over and over."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._ended = threading.Event()
        self._waits_s: list[float] = []
        self.deadlocks = 0

    @property
    def longest_s(self) -> float:
        return max(self._waits_s)

    @property
    def p99_s(self) -> float:
        return statistics.quantiles(self._waits_s, n=100)[-1]

    def during(self, work: Callable[[], object]) -> None:
        threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(_APPLICATIONS)]
        for thread in threads:
            thread.start()
        try:
            work()
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()

    def _run(self, number: int) -> None:
        draw = random.Random(number)
        with closing(ApplicationSession(self._settings, f"bench {number}")) as session:
            while not self._ended.wait(0.004):
                session.begin()
                try:
                    for id in draw.sample(range(1, _ROWS), 2):
                        began = time.perf_counter()
                        session.query("UPDATE bench.orders SET note = %s WHERE id = %s", (str(began), id * 7))
                        self._waits_s.append(time.perf_counter() - began)
                    session.commit()
                except ServerError as error:
                    self.deadlocks += error.number == DEADLOCK


def stall() -> Sequence[Figure]:
    """The application's longest wait above an equal time without us, its p99, and its deadlocks beside a plain
    loop's."""
    excess, ours_s, bare_s, deadlocks, theirs = [], [], [], 0, 0
    p99_s, bare_p99_s, plain_p99_s = [], [], []
    with _ground() as (pair, session):
        settings = settings_of(pair.primary)
        for _ in range(_ROUNDS):
            empty(session)
            began = time.perf_counter()
            with_us = _Application(settings)
            with_us.during(lambda: filled(settings, 5_000, _TARGET_S))
            took_s = time.perf_counter() - began
            without = _Application(settings)
            without.during(partial(time.sleep, took_s))
            empty(session)
            plainly = _Application(settings)
            plainly.during(lambda: plain_loop(session, _BATCH_ROWS))
            ours_s.append(with_us.longest_s)
            bare_s.append(without.longest_s)
            excess.append(with_us.longest_s - without.longest_s)
            p99_s.append(with_us.p99_s)
            bare_p99_s.append(without.p99_s)
            plain_p99_s.append(plainly.p99_s)
            deadlocks, theirs = deadlocks + with_us.deadlocks, theirs + plainly.deadlocks
    note = f"worst round {max(excess):.3f}"
    p99_note = f"{_APPLICATIONS} threads, a row at a time; beside a plain loop {statistics.median(plain_p99_s):.4f}"
    return (
        Figure("backfill_stall", statistics.median(ours_s), "s", statistics.median(bare_s), note="longest wait"),
        Figure("backfill_stall_excess", statistics.median(excess), "s", goal=0.1, note=note),
        Figure("backfill_p99", statistics.median(p99_s), "s", statistics.median(bare_p99_s), note=p99_note),
        Figure("backfill_deadlocks", deadlocks, "", goal=0, note=f"of the application; beside a plain loop {theirs}"),
    )


def workers() -> Sequence[Figure]:
    """``auto`` ÷ the best of plain loops with 1, 2 and 4 threads over equal parts of the table."""
    with _ground(_WORKERS_ROWS) as (pair, session):
        settings = settings_of(pair.primary)

        def auto() -> float:
            empty(session)
            return rate(lambda: filled(settings, 5_000, _TARGET_S, workers=0))

        def by_hand(threads: int) -> float:
            empty(session)
            return rate(lambda: _plain_threads(settings, threads))

        ours, *loops = interleaved([auto, *(lambda n=n: by_hand(n) for n in (1, 2, 4))])
    told = ", ".join(f"{n}: {r:.0f}" for n, r in zip((1, 2, 4), loops, strict=True))
    note = f"{_WORKERS_ROWS} rows; plain loops in batches of {_BATCH_ROWS}, threads and rows/s {told}"
    return (Figure("backfill_workers", ours, "rows/s", max(loops), goal=0.95, higher=True, note=note),)


def lag() -> Sequence[Figure]:
    """The worst lag of the replica while the backfill heeds a limit: one worker and the replica as it is, and four
    workers beside a replica that applies one transaction after the other."""
    with _ground() as (pair, session):
        session.execute("CREATE TABLE bench.beat (id INT PRIMARY KEY, at DATETIME(6) NOT NULL)")
        session.execute("INSERT INTO bench.beat VALUES (1, UTC_TIMESTAMP(6))")
        arrived = session.value("SELECT @@GLOBAL.gtid_executed")
        with closing(Session(settings_of(pair.replica), role="bench", timeout_s=60.0)) as replica:
            replica.value("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 50)", (arrived,))
            plainly = _lagged(pair, 1.0, 1)
            for statement in ("STOP REPLICA", "SET GLOBAL replica_parallel_workers = 1", "START REPLICA"):
                replica.execute(statement)
            empty(session)
            serially = _lagged(pair, 0.5, 4)
    return (
        Figure("backfill_lag", plainly.worst_s, "s", goal=1.0 + _TARGET_S, note=plainly.told),
        Figure("backfill_lag_serial", serially.worst_s, "s", goal=0.5 + _TARGET_S, note=f"4 workers, {serially.told}"),
    )


def _lagged(pair: Pair, limit_s: float, workers: int) -> _Lag:
    with _Lag(pair, limit_s) as seen:
        filled(settings_of(pair.primary), 5_000, _TARGET_S, workers=workers, beat=seen)
    return seen


class _Lag(Beat):
    """Writes a heartbeat on the primary, reads it on the replica, and holds while it is too old. The worst is that
    between a replica that has all and one that has all again."""

    def __init__(self, pair: Pair, limit_s: float) -> None:
        self._limit_s = limit_s
        self._primary, self._replica = settings_of(pair.primary), settings_of(pair.replica)
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._write, self._read)]
        self._now_s = self.worst_s = float("inf")
        self.held = self.slowed = 0

    @property
    def told(self) -> str:
        return f"limit {self._limit_s} s, and one batch; held {self.held} beats, slowed {self.slowed}"

    def __enter__(self) -> _Lag:
        for thread in self._threads:
            thread.start()
        self._until_fresh()
        self.worst_s = 0.0
        return self

    def __exit__(self, *_: object) -> None:
        self._until_fresh()
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def __call__(self, progress: Progress) -> Signal:
        reason = f"replication-lag {self._now_s:.1f}s"
        if self._now_s <= self._limit_s:
            self.slowed += self._now_s > self._limit_s / 2
            return Signal(SignalKind.GO, reason, self._now_s / self._limit_s)
        self.held += 1
        return Signal(SignalKind.HOLD, reason)

    def _until_fresh(self) -> None:
        until = time.monotonic() + _FRESH_WITHIN_S
        time.sleep(_FRESH_S)
        while self._now_s > _FRESH_S and time.monotonic() < until:
            time.sleep(0.05)

    def _write(self) -> None:
        with closing(Session(self._primary, role="bench")) as session:
            while not self._ended.wait(0.05):
                session.execute("UPDATE bench.beat SET at = UTC_TIMESTAMP(6)")

    def _read(self) -> None:
        age = "SELECT TIMESTAMPDIFF(MICROSECOND, at, UTC_TIMESTAMP(6)) / 1e6 FROM bench.beat"
        with closing(Session(self._replica, role="bench")) as session:
            while not self._ended.wait(0.05):
                self._now_s = float(session.value(age) or 0.0)
                self.worst_s = max(self.worst_s, self._now_s)


def _plain_threads(settings: ServerSettings, threads: int) -> int:
    ends = [_WORKERS_ROWS * 7 * n // threads for n in range(threads + 1)]
    written: list[int] = []

    def one(lo: int, hi: int) -> None:
        with closing(Session(settings, role="bench", timeout_s=600.0)) as session:
            written.append(plain_loop(session, _BATCH_ROWS, lo, hi))

    running = [threading.Thread(target=one, args=part) for part in pairwise(ends)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(written)


@contextmanager
def _ground(rows: int = _ROWS) -> Iterator[tuple[Pair, Session]]:
    """A pair with the table filled anew."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            settings = settings_of(pair.primary)
            with closing(Session(settings, role="bench", timeout_s=600.0)) as session:
                make(session, settings, rows, INDEXES)
                yield pair, session
        finally:
            pair.remove()
