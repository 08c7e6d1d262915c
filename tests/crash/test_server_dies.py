"""kill -9 of the primary at seeded moments of both engines: no client of ours hangs, and after its restart the same
step ends in the wanted shape with every row, and nothing is left. And what never ends by itself in gh-ost: a replica
that is dead, a binary log that is purged."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random

import pytest

from orchestrator.drivers.ddl import NativeDdlDriver
from orchestrator.drivers.ddl.ghost import process
from orchestrator.errors import RolloutError
from orchestrator.model.contract import Contract, Index, IndexPart, TableName
from orchestrator.model.outcome import GO, Progress, Result, Seen, Signal
from orchestrator.model.step import AddColumns, AddIndex, ExclusiveDdlStep
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from tests.support.ddl import Beats, column, held, plain_table, site_on
from tests.support.ghost import (
    as_before,
    children,
    done,
    driver_for,
    needs_real,
    orders,
    own_folder,
    pid_of_run,
    site_for,
    wider,
)
from tests.support.servers import guarded_pair, script, sql, wait_caught_up

pytestmark = [pytest.mark.crash, pytest.mark.timeout(240)]
ROWS = 60_000


@pytest.fixture(scope="module")
def own() -> Iterator[Pair]:
    with guarded_pair() as running:
        yield running


@pytest.fixture
def app(own: Pair) -> Iterator[str]:
    script(own.primary, "CREATE DATABASE app DEFAULT CHARACTER SET utf8mb4")
    yield "app"
    script(own.primary, "DROP DATABASE app")
    wait_caught_up(own)


def restart(server: Server) -> None:
    """It outlives the test, and so must its folder for temporary files."""
    with pytest.MonkeyPatch.context() as plain:
        plain.delenv("TMPDIR", raising=False)
        server.restart()


def steps_of(table: TableName) -> tuple[ExclusiveDdlStep, ...]:
    columns = (column("n", "int"), column("m", "varchar(9)", "x"))
    return AddColumns(table=table, columns=columns, family=(table,)), index_step(table, "b", "a")


def index_step(table: TableName, *columns: str) -> AddIndex:
    index = Index("new_idx", tuple(IndexPart(c) for c in columns))
    return AddIndex(table=table, index=index, final_lock_budget_s=2.0, tries=3, family=(table,))


@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 10))])
def test_native_ddl_under_a_primary_that_dies(own: Pair, app: str, seed: int) -> None:
    rng = Random(seed)
    table = plain_table(own.primary, app, rows=ROWS)
    driver = NativeDdlDriver(site_on(own.primary, Contract(table, ())))
    for step, latest_s in zip(steps_of(table), (0.4, 1.0), strict=True):
        dies = threading.Timer(rng.random() * latest_s, own.primary.kill9)
        dies.start()
        with suppress(RolloutError):
            driver.apply(step, Beats())
        dies.join()
        restart(own.primary)
        assert driver.observe(step, Beats()) in (Seen.ABSENT, Seen.PRESENT)
        outcome = driver.apply(step, Beats())
        assert outcome.result is Result.DONE, outcome
        assert driver.observe(step, Beats()) is Seen.PRESENT
    assert sql(own.primary, f"SELECT COUNT(*), SUM(a) FROM {table}") == [(ROWS, ROWS * (ROWS + 1) // 2)]
    assert sql(own.primary, "SELECT NAME FROM information_schema.INNODB_TABLES WHERE NAME LIKE '%#sql%'") == []
    assert sql(own.primary, f"CHECK TABLE {table}")[0][3] == "OK"


@pytest.mark.faults
@pytest.mark.slow
def test_b144_a_full_disk_stops_a_build_with_the_server_s_reason_and_takes_it_back(
    own: Pair, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Message names the server-side cause; nothing is tried again blindly. The disk is full for every file that would
    grow beyond a limit; with room the same step is done."""
    server = own.primary
    # Python ignores the signal by which a process hears of the limit; so must the server, and see a full disk.
    monkeypatch.setattr(subprocess, "Popen", partial(subprocess.Popen, restore_signals=False))
    server.restart()
    table = plain_table(server, app, rows=40_000)
    # A new binary log, so that the table is the largest file.
    script(
        server,
        f"ALTER TABLE {table} ADD COLUMN w VARCHAR(300) NOT NULL DEFAULT ''; UPDATE {table} SET w = REPEAT('x', 300);"
        "FLUSH BINARY LOGS",
    )
    driver = NativeDdlDriver(site_on(server, Contract(table, ())))
    step = index_step(table, "w", "b")
    size_bytes = (server.datadir / app / "t.ibd").stat().st_size
    limits = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size_bytes + 500_000, limits[1]))
    try:
        outcome = driver.apply(step, Beats())
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, limits)
    assert outcome.result is Result.FAILED, outcome
    assert "no room" in outcome.note
    assert "1114" in outcome.note
    assert "innodb_tmpdir" in outcome.next
    assert driver.observe(step, Beats()) is Seen.ABSENT
    assert driver.apply(step, Beats()).result is Result.DONE


@needs_real
@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 8))])
def test_gh_ost_under_a_primary_that_dies(own: Pair, app: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copying, waiting for its cut-over or in it: no process stays, and the next try is whole."""
    dies_after_s = Random(seed).random() * 5.0
    with own_folder(monkeypatch):
        table = orders(own.primary, app, 2000)
        driver = driver_for(site_for(own.primary, table))
        dies = threading.Timer(dies_after_s, own.primary.kill9)
        dies.start()
        with suppress(RolloutError):
            driver.apply(wider(table), Beats())
        dies.join()
        assert children() == []
        restart(own.primary)
        assert driver.observe(wider(table), Beats()) is not Seen.UNKNOWN
        outcome = driver.apply(wider(table), Beats())
        assert outcome.result is Result.DONE, outcome
        done(own, table, 2000)


@pytest.mark.slow
@needs_real
def test_gh_ost_is_ended_when_a_replica_is_dead_for_too_long(
    own: Pair, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for ever, and never say so by its exit."""
    with own_folder(monkeypatch):
        table = orders(own.primary, app, 5000)
        driver = driver_for(site_for(own.primary, table, max_wait_s=2.0, chunk_rows=20))
        beats = Beats(once_at(0.5, own.replica.kill9))
        try:
            outcome = driver.apply(wider(table), beats)
        finally:
            restart(own.replica)
        assert outcome.result is Result.HELD, outcome
        assert f"127.0.0.1:{own.replica.port}" in outcome.note
        assert "replicas that keep up" in outcome.expected
        as_before(own, table)


@pytest.mark.faults
@pytest.mark.slow
@needs_real
def test_gh_ost_is_ended_when_the_binary_log_is_purged_under_it(
    own: Pair, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would go on reconnecting, and its status would say that it copies. Frozen for a moment, so that the log goes
    before it can read on; 15 s of hearing nothing are 4 s here."""
    monkeypatch.setattr(process, "_DEAF_S", 4.0)
    with own_folder(monkeypatch):
        table = orders(own.primary, app, 500)

        def purge() -> None:
            pid = pid_of_run()
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            try:
                dumps = "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
                for (id,) in sql(own.primary, dumps):
                    script(own.primary, f"KILL {id}")
                script(own.primary, f"UPDATE {table} SET a = a + 1; FLUSH BINARY LOGS")
                wait_caught_up(own)
                ((last, *_),) = sql(own.primary, "SHOW BINARY LOG STATUS")
                script(own.primary, f"PURGE BINARY LOGS TO '{last}'")
            finally:
                os.kill(pid, signal.SIGCONT)

        with held(own.primary, "BEGIN", f"SELECT a FROM {table} LIMIT 1"):
            outcome = driver_for(site_for(own.primary, table)).apply(wider(table), Beats(once_at(1.0, purge)))
        assert outcome.result is Result.FAILED, outcome
        assert "binary log" in outcome.note or "1236" in outcome.note or "reconnect" in outcome.note
        as_before(own, table)


def once_at(elapsed_s: float, act: Callable[[], None]) -> Callable[[Progress], Signal]:
    done_already: list[bool] = []

    def says(progress: Progress) -> Signal:
        if not done_already and progress.elapsed_s > elapsed_s:
            done_already.append(True)
            act()
        return GO

    return says
