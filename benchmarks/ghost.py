"""What our word costs gh-ost: the same change by our driver and by gh-ost alone with the same flags; and how long the
application waits for either while somebody holds the table for ten seconds."""

from __future__ import annotations

import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.figures import Figure
from orchestrator.cli.ground import prepare, settings_for
from orchestrator.drivers.ddl.copying import CopyDriver
from orchestrator.drivers.ddl.ghost.binary import Binary, find
from orchestrator.drivers.ddl.ghost.place import PASSWORD, USER
from orchestrator.drivers.ddl.ghost.tool import GhostTool
from orchestrator.errors import ConfigurationError
from orchestrator.model.outcome import GO, Progress, Result, Signal
from orchestrator.model.step import GhostAlter
from orchestrator.mysql import copied, quote
from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.site import Site
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair, start_pair
from orchestrator.sandbox.places import cache_folder, runbooks_folder

_ROWS = 300_000
_ROUNDS = 5
_BUILT = cache_folder() / "gh-ost" / "gh-ost"
_HELD_S = 10.0


class _Beat:
    epoch = 0

    def __call__(self, progress: Progress) -> Signal:
        return GO


class _Bench:
    """The readings of a sandbox; each run writes all rows anew and leaves the table as it was."""

    def __init__(self, pair: Pair, program: Binary, rows: int) -> None:
        runbook = load(runbooks_folder() / "readings.yaml")
        prepare(pair, runbook, min(rows, 20_000), 1)
        self._site = Site(settings_for(pair.primary), runbook, SystemClock())
        self._program = program
        self._tool = GhostTool(self._site.settings, self._site.clock, _BUILT)
        self._driver = CopyDriver(self._site, self._tool)
        self._step = GhostAlter(table=runbook.table, rebuild=True, family=(runbook.table,), why="a benchmark")
        self._table = quote.table(runbook.table)
        self._one = f"SELECT amount FROM {self._table} ORDER BY id LIMIT 1"
        self._grow(rows)

    def _grow(self, rows: int) -> None:
        with closing(self._site.connect("bench", 600.0)) as session:
            names = "sensor_no, amount, state, note"
            while (lacks := rows - int(session.value(f"SELECT COUNT(*) FROM {self._table}"))) > 0:
                session.execute(
                    f"INSERT INTO {self._table} ({names}) SELECT {names} FROM {self._table} LIMIT {min(lacks, 50_000)}"
                )

    def ours(self) -> float:
        began = time.perf_counter()
        outcome = self._driver.apply(self._step, _Beat())
        assert outcome.result is Result.DONE, outcome
        return time.perf_counter() - began

    def bare(self) -> float:
        """The command line that the plan shows, but for the file that postpones the cut-over."""
        _, _, shown = self._driver.describe(self._step)
        with tempfile.TemporaryDirectory(prefix="gh-") as folder:
            conf = Path(folder) / "conf"
            conf.write_text(f"[client]\nuser=${{{USER}}}\npassword=${{{PASSWORD}}}\n")
            words = [w for w in shlex.split(shown)[1:] if not w.startswith(("--postpone", "--conf", "--serve-socket"))]
            words += [f"--conf={conf}", f"--serve-socket-file={folder}/sock"]
            settings = self._site.settings
            secret = {USER: settings.user, PASSWORD: settings.password.reveal()}
            began = time.perf_counter()
            subprocess.run(
                [str(self._program.path), *words], env=os.environ | secret, check=True, capture_output=True, text=True
            )
            took_s = time.perf_counter() - began
        self._clear()
        return took_s

    def _clear(self) -> None:
        """gh-ost alone keeps the old table and its checkpoints."""
        with closing(self._site.connect("bench", 600.0)) as session:
            for left in copied.read_left(session, self._step.table, self._tool.tables(self._step.table)):
                copied.drop(session, left.table)

    def stall(self, work: Callable[[], object]) -> float:
        """The longest wait of one that reads by key, while the table is held for ten seconds and ``work`` runs."""
        over, longest = threading.Event(), [0.0]

        def reads() -> None:
            with closing(ApplicationSession(self._site.settings, "bench")) as session:
                while not over.wait(0.003):
                    began = time.perf_counter()
                    session.query(self._one)
                    longest[0] = max(longest[0], time.perf_counter() - began)

        thread = threading.Thread(target=reads, daemon=True)
        with closing(ApplicationSession(self._site.settings, "holder")) as holder:
            holder.begin()
            holder.query(self._one)
            release = threading.Timer(_HELD_S, holder.commit)
            release.start()
            thread.start()
            try:
                work()
                release.join()
            finally:
                over.set()
                thread.join()
        return longest[0]


@contextmanager
def _bench(rows: int) -> Iterator[_Bench | None]:
    try:
        program = find(_BUILT)
    except ConfigurationError as none:
        sys.stderr.write(f"no gh-ost to be had: {none.seen}\n")
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            yield _Bench(pair, program, rows)
        finally:
            pair.remove()


def overhead() -> Sequence[Figure]:
    """Median of five, interleaved."""
    with _bench(_ROWS) as bench:
        if bench is None:
            return ()
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(_ROUNDS):
            taken[0].append(bench.ours())
            taken[1].append(bench.bare())
    ours, bare = (statistics.median(t) for t in taken)
    fixed_s = ours - bare
    note = f"{_ROWS:,} rows; the cut-over's {fixed_s:.1f} s are within 5 % from {fixed_s / 0.05:.0f} s of copying on"
    return (Figure("ghost_overhead", ours, "s", bare, goal=1.05, note=note),)


def stalls() -> Sequence[Figure]:
    """One round of each side: ours, nothing, gh-ost alone."""
    with _bench(20_000) as bench:
        if bench is None:
            return ()
        nothing = bench.stall(lambda: None)
        ours = bench.stall(bench.ours)
        bare = bench.stall(bench.bare)
    return (
        Figure("ghost_stall", ours - nothing, "s", note=f"excess over {nothing:.3f} s without us; one run"),
        Figure("ghost_stall_bare", bare - nothing, "s", note="gh-ost alone, the same flags; one run"),
    )
