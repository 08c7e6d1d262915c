"""gh-ost's status line: every real line that was kept is understood, and none of its traps is believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.drivers.ddl.ghost.status import last_line, parse

KEPT = Path(__file__).parents[1] / "data" / "ghost"
LINES = [line for path in sorted(KEPT.glob("*.txt")) for line in path.read_text(errors="replace").splitlines()]
STATUS = [line for line in LINES if line.startswith("Copy: ") or " Copy: " in line.split("INFO")[-1][:8]]
TEMPLATE = (
    "Copy: {copied}/{total} {percent}%; Applied: 0; Backlog: 0/1000; Time: 1h2m3s(total), 1m0s(copy);"
    " streamer: uuid:1-9; Lag: 0.01s, HeartbeatLag: {heartbeat}s, State: {state}; ETA: {eta}"
)


def line(**changes: object) -> str:
    usual: dict[str, object] = {"copied": 10, "total": 100, "percent": "10.0", "heartbeat": "0.05"}
    usual |= {"state": "migrating", "eta": "9s"}
    return TEMPLATE.format(**(usual | changes))


def test_every_real_line_is_understood() -> None:
    assert len(STATUS) > 100
    assert [text for text in STATUS if text.startswith("Copy: ") and parse(text) is None] == []


def test_nothing_else_is_taken_for_one() -> None:
    others = [text for text in LINES if "Copy: " not in text]
    assert len(others) > 100
    assert [text for text in others if parse(text) is not None] == []


def test_a_hundred_percent_of_an_unknown_number_is_no_progress() -> None:
    found = parse(line(copied=500, total=0, percent="100.0", eta="due"))
    assert found is not None
    assert (found.status().total_rows, found.status().eta_s) == (0, None)


def test_the_lag_is_the_heartbeats_whatever_the_other_says() -> None:
    found = parse(line(heartbeat="93.20"))
    assert found is not None
    assert found.status().lag_s == 93.2
    assert (found.elapsed_s, found.copying_s) == (3723, 60)


@pytest.mark.parametrize(
    ("state", "by", "told", "ready"),
    [
        ("migrating", "", False, False),
        ("postponing cut-over", "", False, True),
        ("throttled, commanded by user", "", True, False),
        ("throttled, 127.0.0.1:3307 replica-lag=2.1s", "127.0.0.1:3307 replica-lag=2.1s", False, False),
        ("throttled, max-load Threads_running=4 >= 1", "max-load Threads_running=4 >= 1", False, False),
    ],
)
def test_who_makes_it_wait_is_told_apart(state: str, by: str, told: bool, ready: bool) -> None:
    found = parse(line(state=state))
    assert found is not None
    status = found.status()
    assert (status.throttled_by, status.told_to_wait, status.ready) == (by, told, ready)


def test_the_copy_on_stderr_reads_the_same_and_the_last_one_counts() -> None:
    assert parse(line() + " []") == parse(line())
    found = last_line(["# Done", line(copied=1), "noise", line(copied=7), "CREATE TABLE `x` ("])
    assert found is not None
    assert found.copied_rows == 7
