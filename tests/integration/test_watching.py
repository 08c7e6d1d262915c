"""``rollout run --watch`` on a real server: after the last stage gates, mirror and flags are watched until finish."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from tests.support.servers import wait_for
from tests.support.small import Small, small
from tests.support.within import FORWARD, opened

pytestmark = pytest.mark.integration
GATE = (
    ("gates: [drift]", "gates: [drift, app]"),
    ("checks:", "gates:\n  - {name: app, command: cat bad, max: 0, interval: 200ms, failure_limit: 1}\nchecks:"),
)


@pytest.fixture(scope="module")
def walked(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Every stage is done; the gate ``app`` reads the file ``bad``."""
    folder = tmp_path_factory.mktemp("watching")
    with small(pair, folder) as made:
        (folder / "bad").write_text("0")
        made.write(*((old, new.replace("cat bad", f"cat {folder}/bad")) for old, new in GATE))
        yield made


@pytest.fixture
def here(walked: Small) -> Small:
    """Whatever the test before left, readers are at 100 % and the gate is good."""
    walked.terminal.runbook.with_name("bad").write_text("0")
    with opened(load(walked.terminal.runbook), walked.pair.primary) as app:
        for phase in FORWARD:
            app.commands.next(phase)
    return walked


def status(here: Small) -> dict[str, object]:
    return here.terminal.run("status", "--json").json


@contextmanager
def watching(here: Small) -> Iterator[subprocess.Popen[str]]:
    """The real command, when it has told that it watches; killed at the end if it still runs."""
    running = here.terminal.start("run", "--watch", "-y")
    notes = "SELECT body LIKE '%%watched  drift%%' FROM _rollout.progress"
    try:
        wait_for(lambda: here.sql(notes) == [(1,)] or running.poll() is not None, 40, "it watches")
        assert running.poll() is None, running.communicate()
        yield running
    finally:
        if running.poll() is None:
            running.kill()
        running.communicate()


def flag(here: Small) -> list[tuple[int, ...]]:
    return here.sql("SELECT new_writes, read_percent FROM _rollout.flag")


def test_a_gate_that_fails_afterwards_takes_readers_back_and_the_state_says_so(here: Small) -> None:
    with watching(here) as running:
        seen = status(here)
        assert (seen["state"], seen["who_must_act"], seen["read_percent"]) == ("done", "operator", 100)
        assert "watched" in here.terminal.run("status").out
        here.terminal.runbook.with_name("bad").write_text("9")
        wait_for(lambda: flag(here) == [(0, 0)], 20, "readers are back")
        _, err = running.communicate(timeout=30)
    assert running.returncode == 76, err
    assert "gate app: fail (9)" in err
    seen = status(here)
    assert (seen["state"], seen["done"]) == ("rolled-back", list(FORWARD[:3]))
    assert len(here.seen()["triggers"]) == 2, "the mirror stays"


def test_flags_that_are_lowered_by_hand_are_noticed_and_recorded(here: Small) -> None:
    with watching(here) as running:
        here.sql("UPDATE _rollout.flag SET read_percent = 0, new_writes = 0, expires_at = UTC_TIMESTAMP(6)")
        _, err = running.communicate(timeout=30)
    assert running.returncode == 76, err
    assert "somebody lowered the flags" in err
    assert status(here)["state"] == "rolled-back"


def test_verify_goes_back_when_readers_were_taken_back_without_a_word(here: Small) -> None:
    here.terminal.run("rollback", "--to", "read-switch", "-y")
    assert flag(here) == [(1, 100)]
    here.sql("UPDATE _rollout.flag SET read_percent = 0, new_writes = 0, expires_at = UTC_TIMESTAMP(6)")
    told = here.terminal.run("next", "--phase", "verify", "-y", expect=76)
    assert "somebody lowered the flags: readers are at 0 %" in told.err
    assert status(here)["done"] == list(FORWARD[:3])


def test_a_finish_beside_it_ends_it_and_is_no_failure(here: Small) -> None:
    with watching(here) as running:
        here.terminal.run("finish", "--old-application-gone", "--flag-retired", "-y")
        out, err = running.communicate(timeout=30)
    assert running.returncode == 0, err
    assert "this rollout is finished" in out
    here.terminal.run("purge", "-y")


def test_a_signal_ends_it_and_readers_stay(here: Small) -> None:
    with watching(here) as running:
        running.send_signal(signal.SIGTERM)
        out, err = running.communicate(timeout=15)
    assert running.returncode == 0, err
    assert "nobody watches them any more" in out
    assert flag(here) == [(1, 100)]
    assert status(here)["state"] == "done"
