"""``rollout verify`` beside a walk: on a replica, under a check that holds, and over keys of any text."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from orchestrator.sandbox.pair import Pair
from tests.support.servers import connect, script, wait_caught_up
from tests.support.small import Small, small


@pytest.fixture(scope="module")
def walked(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Every row filled, and the mirror up."""
    with small(pair, tmp_path_factory.mktemp("verify")) as made:
        made.terminal.run("run", "--until", "shadow-write", "-y")
        yield made


def on(here: Small) -> str:
    return f"127.0.0.1:{here.pair.replica.port}"


def behind_its_back(here: Small, change: str) -> None:
    """A change on the replica alone."""
    script(
        here.pair.replica,
        f"SET SESSION sql_log_bin = 0; SET GLOBAL super_read_only = 0; {change}; SET GLOBAL super_read_only = 1",
        here.schema,
    )


def test_a_replica_that_holds_what_the_primary_holds_is_verified_there(walked: Small) -> None:
    told = walked.terminal.run("verify", "--on", on(walked), "--json").json
    assert (told["rows_table"], told["rows_compared"], told["mismatches"]) == (3, 3, 0)
    assert f"3 rows are on {on(walked)} as they are on the primary" in told["note"]


@pytest.mark.parametrize(
    ("change", "back", "classes"),
    [
        ("DELETE FROM orders WHERE id = 3", "REPLACE INTO orders VALUES (3, 'done', '', 'succeeded')",
         {"replica-lacks": ["3"]}),
        ("INSERT INTO orders VALUES (9, 'new', 'x', 'pending')", "DELETE FROM orders WHERE id = 9",
         {"replica-alone": ["9"]}),
        ("UPDATE orders SET note = 'grosse' WHERE id = 2", "UPDATE orders SET note = 'größe' WHERE id = 2",
         {"replica-differs": ["2"]}),
        ("UPDATE orders SET state = NULL WHERE id = 1", "UPDATE orders SET state = 'pending' WHERE id = 1",
         {"status ↔ state: missing": ["1"], "replica-differs": ["1"]}),
    ],
    ids=["lacks", "alone", "differs", "missing"],
)  # fmt: skip
def test_81_for_a_row_that_only_the_replica_has_otherwise(
    walked: Small, change: str, back: str, classes: dict[str, list[str]]
) -> None:
    wait_caught_up(walked.pair)
    if "state = NULL" in change:
        # The mirror stands on the replica, too, and would fill it again at once.
        change = f"{change.replace('NULL', chr(39) + 'x' + chr(39))}"
        classes = {"status ↔ state: stale": ["1"], "replica-differs": ["1"]}
    behind_its_back(walked, change)
    try:
        told = walked.terminal.run("verify", "--on", on(walked), "--json", expect=81).json
        assert walked.terminal.run("verify", "--json").json["mismatches"] == 0
    finally:
        behind_its_back(walked, back)
    assert told["samples"] == classes
    assert told["mismatches"] == len(classes)


def test_b138_a_replica_that_lags_is_held_and_not_called_wrong(walked: Small) -> None:
    """Verify on the primary, or wait for GTID first: a stopped replica must not report differences as data faults."""
    wait_caught_up(walked.pair)
    script(walked.pair.replica, "STOP REPLICA SQL_THREAD")
    try:
        walked.sql(f"UPDATE {walked.table} SET status = 'done' WHERE id = 1")
        told = walked.terminal.run("verify", "--on", on(walked), "--json", expect=75).json
        assert "lacks" in told["seen"]
        assert "no proof" in told["seen"]
        script(walked.pair.replica, "START REPLICA SQL_THREAD")
        assert walked.terminal.run("verify", "--on", on(walked), "--json").json["mismatches"] == 0
    finally:
        script(walked.pair.replica, "START REPLICA SQL_THREAD")
        walked.sql(f"UPDATE {walked.table} SET status = 'new' WHERE id = 1")


def test_2_for_a_replica_that_there_is_not(walked: Small) -> None:
    told = walked.terminal.run("verify", "--on", "127.0.0.1:1", "--json", expect=2).json
    assert on(walked) in told["expected"]


def test_b136_75_when_a_check_holds_for_too_long_and_what_was_not_compared_never_passes(walked: Small) -> None:
    """Anything skipped is not PASS."""
    path = walked.write(("{max_wait: 1s}", "{max_wait: 1s, threads_running: {max: 1}}"), name="busy.yaml")
    with closing(connect(walked.pair.primary)) as busy, closing(connect(walked.pair.primary)) as ender:
        slept = threading.Thread(target=lambda: busy.cursor().execute("SELECT SLEEP(60)"))
        slept.start()
        told = walked.operator(ROLLOUT_RUNBOOK=str(path)).run("verify", "--json", expect=75).json
        ender.cursor().execute(f"KILL QUERY {busy.thread_id()}")
        slept.join()
    assert "did not reach the end" in told["seen"]
    assert "threads-running" in told["seen"]
