"""What other tools did to the people who ran them (cases B94 to B124), each told of the installed command."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import PhaseFailed
from orchestrator.mysql.clock import SystemClock
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.store.mysql import MysqlStore
from tests.support.command import ROLLOUT, Terminal
from tests.support.servers import script, sql, wait_caught_up
from tests.support.small import Small, small
from tests.support.state import settings_of
from tests.support.within import opened

pytestmark = pytest.mark.integration


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


def flags(here: Small) -> list[tuple[int, ...]]:
    """new_writes and percent of readers in the flag row."""
    return here.sql("SELECT new_writes, read_percent FROM _rollout.flag")


def test_b94_readers_do_not_move_while_a_replica_lacks_what_they_need_there(here: Small) -> None:
    """REFUSE, saying which replica; on it goes when the replica has it."""
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        for phase in ("ddl", "backfill", "shadow-write"):
            app.commands.next(phase)
        script(here.pair.replica, "STOP REPLICA SQL_THREAD")
        try:
            here.sql(f"UPDATE {here.table} SET status = 'done' WHERE id = 1")
            with pytest.raises(PhaseFailed, match=f":{here.pair.replica.port}: SQL thread stopped"):
                app.commands.next("read-switch")
            assert sum(n for row in flags(here) for n in row) == 0
        finally:
            script(here.pair.replica, "START REPLICA")
        wait_caught_up(here.pair)
        app.commands.next("read-switch")
    assert flags(here) == [(1, 100)]


def test_b114_a_reader_that_went_away_stops_no_stage_half_way(here: Small) -> None:
    """``rollout run | head -1``: printing is over, what was done is kept, and the same command goes on."""
    reading, writing = os.pipe()
    running = subprocess.Popen(
        [ROLLOUT, "run", "-y"],
        env=here.terminal.environment,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    first = os.read(reading, 4096).decode()
    os.close(reading)
    _, err = running.communicate(timeout=60)
    assert first.startswith("orders-state  ddl  done")
    assert "Traceback" not in err
    status = here.terminal.run("status", "--json").json
    assert status["done"][0] == "ddl"
    assert status["state"] in ("done", "paused")
    here.terminal.run("run", "-y")
    assert here.terminal.run("status", "--json").json["done"][-1] == "verify"


def test_b115_metrics_take_a_free_port_and_give_it_back_at_once(here: Small) -> None:
    """The exporter is a command of its own: a port that is taken stops no rollout, and is said (exit 2)."""

    def scraped(*port: str) -> str:
        exporter = here.terminal.start("metrics", *port)
        try:
            assert exporter.stdout is not None
            address = exporter.stdout.readline().strip()
            taken = address.rsplit(":", 1)[1].split("/")[0]
            second = here.terminal.run("metrics", "--port", taken, expect=2)
            assert f"127.0.0.1:{taken} cannot be listened on" in second.err
            with urllib.request.urlopen(address, timeout=10) as answer:
                assert b"rollout_up 1.0" in answer.read()
            return taken
        finally:
            exporter.send_signal(signal.SIGTERM)
            exporter.communicate(timeout=20)

    taken = scraped("--port", "0")
    assert scraped("--port", taken) == taken


def test_b117_each_kind_of_fault_has_its_exit_code_and_none_a_traceback(here: Small, tmp_path: Path) -> None:
    secret = "marked-Secret-9143"
    bad = tmp_path / "bad.yaml"
    bad.write_text("apiVersion: rollout/v1\nname: [\n")
    here.terminal.run("run", "--until", "shadow-write", "-y")
    here.sql(f"UPDATE {here.table} SET status = 'nobody mapped this' WHERE id = 1")
    wrong: tuple[tuple[tuple[str, ...], int, dict[str, str]], ...] = (
        (("status",), 69, {"ROLLOUT_PASSWORD": secret}),
        (("status",), 69, {"ROLLOUT_PORT": "1", "ROLLOUT_PASSWORD": secret}),
        (("-f", str(bad), "plan"), 65, {}),
        (("verify",), 81, {}),
        (("next", "--phase", "backwards"), 2, {}),
    )
    for arguments, code, more in wrong:
        told = Terminal(here.pair.primary, here.terminal.runbook, more).run(*arguments, expect=code)
        assert told.err.strip() or code == 81, arguments
        for word in ("Traceback", secret, "locals", "orchestrator/"):
            assert word not in told.err + told.out, (arguments, word)


def test_b119_what_was_wrong_stays_wrong_until_it_was_mended_and_all_was_compared_again(here: Small) -> None:
    """Nothing starts behind the failed place, and readers move only after a full clean pass."""
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        for phase in ("ddl", "backfill", "shadow-write", "read-switch"):
            app.commands.next(phase)
        here.sql(f"UPDATE {here.table} SET status = 'nobody mapped this' WHERE id = 1")
        with pytest.raises(PhaseFailed, match="1 of 3 rows are wrong"):
            app.commands.next("verify")
        assert flags(here) == [(0, 0)]
        for _ in range(2):
            assert app.compare().figures["mismatches"] == 1
            with pytest.raises(PhaseFailed, match="1 of 3 rows are wrong"):
                app.commands.next("read-switch")
        assert flags(here) == [(0, 0)]
        here.sql(f"UPDATE {here.table} SET status = 'done' WHERE id = 1")
        for phase in ("read-switch", "verify"):
            app.commands.next(phase)
    assert flags(here) == [(1, 100)]


def test_b123_a_record_that_is_not_whole_is_refused_and_nothing_begins_anew(here: Small) -> None:
    """No local file holds state; what can be half is the record in the server, after somebody's repair or restore."""
    here.terminal.run("next", "-y")
    here.sql("UPDATE _rollout.rollout SET record = LEFT(record, FLOOR(LENGTH(record) / 2))")
    before = here.sql("SELECT revision, record FROM _rollout.rollout")
    for arguments in (("status",), ("next", "-y")):
        told = here.terminal.run(*arguments, expect=78)
        assert "the stored state cannot be read" in told.err
        assert "Traceback" not in told.err
    assert here.sql("SELECT revision, record FROM _rollout.rollout") == before


def test_b124_the_same_server_under_another_name_is_the_same_rollout(here: Small) -> None:
    """By TCP, by the socket, by another name of the machine: one may act. By the replica's port: refused."""
    here.terminal.run("next", "-y")
    with MysqlStore(settings_of(here.pair.primary), SystemClock()).lease("orders-state", "kim@ops-1"):
        ways: list[dict[str, str]] = [{"ROLLOUT_HOST": "localhost"}, {"ROLLOUT_SOCKET": str(here.pair.primary.socket)}]
        for more in ({}, *ways):
            began = time.monotonic()
            told = Terminal(here.pair.primary, here.terminal.runbook, more).run("next", "-y", "--json", expect=75).json
            assert (told["error"], "kim@ops-1" in told["seen"]) == ("lease-taken", True)
            assert time.monotonic() - began < 10, "at once"
        elsewhere = Terminal(here.pair.replica, here.terminal.runbook).run("next", "-y", expect=78)
    assert "this is server" in elsewhere.err
    assert "orders-state began on" in elsewhere.err
    assert sql(here.pair.primary, "SELECT owner FROM _rollout.lease") == [(None,)]
