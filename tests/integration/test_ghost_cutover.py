"""The cut-over of a real gh-ost that stands still at the worst moments: its users wait no longer than the stall budget,
and nothing that the server acknowledged is lost, on the primary and on the replica."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

import pytest

from orchestrator.model.contract import TableName
from orchestrator.model.outcome import Result
from orchestrator.mysql.copied import swapping
from orchestrator.mysql.errno import LOCK_WAIT_TIMEOUT, ServerError
from orchestrator.mysql.fence import Fence
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from tests.support.ddl import Beats
from tests.support.ghost import children, driver_for, files, needs_real, orders, own_folder, pid_of_run, site_for, wider
from tests.support.orders_ledger import Orders
from tests.support.servers import sql, wait_caught_up, wait_for

# The budget is 0.25 s; a machine that runs tests may be late by as much again.
WAITED_S = 0.5
pytestmark = [needs_real, pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    with own_folder(monkeypatch) as here:
        yield here


class Freezer(threading.Thread):
    """Stops gh-ost as soon as it has its lock, in up to ``times`` attempts, and lets it go on after a seeded while:
    before we end its session (then the attempt may succeed), just then, or when its users have long been writing again.
    The first time is one of the last kind."""

    def __init__(self, server: Server, table: TableName, times: int, rng: Random) -> None:
        super().__init__(daemon=True)
        self._server, self._table, self._times, self._rng = server, table, times, rng
        self.over = threading.Event()
        self.froze = 0
        self.held_s: list[float] = []

    def run(self) -> None:
        with closing(site_for(self._server, self._table).connect("test")) as look:
            while self.froze < self._times and not self.over.is_set():
                swap = swapping(look, self._table)
                pid = pid_of_run() if swap is not None and swap.holds else None
                if pid is None:
                    time.sleep(0.002)
                    continue
                self.froze += 1
                began = time.monotonic()
                shortest_s, longest_s = self._rng.choice(((0.1, 0.3), (0.3, 1.6))) if self.froze > 1 else (0.3, 1.6)
                until = began + self._rng.uniform(shortest_s, longest_s)
                os.kill(pid, signal.SIGSTOP)
                try:
                    while (s := swapping(look, self._table)) is not None and s.holds and time.monotonic() < began + 5:
                        if time.monotonic() > until:
                            os.kill(pid, signal.SIGCONT)
                        time.sleep(0.002)
                    self.held_s.append(time.monotonic() - began)
                    while time.monotonic() < until:
                        time.sleep(0.002)
                finally:
                    os.kill(pid, signal.SIGCONT)


@contextmanager
def frozen(server: Server, table: TableName, times: int, seed: object) -> Iterator[Freezer]:
    freezer = Freezer(server, table, times, Random(str(seed)))
    freezer.start()
    try:
        yield freezer
    finally:
        freezer.over.set()
        freezer.join()


@pytest.mark.parametrize(
    ("name", "times", "seed"),
    [
        pytest.param("Orders", 2, 1, marks=[pytest.mark.slow, pytest.mark.faults]),
        pytest.param("orders", 2, 1, marks=pytest.mark.slow),
        *(pytest.param(n, 8, s, marks=pytest.mark.slow) for n in ("Orders", "orders") for s in range(2, 5)),
    ],
)
def test_a_gh_ost_that_stands_still_with_its_lock_costs_no_more_than_the_budget_and_no_row(
    name: str, times: int, seed: int, pair: Pair, schema: str
) -> None:
    """B84: in names that sort before and behind those of gh-ost's own tables: its rename takes its locks in that
    order."""
    table = TableName(schema, name)
    created = orders(pair.primary, schema)
    if name != created.name:
        sql(pair.primary, f"RENAME TABLE {created} TO {table}")
    driver = driver_for(site_for(pair.primary, table, cut_over_tries=times + 10, max_wait_s=120.0))
    with Orders(pair.primary, table) as ledger, frozen(pair.primary, table, times, seed) as freezer:
        outcome = driver.apply(wider(table), Beats())
    wait_caught_up(pair)
    told = f"{outcome} {freezer.held_s} waited {ledger.longest_wait_s:.3f} wrote {ledger.written}"
    assert ledger.errors == []
    assert ledger.lost(pair.primary) == [], told
    assert ledger.lost(pair.replica) == [], told
    assert outcome.result is Result.DONE, told
    assert freezer.froze >= 1
    assert outcome.figures["cut_over_taken_back"] >= 1, told
    assert outcome.figures["cut_over_tries"] > outcome.figures["cut_over_taken_back"], told
    assert outcome.figures["longest_stall_s"] < WAITED_S, told
    assert ledger.longest_wait_s < WAITED_S, told
    assert files() == []
    assert children() == []


@pytest.mark.parametrize("silent_s", [0.0, pytest.param(7.0, marks=pytest.mark.slow)])
def test_a_fence_stands_for_a_while_when_we_are_dead_and_lets_rows_through(
    silent_s: float, pair: Pair, schema: str
) -> None:
    """A rename that gh-ost sent before it died with us waits for up to four seconds."""
    table = orders(pair.primary, schema, 5)
    site = site_for(pair.primary, table)
    with closing(site.connect("fence")) as session, closing(site.connect("test")) as look:
        fence = Fence(session, table)
        fence.rise()
        wait_for(lambda: fence.stands(look), 5, "the fence stands")
        session._connection._sock.shutdown(socket.SHUT_RDWR)  # as the kernel does for a process that is killed
        until = time.monotonic() + silent_s
        wait_for(lambda: time.monotonic() > until, silent_s + 1)
        with pytest.raises(ServerError) as refused:
            look.execute(f"RENAME TABLE {table} TO {schema}.elsewhere")
        assert refused.value.number == LOCK_WAIT_TIMEOUT
        assert look.execute(f"UPDATE {table} SET a = 0") == 5
        if silent_s:
            wait_for(lambda: not fence.stands(look), 10, "it falls by itself")
        else:
            fence.fall(look)
        look.execute(f"RENAME TABLE {table} TO {schema}.elsewhere")
