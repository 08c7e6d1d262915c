"""A signal in the middle of DDL or of a backfill, through the installed command: it pauses, and the same command goes
on. In a ramp, where flags come first: test_two_terminals.py."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.sandbox.pair import Pair
from tests.support.servers import wait_caught_up, wait_for
from tests.support.small import Small, small

SMALL_BATCHES = ("phases:", "phases:\n  backfill: {max_batch: 10}")
FILLED = "SELECT COALESCE(MAX(rows_done), 0) FROM _rollout.position"
BUILDS = "SELECT 1 FROM performance_schema.processlist WHERE INFO LIKE '%orders_state_idx%' AND STATE LIKE 'alter%'"


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path, rows="") as at:
        yield at


def fill(here: Small, thousands: int) -> None:
    numbers = "WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i FROM n"
    here.sql(
        f"INSERT INTO {here.table} (id, status) SELECT a.i * 1000 + b.i, IF(b.i % 2, 'new', 'done')"
        f" FROM ({numbers.format(thousands - 1)}) AS a, ({numbers.format(999)}) AS b"
    )


def stop(here: Small, number: signal.Signals, verb: tuple[str, ...], reached: str) -> str:
    """What the command said that got the signal when ``reached`` was true."""
    running = here.terminal.start(*verb)
    try:
        wait_for(lambda: running.poll() is not None or any(row[0] for row in here.sql(reached)), 60, reached)
        assert running.poll() is None, running.communicate()
        running.send_signal(number)
        out, err = running.communicate(timeout=30)
        assert running.returncode == 0, out + err
        return out + err
    finally:
        running.kill()
        running.communicate()


@pytest.mark.faults
@pytest.mark.slow  # a table that takes some time; the same in a ramp: test_two_terminals.py
@pytest.mark.timeout(240)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_0_for_a_signal_in_ddl_or_in_a_backfill_and_the_same_command_goes_on(
    here: Small, number: signal.Signals
) -> None:
    fill(here, 600)
    wait_caught_up(here.pair)
    assert "paused" in stop(here, number, ("next", "-y"), BUILDS)
    assert here.terminal.run("status", "--json").json["state"] == "paused"
    here.terminal.run("next", "--phase", "ddl", "-y")
    here.sql(f"TRUNCATE TABLE {here.table}")
    fill(here, 4)
    wait_caught_up(here.pair)
    here.write(SMALL_BATCHES)
    assert "paused" in stop(here, number, ("next", "-y"), FILLED)
    ((filled,),) = here.sql(f"SELECT COUNT(*) FROM {here.table} WHERE state IS NOT NULL")
    assert 0 < filled < 4000
    assert here.terminal.run("status", "--json").json["state"] == "paused"
    here.write()
    here.terminal.run("next", "--phase", "backfill", "-y")
    wrong = f"SELECT COUNT(*) FROM {here.table} WHERE NOT (state <=> IF(status = 'new', 'pending', 'succeeded'))"
    assert here.sql(wrong) == [(0,)]
