"""Two terminals on one rollout: who may act, how the other one is asked to stop, and how readers come back at once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from orchestrator.sandbox.pair import Pair
from tests.support.servers import sql, wait_for
from tests.support.small import Small, small

LONG = (("hold: 200ms", "hold: 5m"),)
BEAT_S = 5.0  # one beat is half a second; the rest is for a busy machine
EFFECTIVE = (
    "SELECT IF(expires_at > UTC_TIMESTAMP(6), read_percent, 0), IF(expires_at > UTC_TIMESTAMP(6), new_writes, 0)"
)


@pytest.fixture(scope="module")
def mirrored(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Shadow-write is done."""
    with small(pair, tmp_path_factory.mktemp("terminals")) as made:
        made.terminal.run("run", "--until", "shadow-write", "-y")
        yield made


@pytest.fixture
def ready(mirrored: Small) -> Small:
    """Whatever the test before left, read-switch is the next stage, and it would hold each step for five minutes."""
    mirrored.write()
    if "read-switch" in mirrored.terminal.run("status", "--json").json["done"]:
        mirrored.terminal.run("rollback", "--to", "shadow-write", "-y")
    mirrored.write(*LONG)
    return mirrored


def flags(here: Small) -> tuple[int, int]:
    """Percent and new_writes as an application gets them now."""
    rows = here.sql(f"{EFFECTIVE} FROM _rollout.flag WHERE rollout = 'orders-state'")
    return (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)


@contextmanager
def ramping(here: Small) -> Iterator[subprocess.Popen[str]]:
    """A command that holds the first step of the ramp; killed at the end if it still runs."""
    running = here.terminal.start("next", "--phase", "read-switch", "-y", "--json")
    try:
        wait_for(lambda: flags(here) == (50, 1) or running.poll() is not None, 60, "50 % of the readers are over")
        assert running.poll() is None, running.communicate()
        yield running
    finally:
        if running.poll() is None:
            running.kill()
        running.communicate()


def ended(running: subprocess.Popen[str], code: int, within_s: float = BEAT_S) -> str:
    """What it said on standard output and error, when it ended with that code in time."""
    out, err = running.communicate(timeout=within_s)
    assert running.returncode == code, f"{running.returncode}\n{out}\n{err}"
    return out + err


def test_75_for_a_second_operator_with_who_where_and_since_when(ready: Small) -> None:
    with ramping(ready) as first:
        told = ready.terminal.run("next", "-y", "--json", expect=75).json
        ((who, host, pid),) = ready.sql("SELECT owner, host, pid FROM _rollout.lease")
        assert told["error"] == "lease-taken"
        assert f"{who} on {host} (process {first.pid}), since 20" in told["seen"]
        assert pid == first.pid
        assert "rollout pause" in told["next"]
        status = ready.terminal.run("status", "--json").json
        assert (status["state"], status["who_must_act"], status["read_percent"]) == ("running", "nobody", 50)
        assert status["progress"]["unit"] == "s"
        assert flags(ready) == (50, 1), "the first one was not disturbed"

        ready.terminal.run("pause", "--reason", "lunch")
        assert "paused" in ended(first, 0)
        assert flags(ready) == (0, 0)
    status = ready.terminal.run("status", "--json").json
    assert (status["state"], status["who_must_act"]) == ("paused", "operator")
    assert status["next_command"] == "rollout next --phase read-switch"
    ready.terminal.run("resume")
    ready.write()  # short holds again: settings outside of the contract may change
    ready.terminal.run("next", "-y")
    assert flags(ready) == (100, 1)
    assert "settings outside the contract were changed" in ready.terminal.run("history").out


def test_76_for_a_command_that_another_terminal_aborts_and_the_flags_are_lowered(ready: Small) -> None:
    with ramping(ready) as first:
        assert "aborted" in ready.terminal.run("abort", "--reason", "wrong evening").out
        assert "aborted by" in ended(first, 76)
        assert flags(ready) == (0, 0)
    assert ready.terminal.run("status", "--json").json["state"] == "paused"
    assert len(ready.sql("SHOW TRIGGERS FROM " + ready.schema)) == 2, "the mirror stays"
    ready.write()
    ready.terminal.run("next", "--phase", "read-switch", "-y")


def test_a_rollback_lowers_the_flags_at_once_while_another_terminal_holds_the_lease(ready: Small) -> None:
    with ramping(ready) as first:
        began = time.monotonic()
        back = ready.terminal.start("rollback", "--to", "shadow-write", "-y", "--json")
        try:
            wait_for(lambda: flags(ready) == (0, 0), 30, "readers are on the old column")
            took_s = time.monotonic() - began
            assert back.poll() is None, "flags were lowered before the rollback had the lease, not after it was over"
            assert first.poll() is None or took_s < 2.0
            out, err = back.communicate(timeout=60)
            assert back.returncode == 0, out + err
        finally:
            if back.poll() is None:
                back.kill()
            back.communicate()
        out, err = first.communicate(timeout=30)
        assert first.returncode in (75, 76), out + err
        assert flags(ready) == (0, 0)
    status = ready.terminal.run("status", "--json").json
    assert (status["state"], status["done"]) == ("rolled-back", ["ddl", "backfill", "shadow-write"])
    assert took_s < 5.0, f"{took_s:.1f} s from typing to 0 %"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
def test_0_for_a_signal_which_pauses_with_flags_lowered_first(ready: Small, number: signal.Signals) -> None:
    with ramping(ready) as first:
        first.send_signal(number)
        told = ended(first, 0)
    assert "paused" in told
    assert flags(ready) == (0, 0)
    assert ready.terminal.run("status", "--json").json["state"] == "paused"


def test_76_for_a_ctrl_c_while_a_pause_is_not_answered_yet(ready: Small) -> None:
    with ramping(ready) as first:
        first.send_signal(signal.SIGHUP)  # the lower number is handled first; a second SIGINT would melt into the first
        first.send_signal(signal.SIGINT)
        assert "aborted" in ended(first, 76)
    assert flags(ready) == (0, 0)


def test_a_watcher_that_is_killed_takes_readers_back_and_the_next_begins_at_its_gate(ready: Small) -> None:
    with ramping(ready) as watcher:
        os.kill(watcher.pid, signal.SIGKILL)
        watcher.wait()
        ((left_s,),) = ready.sql(
            "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) / 1e6 FROM _rollout.flag"
        )
        assert 0 < left_s <= 4.0, "it lives for the ttl of the runbook, no longer"
        wait_for(lambda: flags(ready) == (0, 0), 6, "the flag expired without anybody")
    ((percent,),) = ready.sql("SELECT read_percent FROM _rollout.flag")
    assert percent == 50, "nobody lowered it: it expired"
    status = ready.terminal.run("status", "--json").json
    assert (status["read_percent"], status["new_writes"], status["who_must_act"]) == (0, False, "operator")
    assert "its command is gone" in status["line"]
    events = ready.sql("SELECT MAX(revision) FROM _rollout.event")[0][0]
    ready.write()
    ready.terminal.run("next", "--phase", "read-switch", "-y")
    steps = [
        row[0]
        for row in ready.sql(
            "SELECT JSON_UNQUOTE(JSON_EXTRACT(body, '$.step')) FROM _rollout.event"
            " WHERE revision > %s AND kind = 'step-done' ORDER BY revision",
            events,
        )
    ]
    assert steps[0] == "lower-flags", steps
    assert steps.index("compare:drift") < steps.index("open-writes") < steps.index("set-percent:50"), steps
    assert flags(ready) == (100, 1)
    assert sql(ready.pair.primary, "SELECT YEAR(expires_at) FROM _rollout.flag") == [(9999,)]


def test_an_abort_without_anybody_running_clears_what_a_dead_command_left(ready: Small) -> None:
    with ramping(ready) as dead:
        dead.kill()
        dead.wait()
        assert "aborted" in ready.terminal.run("abort").out
    assert ready.sql("SELECT read_percent, new_writes FROM _rollout.flag") == [(0, 0)]
    status = ready.terminal.run("status", "--json").json
    assert (status["state"], status["done"]) == ("paused", ["ddl", "backfill", "shadow-write"])
    assert "no command of this rollout runs" in ready.terminal.run("pause").out
