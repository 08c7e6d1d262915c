"""A backfill as the command runs it, beside a real replica that is late, stopped, cut off or delayed: it waits for it
by name, and goes on when the replica is well again.

One backfill of 6,000 rows in batches of one goes on through all of it (fewer than make a canary, more than are filled
meanwhile), and comes to its end when rows are taken away.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from orchestrator.app.wiring import App, Surroundings, build
from orchestrator.engine import Paused
from orchestrator.model.outcome import GO, Progress, Signal, SignalKind
from orchestrator.model.state import Ask, Record
from orchestrator.model.step import Step
from orchestrator.model.verdict import Verdict
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.template import ROOT
from tests.support.lossy import Loss, lossy_way
from tests.support.servers import connect, script, sql, wait_caught_up, wait_for
from tests.support.small import Small, small
from tests.support.state import settings_of

# Above what a healthy heartbeat shows, which is written four times a second.
MAX_LAG_S = 0.6
CHANGES = (
    ("phases:", "phases:\n  backfill: {max_batch: 1}"),
    ("checks: {max_wait: 1s}", f"checks: {{max_wait: 60s, replication_lag: {{max: {MAX_LAG_S * 1000:.0f}ms}}}}"),
)


@dataclass
class Watched:
    """Implements ports.Watcher: what the last beat of the filling told, and what it was answered."""

    beats: int = 0
    strain: float = 0.0
    told: Progress = field(default_factory=Progress)
    answer: Signal = GO

    def progress(self, record: Record, step: Step, progress: Progress, signal: Signal) -> None:
        if step.kind == "fill":
            self.told, self.answer, self.beats = progress, signal, self.beats + 1
            self.strain = max(self.strain, signal.strain)

    def waiting(self, record: Record, verdicts: Sequence[Verdict], waited_s: float) -> None:
        """The gate before the step."""

    def held(self, reason: str) -> bool:
        return self.answer.kind is SignalKind.HOLD and re.search(reason, self.answer.reason) is not None


@dataclass
class Filling:
    """The backfill under way. ``replica`` is its name as reasons say it."""

    here: Small
    app: App
    watched: Watched
    ended: list[object] = field(default_factory=list)

    @property
    def replica(self) -> str:
        server = self.here.pair.replica
        return re.escape(f"{server.host}:{server.port}")

    def goes_on(self) -> None:
        at = self.watched.told.done
        wait_for(lambda: self.watched.answer.kind is SignalKind.GO and self.watched.told.done > at, 30.0, "it goes on")

    def waits(self, reason: str) -> None:
        """Held for that reason, and while it is held no row is filled."""
        wait_for(lambda: self.watched.held(reason), 20.0, f"held: {reason}; last {self.watched}")
        at, beats = self.watched.told.done, self.watched.beats
        wait_for(lambda: self.watched.beats >= beats + 2)
        assert self.watched.held("")
        assert self.watched.told.done == at


@pytest.fixture
def filling(pair: Pair, tmp_path: Path) -> Iterator[Filling]:
    with small(pair, tmp_path, rows="") as here:
        here.sql(
            f"INSERT INTO {here.table} (id, status) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n"
            " WHERE i < 1000) SELECT t.i * 1000 + n.i, IF(n.i < 500, 'new', 'done') FROM n,"
            " (VALUES ROW(0), ROW(1), ROW(2), ROW(3), ROW(4), ROW(5)) AS t (i)"
        )
        wait_caught_up(pair)
        stop, watched = threading.Event(), Watched()
        around = Surroundings(watched, interrupted=lambda: Ask.PAUSE if stop.is_set() else None)
        with closing(build(load(here.write(*CHANGES)), settings_of(pair.primary), around)) as app:
            app.commands.next("ddl")
            on = Filling(here, app, watched)

            def fill() -> None:
                with suppress(Paused):
                    on.ended.append(app.commands.next("backfill"))

            walking = threading.Thread(target=fill)
            walking.start()
            try:
                yield on
            finally:
                stop.set()
                walking.join(60)
                assert not walking.is_alive()


@contextmanager
def late(pair: Pair, table: str) -> Iterator[None]:
    """Both threads run; the applier waits for a lock that somebody has there."""
    with closing(connect(pair.replica, ROOT)) as blocker, blocker.cursor() as cursor:
        cursor.execute(f"LOCK TABLES {table} READ")
        yield


def stopped(thread: str) -> Callable[[Pair, str], AbstractContextManager[None]]:
    @contextmanager
    def is_stopped(pair: Pair, table: str) -> Iterator[None]:
        script(pair.replica, f"STOP REPLICA {thread}")
        try:
            yield
        finally:
            script(pair.replica, f"START REPLICA {thread}")

    return is_stopped


@contextmanager
def cut_off(pair: Pair, table: str) -> Iterator[None]:
    """The way between the servers passes nothing on and breaks nothing: the replica looks healthy."""

    def source(port: int) -> None:
        script(pair.replica, f"STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_PORT = {port}; START REPLICA")
        wait_caught_up(pair)

    with lossy_way(pair.primary) as way:
        source(way.port)
        way.lose = Loss.SILENCE
        try:
            yield
            running = "SELECT SERVICE_STATE FROM performance_schema.replication_connection_status"
            assert sql(pair.replica, running) == [("ON",)], "it looks healthy"
        finally:
            source(pair.primary.port)


@contextmanager
def delayed(pair: Pair, table: str) -> Iterator[None]:
    def delay(seconds: int) -> None:
        script(
            pair.replica,
            f"STOP REPLICA SQL_THREAD; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = {seconds}; START REPLICA SQL_THREAD",
        )

    delay(2)
    try:
        yield
    finally:
        delay(0)


@contextmanager
def in_error(pair: Pair, table: str) -> Iterator[None]:
    """A row that somebody wrote there by himself has the key of one that comes."""

    def there(statement: str) -> None:
        script(
            pair.replica,
            f"SET GLOBAL super_read_only = 0; SET SESSION sql_log_bin = 0; {statement}; SET GLOBAL super_read_only = 1",
        )

    there(f"INSERT INTO {table} (id, status) VALUES (-1, 'theirs')")
    try:
        script(pair.primary, f"INSERT INTO {table} (id, status) VALUES (-1, 'done')")
        yield
    finally:
        there(f"DELETE FROM {table} WHERE id = -1")
        script(pair.replica, "START REPLICA SQL_THREAD")


LAG = r"replication-lag \d+\.\ds > 0\.6s on {replica}"
ILL = {
    "late": (late, LAG),
    "stopped applier": (stopped("SQL_THREAD"), r"replica-health {replica}: SQL thread stopped"),
    "stopped receiver": (stopped("IO_THREAD"), r"replica-health {replica}: IO thread stopped"),
    "in error": (in_error, r"replica-health {replica}: SQL thread stopped \(1062: "),
    "cut off": (cut_off, LAG),
    "delayed": (delayed, LAG + r" \(it is delayed by 2 s on purpose\)"),
}


def test_a_backfill_waits_for_each_ill_replica_goes_on_when_it_is_well_and_says_at_its_end_how_long(
    filling: Filling,
) -> None:
    """Case B86: no answer, and a thread that stands still, are never taken for a lag of 0. One backfill, one after the
    other, because it ends only once."""
    for made_ill, reason in ILL.values():
        filling.goes_on()
        with made_ill(filling.here.pair, filling.here.table):
            filling.waits(reason.format(replica=filling.replica))
        filling.goes_on()
        assert filling.watched.told.throttled_s > 0.5
        assert re.search(filling.replica, filling.watched.told.throttled_by)
    the_end_says_how_much_of_the_time_was_spent_waiting(filling)


def the_end_says_how_much_of_the_time_was_spent_waiting(filling: Filling) -> None:
    def share() -> float:
        return filling.watched.told.throttled_s / max(0.001, filling.watched.told.elapsed_s)

    filling.goes_on()
    with stopped("SQL_THREAD")(filling.here.pair, ""):
        filling.waits("SQL thread stopped")
        wait_for(lambda: share() > 0.1)
        # What is left ends with the next batch, however fast it is.
        filling.here.sql(f"DELETE FROM {filling.here.table} WHERE id > %s", filling.watched.told.done + 20)
    wait_for(lambda: filling.ended, 30.0, "the backfill ends")
    history = filling.app.store.history(filling.app.parts.runbook.id)
    note = next(e.note for e in history if "rows looked at" in e.note)
    told = re.search(r"throttled (\d+) % of the time: (.+)", note)
    assert told is not None, note
    assert int(told.group(1)) >= 10
    assert re.search(filling.replica, told.group(2))
    assert 0 < filling.watched.strain <= 1, "beats say how near the limit is"
