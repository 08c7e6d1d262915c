"""Law 11: the command that watches a ramp is killed; by the server's own clock the applications are back in time."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from orchestrator.mysql.sql.applications import read_flag
from orchestrator.sandbox.pair import Pair
from tests.support.servers import wait_for
from tests.support.small import Small, small

pytestmark = [pytest.mark.crash]
TTL_S = 4.0
CHANGES = (("hold: 200ms", "hold: 60s"), ("ttl: 4s", f"ttl: {TTL_S:g}s"))


def application_sees(here: Small) -> tuple[bool, int]:
    """What an application is told when it asks: new writes, percent of readers on the new column."""
    rows = here.sql(read_flag("_rollout"), here.name)
    return (bool(rows[0][0]), int(rows[0][1])) if rows else (False, 0)


def test_a_killed_watcher_takes_readers_back_by_itself_and_the_ramp_begins_again(pair: Pair, tmp_path: Path) -> None:
    with small(pair, tmp_path) as here:
        here.write(*CHANGES)
        here.terminal.run("run", "--until", "shadow-write", "-y")
        watcher = here.terminal.start("next", "--phase", "read-switch", "-y")
        try:
            wait_for(lambda: application_sees(here) == (True, 50), 60, "readers are at 50 %")
            os.kill(watcher.pid, signal.SIGKILL)
            killed_at = time.monotonic()
        finally:
            watcher.kill()
            watcher.communicate()
        wait_for(lambda: application_sees(here) == (False, 0), TTL_S + 5, "the applications are back")
        assert time.monotonic() - killed_at < TTL_S + 2
        here.write()
        here.terminal.run("next", "--phase", "read-switch", "-y")
        assert application_sees(here) == (True, 100)


def test_a_mirror_that_goes_during_a_ramp_takes_readers_back_at_once(pair: Pair, tmp_path: Path) -> None:
    """Somebody drops a trigger. The flag would live for a minute: it is the watcher that takes readers back."""
    with small(pair, tmp_path) as here:
        here.write(("hold: 200ms", "hold: 60s"), ("ttl: 4s", "ttl: 60s"))
        here.terminal.run("run", "--until", "shadow-write", "-y")
        watcher = here.terminal.start("next", "--phase", "read-switch", "-y")
        try:
            wait_for(lambda: application_sees(here) == (True, 50), 60, "readers are at 50 %")
            (trigger, *_) = here.seen()["triggers"]
            here.sql(f"DROP TRIGGER `{here.schema}`.`{trigger[0]}`")
            wait_for(lambda: application_sees(here) == (False, 0), 8, "the watcher takes readers back")
            _, err = watcher.communicate(timeout=30)
        finally:
            watcher.kill()
            watcher.communicate()
        assert watcher.returncode == 76, err
        assert "trigger" in err
        status = here.terminal.run("status", "--json").json
        assert (status["state"], status["read_percent"]) == ("rolled-back", 0)
