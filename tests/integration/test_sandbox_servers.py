"""The throwaway pair: really replicating, durable, found again by another process, and gone when it should be."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.sandbox.pair import STATE_FILE, Pair, free_ports, load, start_pair
from orchestrator.sandbox.places import SandboxError
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import APPLICATION, copy_template
from tests.support.servers import guarded_pair, script, sql, wait_caught_up, wait_for

pytestmark = pytest.mark.integration


def test_replica_applies_what_the_primary_commits(pair: Pair, schema: str) -> None:
    script(
        pair.primary, f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, v TEXT); INSERT INTO {schema}.t VALUES (1, 'ß;猫')"
    )
    wait_caught_up(pair)
    assert sql(pair.replica, f"SELECT v FROM {schema}.t") == [("ß;猫",)]


def test_settings_are_those_of_production(pair: Pair) -> None:
    names = (
        "gtid_mode, binlog_format, binlog_row_image, sync_binlog, innodb_flush_log_at_trx_commit, performance_schema"
    )
    columns = ", ".join(f"@@GLOBAL.{name.strip()}" for name in names.split(","))
    for server in (pair.primary, pair.replica):
        assert sql(server, f"SELECT {columns}") == [("ON", "ROW", "FULL", 1, 1, 1)]
    assert sql(pair.replica, "SELECT @@GLOBAL.replica_parallel_workers, @@GLOBAL.super_read_only") == [(4, 1)]
    identities = [sql(s, "SELECT @@server_uuid, @@server_id") for s in (pair.primary, pair.replica)]
    assert identities[0][0][0] != identities[1][0][0]
    assert identities[0][0][1] != identities[1][0][1]


def test_accounts_work_over_tcp_and_socket(pair: Pair) -> None:
    assert sql(pair.primary, "SELECT CURRENT_USER()", account=APPLICATION) == [("app@127.0.0.1",)]
    assert sql(pair.primary, "SELECT CURRENT_USER()", unix_socket=str(pair.primary.socket)) == [("rollout@localhost",)]


def test_listens_on_the_loopback_only(pair: Pair) -> None:
    assert sql(pair.primary, "SELECT @@bind_address, @@GLOBAL.port") == [("127.0.0.1", pair.primary.port)]


def test_a_running_sandbox_is_not_started_twice(pair: Pair) -> None:
    with pytest.raises(SandboxError) as caught:
        start_pair(pair.folder)
    assert "runs in" in caught.value.seen


def test_passwords_are_on_no_command_line(pair: Pair) -> None:
    for server in (pair.primary, pair.replica):
        assert b"password" not in Path(f"/proc/{server.pid}/cmdline").read_bytes().lower()
    assert not list(pair.folder.glob("*.sql"))


def test_crash_restart_and_stop_from_another_process() -> None:
    with guarded_pair() as pair:
        script(pair.primary, "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1)")
        crashed = pair.primary.pid
        pair.primary.kill9()
        assert not pair.primary.alive()
        pair.primary.restart()
        assert pair.primary.pid != crashed
        script(pair.primary, "INSERT INTO d.t VALUES (2)")
        wait_caught_up(pair)
        assert sql(pair.replica, "SELECT COUNT(*) FROM d.t") == [(2,)], "replication goes on by itself"
        again = load(pair.folder)
        assert (again.primary.pid, again.replica.pid) == (pair.primary.pid, pair.replica.pid)
        code = (
            "import sys, pathlib; from orchestrator.sandbox.pair import load; load(pathlib.Path(sys.argv[1])).stop(0)"
        )
        subprocess.run([sys.executable, "-c", code, str(pair.folder)], check=True, timeout=60)
        assert not pair.alive()
        started = start_pair(pair.folder)
        assert started.primary.port == pair.primary.port
        assert sql(started.replica, "SELECT COUNT(*) FROM d.t") == [(2,)]
    assert not started.alive()
    assert not pair.folder.exists()


def test_servers_end_when_pytest_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib\n"
        "from tests.support.servers import guarded_pair\n"
        "with guarded_pair() as pair:\n"
        "    pathlib.Path(sys.argv[1]).write_text(str(pair.folder))\n"
        "    time.sleep(120)\n"
    )
    told = tmp_path / "folder"
    child = subprocess.Popen([sys.executable, "-c", code, str(told)])
    try:
        folder = Path(wait_for(lambda: told.exists() and told.read_text(), deadline_s=60))
        pair = load(folder)
        assert pair.alive()
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    wait_for(lambda: not pair.alive() and not folder.exists(), what="servers and folder are gone")


def test_long_paths_get_a_short_socket_folder(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 100)
    pair = start_pair(folder)
    try:
        assert pair.socket_folder is not None
        assert len(os.fsencode(pair.primary.socket)) < 108
        assert sql(pair.primary, "SELECT 1", unix_socket=str(pair.primary.socket)) == [(1,)]
    finally:
        pair.remove()
    assert not pair.socket_folder.exists()
    assert not folder.exists()


def test_a_taken_port_is_an_error_and_leaves_nothing(pair: Pair, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with pytest.raises(SandboxError) as caught:
        start_pair(folder, port=pair.primary.port)
    assert "Bind on TCP/IP port" in caught.value.seen
    assert not folder.exists()
    assert pair.alive()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="could not be made"):
        copy_template(tmp_path / "missing", tmp_path / "primary")
    assert list(tmp_path.iterdir()) == []


def test_a_pid_that_is_another_program_is_never_ended(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / "primary.pid").write_text(f"{other.pid}\n")
        known = {"port": free_ports(), "socket": "none", "argv": []}
        state = {"format": 1, "primary": known, "replica": known, "socket_folder": None}
        (tmp_path / STATE_FILE).write_text(json.dumps(state))
        pair = load(tmp_path)
        assert not pair.alive()
        pair.stop(0)
        time.sleep(0.1)
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    server = Server("primary", "127.0.0.1", 1, tmp_path / "none.sock", tmp_path / "primary", 0, ("false",))
    server.start()
    with pytest.raises(SandboxError) as caught:
        server.wait_ready(10)
    assert "ended while it started" in caught.value.seen


@pytest.mark.parametrize("text", [None, "{", '{"format": 99}'])
def test_a_folder_without_a_usable_state_is_an_error(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / STATE_FILE).write_text(text)
    with pytest.raises(SandboxError):
        load(tmp_path)
