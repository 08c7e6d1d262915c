"""``kill -9`` of the real command at every stage, then the same command: the same data as without."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from orchestrator.sandbox.pair import Pair
from tests.support.command import Ground, ground
from tests.support.servers import wait_caught_up, wait_for

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]
WANTED_KILLS = 30


def kill_after(here: Ground, arguments: tuple[str, ...], more_events: int, delay_s: float) -> int | None:
    """Start the command, let it record some more events and a moment pass, kill it. Its exit code when it was
    faster."""
    before = here.events()
    process = here.terminal.start(*arguments)
    try:
        deadline = time.monotonic() + 60
        while process.poll() is None and here.events() < before + more_events:
            assert time.monotonic() < deadline, "the command neither moves nor ends"
        with suppress(subprocess.TimeoutExpired):
            process.wait(delay_s)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            return None
        assert process.returncode == 0, process.communicate()
        return process.returncode
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def phase_of(here: Ground) -> str:
    """The stage that the record names; "" before there is one."""
    return str(here.sql("SELECT phase FROM _rollout.rollout")[0][0]) if here.events() else ""


def insist(here: Ground, arguments: tuple[str, ...], kills: int, rng: Random, seen: dict[str, int]) -> None:
    """Type the command until it is through, and kill it ``kills`` times on the way, later and later into a stage."""
    done = 0
    while True:
        in_phase = seen.get(phase_of(here), 0)
        if done == 0:
            # At the first event of the command, so that no stage is over before it was killed once.
            code = kill_after(here, arguments, 1, 0.0)
        elif done < kills:
            code = kill_after(here, arguments, rng.randint(1, 2 + in_phase), rng.random() * 0.3)
        else:
            code = here.terminal.run(*arguments).code
        if code is not None:
            return
        done += 1
        phase = phase_of(here)
        seen[phase] = seen.get(phase, 0) + 1


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("seed", [1])
def test_a_command_killed_anywhere_and_typed_again_ends_in_the_same_data(seed: int, pair: Pair, tmp_path: Path) -> None:
    rng = Random(seed)
    kills: dict[str, int] = {}
    with ground(pair, "aijob", tmp_path, rows=600, seed=seed, wait_s=0.3) as here:
        before = here.old_rows()
        for until, wanted in (("ddl", 8), ("backfill", 3), ("shadow-write", 5), ("read-switch", 6), ("verify", 4)):
            insist(here, ("run", "--until", until, "-y"), wanted, rng, kills)
        assert here.terminal.run("verify", "--json").json["mismatches"] == 0
        assert here.old_rows() == before
        # A command may be quicker than the knife: then the road is walked once more.
        for _ in range(4):
            insist(here, ("rollback", "-y"), 5, rng, kills)
            assert here.triggers() == []
            assert here.old_rows() == before
            insist(here, ("run", "-y"), 3, rng, kills)
            if sum(kills.values()) + 4 >= WANTED_KILLS:
                break
        insist(here, ("finish", "-y"), 4, rng, kills)
        assert here.old_rows() == before
        assert here.terminal.run("verify", "--json").json["mismatches"] == 0
        assert here.terminal.run("status", "--json").json["state"] == "finished"
        assert here.triggers() == []
        assert sum(kills.values()) >= WANTED_KILLS, kills
        assert {"ddl", "backfill", "shadow-write", "read-switch", "verify", "rollback", "finish"} <= set(kills), kills
        ours = "SELECT ID FROM performance_schema.processlist WHERE INFO LIKE '%/* rollout:%' AND ID <> CONNECTION_ID()"
        wait_for(lambda: not here.sql(ours), 30, "no statement of a dead command runs on")
        wait_caught_up(pair)


@pytest.mark.faults
@pytest.mark.slow  # the same law of a process that only fills: tests/integration/test_fill.py
def test_a_frozen_command_commits_nothing_after_another_took_over(pair: Pair, tmp_path: Path) -> None:
    """SIGSTOP in the middle of a backfill; the next operator waits for the silence, goes on, and the sleeper is
    fenced."""
    with ground(pair, "aijob", tmp_path, rows=6000) as here:
        here.terminal.run("next", "--phase", "ddl", "-y")
        frozen = here.terminal.start("next", "--phase", "backfill", "-y")
        moved = "SELECT COALESCE(MAX(rows_done), 0), COALESCE(MAX(done), 0) FROM _rollout.position"
        wait_for(lambda: here.sql(moved)[0][0] > 0, 60, "a batch is done")
        os.kill(frozen.pid, signal.SIGSTOP)
        try:
            assert here.sql(moved)[0][1] == 0, "the backfill was over before it was frozen"
            began = time.monotonic()
            here.sql(f"UPDATE {here.table} SET errorMessage = 'application' ORDER BY id LIMIT 50")
            here.sql(f"UPDATE {here.table} SET errorMessage = 'application' ORDER BY id DESC LIMIT 50")
            assert time.monotonic() - began < 2.0, "the frozen command holds up the application"
            here.terminal.run("next", "--phase", "backfill", "-y", timeout_s=100)
            assert time.monotonic() - began < 75
            after = here.sql("SELECT position, epoch, rows_done FROM _rollout.position")
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
        _, err = frozen.communicate(timeout=60)
        assert frozen.returncode in (75, 80), err
        assert here.sql("SELECT position, epoch, rows_done FROM _rollout.position") == after
