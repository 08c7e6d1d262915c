"""The application's longest wait while somebody holds the table for ten seconds and its shape is changed."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from benchmarks.figures import Figure
from orchestrator.cli.ground import raise_sandbox
from orchestrator.drivers.ddl import NativeDdlDriver
from orchestrator.model.contract import Contract
from orchestrator.model.outcome import GO, Progress, Result, Signal
from orchestrator.model.step import AddColumns, AddForeignKey, AddIndex, DdlStep, DropColumns, DropForeignKey, DropIndex
from orchestrator.mysql import quote
from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.sandbox.template import OPERATOR
from orchestrator.settings import Secret, ServerSettings

_ROWS = 20_000
_ROUNDS = 5
_HELD_S = 10.0
_THREADS = 4


class _Beat:
    epoch = 0

    def __call__(self, progress: Progress) -> Signal:
        return GO


class _Application:
    """Threads that read and write rows by key, with the server's own defaults; the longest wait of any statement."""

    def __init__(self, settings: ServerSettings, table: str, keys: Sequence[str]) -> None:
        self._settings = settings
        self._texts = (f"SELECT status FROM {table} WHERE id = %s", f"UPDATE {table} SET retryCount = %s WHERE id = %s")
        self._keys = keys
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(_THREADS)]
        self.longest_s = 0.0
        self.errors = 0

    def measured(self, work: Callable[[], None]) -> float:
        """The longest wait while ``work`` runs."""
        for thread in self._threads:
            thread.start()
        try:
            work()
        finally:
            self._ended.set()
            for thread in self._threads:
                thread.join()
        return self.longest_s

    def _run(self, number: int) -> None:
        read, write = self._texts
        session = ApplicationSession(self._settings, f"bench {number}")
        with closing(session):
            session.query("SELECT 1")
            turn = 0
            while not self._ended.wait(0.003):
                turn += 1
                key = self._keys[(turn * _THREADS + number) % len(self._keys)]
                for text, args in ((read, (key,)), (write, (turn % 7, key))):
                    began = time.perf_counter()
                    try:
                        session.query(text, args)
                    except ServerError:
                        self.errors += 1
                    self.longest_s = max(self.longest_s, time.perf_counter() - began)


class Bench:
    """The AiJob table of a sandbox, and the three ways to spend ten seconds with it."""

    def __init__(self, pair: Pair) -> None:
        server = pair.primary
        self._settings = ServerSettings(
            host=server.host, port=server.port, user=OPERATOR.user, password=Secret(OPERATOR.password)
        )
        runbook = load(runbooks_folder() / "aijob.yaml")
        self.site = Site(self._settings, runbook, SystemClock())
        self.contract: Contract = runbook.contract
        self._table = quote.table(runbook.table)
        self._driver = NativeDdlDriver(self.site)
        self.errors = 0
        with closing(self.site.connect("bench")) as session:
            shape = read_shape(session, runbook.table)
            self._keys = [row[0] for row in session.query(f"SELECT id FROM {self._table} ORDER BY id LIMIT 500")]
        parents = (f.references for f in self.contract.foreign_keys)
        self.family = tuple(dict.fromkeys((*(shape.family if shape else ()), *parents)))

    def without_us(self) -> float:
        return self.measured(lambda: None)

    def with_us(self) -> float:
        """The whole expand of the runbook by our driver, begun while the table is held; then back, unmeasured."""
        waited = self.measured(lambda: self.walk(self._up()))
        self.walk(self._down())
        return waited

    def naively(self) -> float:
        """One ALTER with the same columns, as an operator types it: the server's default lock_wait_timeout."""
        added = AddColumns(table=self.contract.table, columns=self.contract.columns, family=self.family)
        (_, text) = self._driver.describe(added)
        session = ApplicationSession(self._settings, "operator")
        with closing(session):
            waited = self.measured(lambda: session.execute(text))
        self.walk(self._down()[-1:])
        return waited

    def measured(self, work: Callable[[], object]) -> float:
        holder = ApplicationSession(self._settings, "holder")
        with closing(holder):
            holder.begin()
            holder.query(f"SELECT * FROM {self._table} LIMIT 1")
            release = threading.Timer(_HELD_S, lambda: _commit(holder))

            def everything() -> None:
                release.start()
                work()
                release.join()

            application = _Application(self._settings, self._table, self._keys)
            waited = application.measured(everything)
        self.errors += application.errors
        return waited

    def walk(self, steps: Sequence[DdlStep]) -> None:
        for step in steps:
            outcome = self._driver.apply(step, _Beat())
            if outcome.result is not Result.DONE:
                raise RuntimeError(f"{step.kind}: {outcome.note}")

    def _up(self) -> Sequence[DdlStep]:
        c, family = self.contract, self.family
        return (
            AddColumns(table=c.table, columns=c.columns, family=family),
            *(AddIndex(table=c.table, index=i, final_lock_budget_s=2, tries=10, family=family) for i in c.indexes),
            *(AddForeignKey(table=c.table, foreign_key=f, family=family) for f in c.foreign_keys),
        )

    def _down(self) -> Sequence[DdlStep]:
        c, family = self.contract, self.family
        return (
            *(DropForeignKey(table=c.table, foreign_key=f, family=family) for f in c.foreign_keys),
            *(DropIndex(table=c.table, index=i, family=family) for i in c.indexes),
            DropColumns(table=c.table, columns=c.columns, family=family),
        )


def _commit(session: ApplicationSession) -> None:
    with suppress(ServerError):
        session.commit()


def stall() -> Sequence[Figure]:
    """The excess over an equal time without us; a naive ALTER is measured once beside it."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = raise_sandbox(Path(folder) / "pair", None, _ROWS, 1)
        try:
            bench = Bench(pair)
            ours, bare = [], []
            for _ in range(_ROUNDS):
                bare.append(bench.without_us())
                ours.append(bench.with_us())
            errors = bench.errors
            naive = bench.naively()
        finally:
            pair.remove()
    excess = [with_us - without for with_us, without in zip(ours, bare, strict=True)]
    note = f"{errors} errors; naive ALTER {naive:.2f} s (one run)"
    return (
        Figure(
            "stall", statistics.median(ours), "s", statistics.median(bare), note="longest wait, one 10 s transaction"
        ),
        Figure(
            "stall_excess", statistics.median(excess), "s", goal=0.25, note=f"worst round {max(excess):.3f}; {note}"
        ),
        Figure("stall_naive", naive, "s", statistics.median(bare), note="one ALTER as typed, one run"),
    )
