"""A table that somebody holds for ten seconds, an application that goes on with it, and what we do meanwhile."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from benchmarks.backfill import Beat, settings_of
from orchestrator.cli.ground import raise_sandbox
from orchestrator.drivers.ddl import NativeDdlDriver
from orchestrator.drivers.shadow.triggers import TriggerDriver
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.step import (
    AddColumns,
    AddForeignKey,
    AddIndex,
    DropColumns,
    DropForeignKey,
    DropIndex,
    ExclusiveDdlStep,
    InstallTrigger,
    RemoveMirror,
)
from orchestrator.mysql import quote
from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.errno import LOCK_WAIT_TIMEOUT, ServerError
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.settings import ServerSettings

_ROWS = 20_000
_HELD_S = 10.0
_THREADS = 4
_FELT_S = 0.1
_TRIES = 40


class Waits:
    """Threads of an application by key; the longest wait, and the sum of those that are felt, in the worst thread."""

    def __init__(self, settings: ServerSettings, table: str, keys: Sequence[str]) -> None:
        self._settings = settings
        self._texts = (f"SELECT status FROM {table} WHERE id = %s", f"UPDATE {table} SET retryCount = %s WHERE id = %s")
        self._keys = keys
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(_THREADS)]
        # One of each for every thread: nobody overwrites another's.
        self._sums, self._longest_s = [0.0] * _THREADS, [0.0] * _THREADS
        self._errors = [0] * _THREADS

    @property
    def longest_s(self) -> float:
        return max(self._longest_s)

    @property
    def errors(self) -> int:
        return sum(self._errors)

    @property
    def sum_s(self) -> float:
        return max(self._sums)

    def __enter__(self) -> Waits:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        read, write = self._texts
        with closing(ApplicationSession(self._settings, f"bench {number}")) as session:
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
                        self._errors[number] += 1
                    took_s = time.perf_counter() - began
                    self._longest_s[number] = max(self._longest_s[number], took_s)
                    self._sums[number] += took_s if took_s > _FELT_S else 0.0


class Blocked:
    """The AiJob table of a sandbox. Every statement that is measured is taken back, unmeasured."""

    def __init__(self, pair: Pair) -> None:
        server = pair.primary
        self._settings = settings_of(server)
        runbook = load(runbooks_folder() / "aijob.yaml")
        self.site = Site(self._settings, runbook, SystemClock())
        self.contract = runbook.contract
        self._table = quote.table(runbook.table)
        self.native, self.triggers = NativeDdlDriver(self.site), TriggerDriver(self.site)
        self.errors = 0
        with closing(self.site.connect("bench")) as session:
            shape = read_shape(session, runbook.table)
            self._keys = [row[0] for row in session.query(f"SELECT id FROM {self._table} ORDER BY id LIMIT 500")]
        parents = (f.references for f in self.contract.foreign_keys)
        self.family = tuple(dict.fromkeys((*(shape.family if shape else ()), *parents)))

    def up(self) -> Sequence[ExclusiveDdlStep]:
        c, family = self.contract, self.family
        return (
            AddColumns(table=c.table, columns=c.columns, family=family),
            *(AddIndex(table=c.table, index=i, final_lock_budget_s=2, tries=10, family=family) for i in c.indexes),
            *(AddForeignKey(table=c.table, foreign_key=f, family=family) for f in c.foreign_keys),
        )

    def down(self) -> Sequence[ExclusiveDdlStep]:
        c, family = self.contract, self.family
        return (
            *(DropForeignKey(table=c.table, foreign_key=f, family=family) for f in c.foreign_keys),
            *(DropIndex(table=c.table, index=i, family=family) for i in c.indexes),
            DropColumns(table=c.table, columns=c.columns, family=family),
        )

    def install(self) -> None:
        for event in ("update", "insert"):
            step = InstallTrigger(table=self.contract.table, event=event, family=self.family)
            _done(self.triggers.apply(step, Beat()))

    def remove(self) -> None:
        step = RemoveMirror(table=self.contract.table, accepted=(), family=self.family)
        _done(self.triggers.apply(step, Beat()))

    def walk(self, steps: Sequence[ExclusiveDdlStep]) -> None:
        for step in steps:
            _done(self.native.apply(step, Beat()))

    def by_hand(self, steps: Sequence[ExclusiveDdlStep], lock_wait_timeout_s: int | None = None) -> None:
        """The same statements without a look and without a watcher, each tried again when it waited too long."""
        with closing(self.site.connect("operator", 600.0)) as session:
            for step in steps:
                *pins, statement = self.native.describe(step)
                for pin in pins:
                    session.execute(pin)
                if lock_wait_timeout_s is not None:
                    session.execute(f"SET SESSION lock_wait_timeout = {lock_wait_timeout_s}")
                _until_it_lands(lambda text=statement: session.execute(text))  # type: ignore[misc]  # bound in the loop

    @contextmanager
    def held(self) -> Iterator[None]:
        """A transaction that has read one row, open for ten seconds."""
        with closing(ApplicationSession(self._settings, "holder")) as holder:

            def commit() -> None:
                with suppress(ServerError):
                    holder.commit()

            release = threading.Timer(_HELD_S, commit)
            holder.begin()
            holder.query(f"SELECT * FROM {self._table} LIMIT 1")
            release.start()
            yield
            release.join()

    def waits(self, work: Callable[[], object]) -> Waits:
        """What an application waited while somebody held the table for ten seconds and ``work`` was done."""
        with Waits(self._settings, self._table, self._keys) as application, self.held():
            work()
        self.errors += application.errors
        return application


def _done(outcome: Outcome) -> None:
    if outcome.result is not Result.DONE:
        raise RuntimeError(outcome.note)


def _until_it_lands(run: Callable[[], object]) -> None:
    for _ in range(_TRIES):
        try:
            run()
        except ServerError as error:
            if error.number != LOCK_WAIT_TIMEOUT:
                raise
            time.sleep(1.0)
        else:
            return
    raise RuntimeError("it never got its lock")


@contextmanager
def ground(rows: int = _ROWS) -> Iterator[Blocked]:
    """A sandbox of its own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = raise_sandbox(Path(folder) / "pair", None, rows, 1)
        try:
            yield Blocked(pair)
        finally:
            pair.remove()
