"""How long the way back takes: from the failing sample of a gate to the last read of the application on the new column.

Twenty tries on one table. Eight threads read by the flag as docs/applications.md says (asked each second, held for one
poll). The gate is one number in a table; it is made bad, and its sample is what is counted from.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from benchmarks.figures import Figure
from orchestrator.app.wiring import App, Surroundings, build
from orchestrator.cli.ground import settings_for
from orchestrator.cli.screen import Plain
from orchestrator.errors import PhaseFailed
from orchestrator.model.runbook import GateSpec
from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.runbook.load import load
from orchestrator.sandbox.flag_reader import FlagReader
from orchestrator.sandbox.pair import Pair, start_pair
from orchestrator.sandbox.server import Server

_TRIES = 20
_THREADS = 8
_POLL_S = 1.0
_GOAL_S = 5.0
_EXCESS_S = 0.25
_BEGIN = (
    "CREATE DATABASE back",
    "CREATE TABLE back.orders (id INT PRIMARY KEY, status VARCHAR(20) NOT NULL)",
    "INSERT INTO back.orders VALUES (1, 'new'), (2, 'done'), (3, 'done')",
    "CREATE TABLE back.health (bad INT NOT NULL)",
    "INSERT INTO back.health VALUES (0)",
)
_RUNBOOK = """\
apiVersion: rollout/v1
name: back
table: {schema: back, name: orders}
contract: {columns: [{name: state, type: varchar(32)}]}
mappings: [{old: status, new: state, forward: copy, backward: copy}]
phases:
  shadow_write: {soak: 200ms}
  read_switch: {percent: [100], hold: 10m, ttl: 30s, gates: [drift, health]}
gates: [{name: health, sql: SELECT bad FROM back.health, max: 0, interval: 500ms, count: 3, failure_limit: 1}]
"""


class Readers:
    """The application: each thread reads one row by the column that the flag says, and tells when it last read new."""

    def __init__(self, server: Server) -> None:
        self._settings = settings_for(server)
        self._ended = threading.Event()
        self.last_new_at = 0.0
        self.on_new = [False] * _THREADS
        self.longest_s = 0.0
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(_THREADS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(10)

    def longest(self) -> float:
        """The longest wait of a statement since it was last asked for."""
        taken, self.longest_s = self.longest_s, 0.0
        return taken

    def _run(self, at: int) -> None:
        asking = ApplicationSession(self._settings, "flag")
        flags = FlagReader(asking, self._settings.state_schema, "back", _POLL_S, time.monotonic)
        with closing(ApplicationSession(self._settings, "reader", "back")) as session:
            session.open()
            while not self._ended.wait(0.01):
                new = flags.decide().reads_new((at,))
                began = time.monotonic()
                session.query(f"SELECT {'state' if new else 'status'} FROM orders WHERE id = 2")
                ended = time.monotonic()
                self.longest_s = max(self.longest_s, ended - began)
                self.on_new[at] = new
                if new:
                    self.last_new_at = ended
        flags.close()


class _Watched:
    """The gates of the app; the moment at which a bad sample of ``health`` came is kept."""

    def __init__(self, app: App) -> None:
        self._sample = app.gates.sample
        self.failed_at = 0.0

    def __call__(self, gate: GateSpec) -> float | str:
        taken = self._sample(gate)
        if gate.name == "health" and taken == 1.0:
            self.failed_at = self.failed_at or time.monotonic()
        return taken


def back() -> Sequence[Figure]:
    with tempfile.TemporaryDirectory(prefix="bench-back-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            return _measured(pair, Path(folder))
        finally:
            pair.remove()


def _measured(pair: Pair, folder: Path) -> Sequence[Figure]:
    path = folder / "back.yaml"
    path.write_text(_RUNBOOK, encoding="utf-8")
    took: list[float] = []
    moving: list[float] = []
    still: list[float] = []
    app = build(load(path), settings_for(pair.primary), Surroundings(Plain(None)))
    with closing(ApplicationSession(settings_for(pair.primary), "setup")) as setup, closing(app):
        for statement in _BEGIN:
            setup.execute(statement)
        for phase in ("ddl", "backfill", "shadow-write"):
            app.commands.next(phase)
        readers = Readers(pair.primary)
        readers.start()
        for n in range(_TRIES):
            readers.longest()
            began = time.monotonic()
            took.append(_try(app, setup, readers))
            moving.append(readers.longest())
            # As long again without us: what is compared was measured over equal times.
            time.sleep(time.monotonic() - began)
            still.append(readers.longest())
            sys.stderr.write(
                f"  {n + 1}: {took[-1]:.2f} s, longest wait {moving[-1]:.3f} s (quiet {still[-1]:.3f} s)\n"
            )
        readers.end()
    note = f"{_TRIES} tries, {_THREADS} threads, poll {_POLL_S:g} s; p50 {statistics.median(took):.2f} s"
    waits = f"longest {max(moving):.3f} s moving, {max(still):.3f} s still, interleaved"
    return (
        Figure("back_p50", statistics.median(took), "s", goal=_GOAL_S, note=note),
        Figure("back_longest", max(took), "s", goal=_GOAL_S, note="failing sample to the last read on the new column"),
        Figure("back_wait_excess", max(moving) - max(still), "s", goal=_EXCESS_S, note=waits),
    )


def _try(app: App, setup: ApplicationSession, readers: Readers) -> float:
    """Seconds from the failing sample to the last read by the new column."""
    setup.execute("UPDATE back.health SET bad = 0")
    watched = _Watched(app)
    app.gates.sample = watched  # type: ignore[method-assign]
    walking = threading.Thread(target=_walk, args=(app,))
    walking.start()
    while not all(readers.on_new):
        assert walking.is_alive(), "the ramp ended before the readers had moved"
        time.sleep(0.02)
    setup.execute("UPDATE back.health SET bad = 1")
    walking.join(60)
    time.sleep(2 * _POLL_S)
    app.gates.sample = watched._sample  # type: ignore[method-assign]
    assert not any(readers.on_new)
    return readers.last_new_at - watched.failed_at


def _walk(app: App) -> None:
    with suppress(PhaseFailed):
        app.commands.next("read-switch")
