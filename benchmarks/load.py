"""What a busy application feels: two hundred connections at 70 % of the rate that the server takes alone, while a
rollout walks all six stages. Each stage is compared with as long a pulse without us right before it.

A wait is that of one statement, from the moment when it was due. Applications, servers and the tool share this
machine's cores, so what we take of them is taken from the application.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.applications import Applications
from benchmarks.backfill import INDEXES, make, settings_of
from benchmarks.figures import Figure
from orchestrator.mysql.session import Session
from orchestrator.sandbox.pair import Pair, start_pair
from orchestrator.sandbox.template import OPERATOR

ROLLOUT = str(Path(sys.executable).with_name("rollout"))
_CONNECTIONS, _AT_ONCE = 200, 16
_SHARE = 0.7
_ROWS = 200_000
_ALONE_S = 15.0
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
# The same change by hand, without a look at anything.
_ALTERS = (
    "ALTER TABLE bench.orders ADD COLUMN phase VARCHAR(32), ADD COLUMN wait_ms BIGINT, ALGORITHM=INSTANT",
    "ALTER TABLE bench.orders ADD INDEX by_phase (phase, made_at), ALGORITHM=INPLACE, LOCK=NONE",
)
_BATCH = "UPDATE bench.orders SET phase = status, wait_ms = timeout_s * 1000 WHERE id > %s AND id <= %s"
_COMPARED = "SELECT COUNT(*) FROM bench.orders WHERE NOT (phase <=> status) OR NOT (wait_ms <=> timeout_s * 1000)"
_BATCH_ROWS = 1000
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


def _statement(draw: random.Random) -> bytes:
    id, kind = draw.randrange(_ROWS) * 7, draw.random()
    if kind < 0.6:
        return b"SELECT status, note, timeout_s FROM orders WHERE id = %d" % id
    if kind < 0.85:
        return b"UPDATE orders SET status = '%b' WHERE id = %d" % (draw.choice((b"new", b"work", b"done")), id)
    if kind < 0.95:
        return b"UPDATE orders SET timeout_s = %d WHERE id = %d" % (draw.randrange(1000), id)
    return b"SELECT COUNT(*) FROM orders WHERE id BETWEEN %d AND %d" % (id, id + 700)


def load() -> Sequence[Figure]:
    """p99 of the application with us ÷ without; at the full rate it is only reported, and what the same change costs
    when it is made by hand. One run of each."""
    with tempfile.TemporaryDirectory(prefix="bench-load-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            write_runbook(Path(folder))
            ours = [(stage[-1], lambda s=stage: _typed(s, environment(pair, Path(folder)))) for stage in STAGES]
            paced = _walked(pair, ours, _SHARE)
            full = _walked(pair, ours, 1.0)
            hand = _walked(pair, _by_hand(pair), _SHARE)
        finally:
            pair.remove()
    errors = (*paced.errors, *full.errors)
    most = f"{_CONNECTIONS} connections, rate of {_AT_ONCE} statements at a time"
    longest = f"longest with us {paced.longest_s:.3f} s, without {paced.bare_longest_s:.3f} s"
    return (
        Figure("load_p99", paced.p99_s, "s", paced.bare_p99_s, goal=1.3, note=f"{most}, {paced.told}; {longest}"),
        Figure("load_errors", len(errors), "", goal=0, note="; ".join(errors[:3])),
        Figure("load_full_p99", full.p99_s, "s", full.bare_p99_s, note=f"at the full rate, {full.told}"),
        Figure("load_hand_p99", hand.p99_s, "s", hand.bare_p99_s, note=f"the same change by hand, {hand.told}"),
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


def _rate(applications: Applications) -> float:
    time.sleep(_ALONE_S / 2)
    applications.waits()
    time.sleep(_ALONE_S)
    return len(applications.waits()) / _ALONE_S


def _walked(pair: Pair, works: Sequence[tuple[str, Callable[[], object]]], share: float) -> _Felt:
    """Each of ``works`` on a new table, under that share of the rate that is taken alone."""
    settings = settings_of(pair.primary)
    with closing(Session(settings, role="bench", timeout_s=600.0)) as session:
        make(session, settings, _ROWS, INDEXES)
        session.execute("DROP DATABASE _rollout")
        session.execute(f"SET GLOBAL max_connections = {2 * _CONNECTIONS}")
    with Applications(settings, "bench", _CONNECTIONS, _AT_ONCE, _statement) as applications:
        felt, pulse_s = _Felt(share * _rate(applications)), _LEAST_PULSE_S
        applications.rate = felt.rate if share < 1.0 else 0.0
        for name, work in works:
            time.sleep(1.0)
            applications.waits()
            time.sleep(pulse_s)
            bare = applications.waits()
            began = time.monotonic()
            work()
            with_it = applications.waits()
            pulse_s = min(max(time.monotonic() - began, _LEAST_PULSE_S), _MOST_PULSE_S)
            felt.add(name, bare, with_it)
    felt.errors = applications.errors
    return felt


def _typed(stage: Sequence[str], environment: dict[str, str]) -> None:
    """In a terminal of its own: a kernel that shares the cores between sessions does not take the tool for a part of
    the application."""
    command = [ROLLOUT, *stage, "-y"]
    subprocess.run(command, env=environment, check=True, capture_output=True, start_new_session=True)


def _by_hand(pair: Pair) -> Sequence[tuple[str, Callable[[], object]]]:
    def said(statement: str, *args: object) -> None:
        with closing(Session(settings_of(pair.primary), role="bench", timeout_s=600.0)) as session:
            session.execute(statement, args)

    def altered() -> None:
        for statement in _ALTERS:
            said(statement)

    def filled() -> None:
        with closing(Session(settings_of(pair.primary), role="bench", timeout_s=600.0)) as session:
            for row in range(0, _ROWS, _BATCH_ROWS):
                session.execute(_BATCH, ((row - 1) * 7, (row + _BATCH_ROWS - 1) * 7))

    return (
        ("ddl", altered),
        ("backfill", filled),
        ("verify", lambda: said(_COMPARED)),
    )
