"""Ten minutes of four writers of each version, while the tool goes there and back and is killed all the time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from orchestrator.model.runbook import RollbackDdl
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.traffic import Traffic
from tests.support.command import Ground, ground
from tests.support.state import settings_of

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(1800)]
LENGTH_S = 600.0
WRITERS = 4
# Held, or gone back by itself: what was promised happened, and the same command again is right.
AGAIN = (75, 76)


def insisted(here: Ground, arguments: tuple[str, ...], rng: Random, seen: Counter[str]) -> None:
    """Type the command until it is through; kill it at any moment, more and more seldom."""
    patience_s = 3.0
    for _ in range(60):
        process = here.terminal.start(*arguments)
        with suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0.2, patience_s))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            seen["killed"] += 1
            patience_s *= 1.4
        out, err = process.communicate()
        if process.returncode == 0:
            return
        assert process.returncode in (*AGAIN, -signal.SIGKILL), f"{arguments}: {process.returncode}\n{out}\n{err}"
        seen[str(process.returncode)] += 1
    raise AssertionError(f"{arguments} never came to its end: {seen}")


@pytest.mark.parametrize("shadow", ["triggers", "flag"])
def test_the_ledger_is_exact_while_the_tool_is_killed_all_the_time(shadow: str, pair: Pair, tmp_path: Path) -> None:
    rng, seen, began = Random(shadow), Counter[str](), time.monotonic()
    with ground(pair, "aijob", tmp_path, rows=3000, wait_s=0.5) as plain:
        here = plain if shadow == "triggers" else plain.mirrored_by(shadow)
        traffic = Traffic(settings_of(pair.primary), here.runbook, here.shape, seed=7, pace=60, threads=WRITERS)
        try:
            traffic.start_old()
            traffic.start_new()
            while True:
                insisted(here, ("run", "-y"), rng, seen)
                seen["walks"] += 1
                if time.monotonic() - began > LENGTH_S:
                    break
                meter = here.terminal.run("status", "--meter", "--json").json["meter"]
                accept = [f"--accept-loss={c['class']}={c['rows'] + 5000}" for c in meter["classes"]]
                insisted(here, ("rollback", "-y", *accept), rng, seen)
                traffic.ledger.old_is_truth(dropped=here.runbook.phases.rollback_ddl is RollbackDdl.DROP)
            traffic.stop()
            differences, stats = here.lost(traffic), traffic.stats()
        finally:
            traffic.stop()
        print(f"{shadow}: {dict(seen)}, {stats}")
        assert differences == []
        assert stats.errors == 0, stats.error_texts
        assert seen["killed"] >= LENGTH_S / 30
