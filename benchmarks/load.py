"""What a busy application feels: two hundred connections at 70 % of the rate that the server takes alone, while a
rollout walks all six stages. Each stage is compared with as long a pulse without us right before it.

A wait is that of one statement on its connection. Client and servers share this machine's cores, so what we take from
the server's CPU is taken from the application as well.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.backfill import INDEXES, make, settings_of
from benchmarks.figures import Figure
from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session
from orchestrator.sandbox.pair import Pair, start_pair
from orchestrator.sandbox.template import OPERATOR
from orchestrator.settings import ServerSettings

ROLLOUT = str(Path(sys.executable).with_name("rollout"))
_CONNECTIONS, _THREADS = 200, 8
_SHARE = 0.7
_ROWS = 200_000
_ALONE_S = 8.0
_LEAST_PULSE_S, _MOST_PULSE_S = 6.0, 20.0
_RUNBOOK = """\
apiVersion: rollout/v1
name: load
table: {schema: bench, name: orders}
contract:
  columns:
    - {name: phase, type: varchar(32)}
    - {name: wait_ms, type: bigint}
  indexes: [{name: by_phase, columns: [phase, made_at]}]
mappings:
  - {old: status, new: phase, forward: copy, backward: copy}
  - {new: wait_ms, forward: {sql: timeout_s * 1000}}
phases:
  shadow_write: {soak: 5s}
  read_switch: {percent: [50, 100], hold: 5s, gates: [drift]}
  verify: {soak: 5s}
  rollback: {quiet: 5s}
"""
STAGES: tuple[tuple[str, ...], ...] = (
    ("next", "--phase", "ddl"),
    ("next", "--phase", "backfill"),
    ("next", "--phase", "shadow-write"),
    ("next", "--phase", "read-switch"),
    ("next", "--phase", "verify"),
    ("rollback",),
)


def write_runbook(folder: Path) -> None:
    """The runbook of ``bench.orders``, to where ``environment`` looks for it."""
    (folder / "load.yaml").write_text(_RUNBOOK, encoding="utf-8")


def environment(pair: Pair, folder: Path) -> dict[str, str]:
    """What the command needs to walk it."""
    return os.environ | {
        "ROLLOUT_HOST": pair.primary.host,
        "ROLLOUT_PORT": str(pair.primary.port),
        "ROLLOUT_USER": OPERATOR.user,
        "ROLLOUT_PASSWORD": OPERATOR.password,
        "ROLLOUT_RUNBOOK": str(folder / "load.yaml"),
    }


class _Crowd:
    """``_CONNECTIONS`` sessions over ``_THREADS`` threads, which read and write rows one at a time until the end.

    ``rate``: statements a second of all together, 0 for as many as the server takes."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._ended = threading.Event()
        self._open = threading.Barrier(_THREADS + 1, timeout=120.0)
        self._lock = threading.Lock()
        self._waits_s: list[float] = []
        self.rate = 0.0
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(_THREADS)]

    def __enter__(self) -> _Crowd:
        for thread in self._threads:
            thread.start()
        self._open.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def waits(self) -> list[float]:
        """Every wait since it was last asked for, in seconds."""
        with self._lock:
            taken, self._waits_s = self._waits_s, []
        return taken

    def _run(self, number: int) -> None:
        draw = random.Random(number)
        sessions = [
            ApplicationSession(self._settings, f"load {number}.{n}", "bench") for n in range(_CONNECTIONS // _THREADS)
        ]
        for session in sessions:
            session.open()
        self._open.wait()
        due = time.perf_counter()
        while not self._ended.is_set():
            if self.rate:
                due = max(due + _THREADS / self.rate, time.perf_counter() - 1.0)
                self._ended.wait(max(due - time.perf_counter(), 0.0))
            began = time.perf_counter()
            try:
                _statement(draw.choice(sessions), draw)
            except ServerError as error:
                self.errors.append(str(error))
            waited_s = time.perf_counter() - began
            with self._lock:
                self._waits_s.append(waited_s)
        for session in sessions:
            session.close()


def _statement(session: ApplicationSession, draw: random.Random) -> None:
    id, kind = draw.randrange(_ROWS) * 7, draw.random()
    if kind < 0.6:
        session.query("SELECT status, note, timeout_s FROM orders WHERE id = %s", (id,))
    elif kind < 0.85:
        session.execute("UPDATE orders SET status = %s WHERE id = %s", (draw.choice(("new", "work", "done")), id))
    elif kind < 0.95:
        session.execute("UPDATE orders SET timeout_s = %s WHERE id = %s", (draw.randrange(1000), id))
    else:
        session.query("SELECT COUNT(*) FROM orders WHERE id BETWEEN %s AND %s", (id, id + 700))


def load() -> Sequence[Figure]:
    """p99 of the application with us ÷ without; at the full rate it is only reported. One run of each."""
    with tempfile.TemporaryDirectory(prefix="bench-load-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            write_runbook(Path(folder))
            paced = _walked(pair, Path(folder), _SHARE)
            full = _walked(pair, Path(folder), 1.0)
        finally:
            pair.remove()
    errors = (*paced.errors, *full.errors)
    most = f"{_CONNECTIONS} connections, {_THREADS} statements at a time"
    longest = f"longest with us {paced.longest_s:.3f} s, without {paced.bare_longest_s:.3f} s"
    return (
        Figure("load_p99", paced.p99_s, "s", paced.bare_p99_s, goal=1.3, note=f"{most}, {paced.told}; {longest}"),
        Figure("load_errors", len(errors), "", goal=0, note="; ".join(errors[:3])),
        Figure("load_full_p99", full.p99_s, "s", full.bare_p99_s, note=f"at the full rate, {full.told}"),
    )


class _Felt:
    """Waits with us and without, by stage."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self.errors: list[str] = []
        self._with: list[float] = []
        self._without: list[float] = []
        self._told: list[str] = []

    def add(self, stage: str, bare: list[float], ours: list[float]) -> None:
        self._without += bare
        self._with += ours
        self._told.append(f"{stage} {_p99(ours) / _p99(bare):.2f}")
        sys.stderr.write(f"  {stage}: p99 {_p99(ours) * 1000:.1f} ms, without {_p99(bare) * 1000:.1f} ms\n")

    @property
    def p99_s(self) -> float:
        return _p99(self._with)

    @property
    def bare_p99_s(self) -> float:
        return _p99(self._without)

    @property
    def longest_s(self) -> float:
        return max(self._with)

    @property
    def bare_longest_s(self) -> float:
        return max(self._without)

    @property
    def told(self) -> str:
        return f"{self.rate:.0f} statements/s; by stage: {', '.join(self._told)}"


def _p99(waits_s: Sequence[float]) -> float:
    return statistics.quantiles(waits_s, n=100)[-1]


def _rate(crowd: _Crowd) -> float:
    time.sleep(_ALONE_S / 4)
    crowd.waits()
    time.sleep(_ALONE_S)
    return len(crowd.waits()) / _ALONE_S


def _walked(pair: Pair, folder: Path, share: float) -> _Felt:
    """One walk of a new table through all stages and back, under that share of the rate that is taken alone."""
    settings = settings_of(pair.primary)
    with closing(Session(settings, role="bench", timeout_s=600.0)) as session:
        make(session, settings, _ROWS, INDEXES)
        session.execute("DROP DATABASE _rollout")
        session.execute(f"SET GLOBAL max_connections = {2 * _CONNECTIONS}")
    with _Crowd(settings) as crowd:
        felt, pulse_s = _Felt(share * _rate(crowd)), _LEAST_PULSE_S
        crowd.rate = felt.rate if share < 1.0 else 0.0
        for stage in STAGES:
            time.sleep(1.0)
            crowd.waits()
            time.sleep(pulse_s)
            bare = crowd.waits()
            began = time.monotonic()
            subprocess.run([ROLLOUT, *stage, "-y"], env=environment(pair, folder), check=True, capture_output=True)
            ours = crowd.waits()
            pulse_s = min(max(time.monotonic() - began, _LEAST_PULSE_S), _MOST_PULSE_S)
            felt.add(stage[-1], bare, ours)
    felt.errors = crowd.errors
    return felt
