"""kill -9 of ``rollout``, of gh-ost, and of both, at seeded moments: the same command again ends in the wanted shape,
and nothing is left. gh-ost never outlives the command that started it."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from orchestrator.sandbox.pair import Pair
from tests.support.command import Ground, ground
from tests.support.ghost import (
    children,
    files,
    needs_real,
    own_folder,
    pid_of_run,
)
from tests.support.servers import wait_caught_up, wait_for

pytestmark = [needs_real, pytest.mark.crash, pytest.mark.timeout(240)]
DDL = ("next", "--phase", "ddl", "-y")


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    with own_folder(monkeypatch) as here:
        yield here


def kill_at(here: Ground, victim: str, delay_s: float) -> None:
    """Start ddl, wait until gh-ost runs, wait on, kill. Whatever still runs then comes to its own end."""
    process = here.terminal.start(*DDL)
    try:
        wait_for(lambda: pid_of_run() or process.poll() is not None, 30, "gh-ost runs")
        with suppress(subprocess.TimeoutExpired):
            process.wait(delay_s)
        pids = {"gh-ost": [pid_of_run()], "rollout": [process.pid], "both": [process.pid, pid_of_run()]}[victim]
        for pid in pids:
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    wait_for(lambda: children() == [], 5, "no gh-ost outlives its command")


def tables(here: Ground) -> set[str]:
    return {row[0] for row in here.sql(f"SHOW TABLES FROM `{here.runbook.table.schema}`")}


@pytest.mark.parametrize("victim", ["rollout", *(pytest.param(v, marks=pytest.mark.slow) for v in ("gh-ost", "both"))])
def test_killed_anywhere_and_typed_again_ends_in_the_wanted_shape(victim: str, pair: Pair, tmp_path: Path) -> None:
    rng = Random(victim)
    with ground(pair, "readings", tmp_path, rows=1000) as here:
        content = here.sql(f"SELECT id, sensor_no, amount, state, note FROM {here.table} ORDER BY id")
        for latest in (0.5, 3.5):
            kill_at(here, victim, rng.random() * latest)
        ended = here.terminal.run(*DDL, expect=None)
        if ended.code:
            # The last kill may have come after the end.
            assert "ddl" in here.terminal.run("status", "--json").json["done"], ended.err
        assert here.terminal.run("status", "--json").json["phase"] == "ddl"
        assert tables(here) == {"reading"}
        assert files() == []
        assert here.sql(f"SELECT id, sensor_no, amount, state, note FROM {here.table} ORDER BY id") == content
        (shape,) = here.sql(f"SHOW CREATE TABLE {here.table}")
        for words in ("`amount` bigint", "`quality` varchar(24)", "`reading_quality_taken_idx`"):
            assert words in shape[1]
        wait_caught_up(pair)


def test_an_aborted_command_leaves_nothing(pair: Pair, tmp_path: Path) -> None:
    with ground(pair, "readings", tmp_path, rows=1000) as here:
        process = here.terminal.start(*DDL)
        wait_for(pid_of_run, 30, "gh-ost runs")
        here.terminal.run("abort", expect=None)
        out, err = process.communicate(timeout=60)
        if process.returncode == 0:
            pytest.skip("it was quicker than the abort")
        assert process.returncode == 76, (out, err)
        assert tables(here) == {"reading"}
        assert files() == []
        assert children() == []
        here.terminal.run(*DDL)
        assert tables(here) == {"reading"}
