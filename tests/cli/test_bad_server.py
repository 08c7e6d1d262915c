"""A server, account or state that a rollout cannot go on with ends with its own code, and nothing was begun."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from tests.support.command import Terminal
from tests.support.looking import small_account
from tests.support.servers import script, sql, wait_caught_up, wait_for
from tests.support.small import Small, small

EVERYTHING = {
    "table": "SELECT, ALTER, UPDATE, TRIGGER ON `{schema}`.* ",
    "state": "SELECT, INSERT, UPDATE, DELETE, CREATE ON `_rollout`.*",
    "scratch": (
        "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES, TRIGGER"
        r" ON `\_rollout\_scratch\_orders-state`.*"
    ),
    "seeing": "SELECT ON performance_schema.*",
    "server": "PROCESS, REPLICATION CLIENT, REPLICATION SLAVE, SUPER ON *.*",
}


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


@contextmanager
def set_globally(server: Server, name: str, value: str) -> Iterator[None]:
    """The server's variable is that inside, and what it was afterwards."""
    ((was,),) = sql(server, f"SELECT @@GLOBAL.{name}")
    script(server, f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        script(server, f"SET GLOBAL {name} = {was if isinstance(was, int) else repr(was)}")


def refused(here: Small, code: int, terminal: Terminal | None = None) -> str:
    """``next`` ends with that code; nothing is changed. All that it said, as one text."""
    terminal = terminal or here.terminal
    with here.unchanged():
        told = terminal.run("next", "-y", "--json", expect=code).json
    assert set(told) == {"error", "code", "seen", "expected", "next"}
    assert told["code"] == code
    return f"{told['seen']} | {told['expected']} | {told['next']}"


def test_69_for_a_server_that_does_not_answer_and_for_a_wrong_password(here: Small) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        text = refused(here, 69, here.operator(ROLLOUT_PORT=str(taken.getsockname()[1])))
    assert "--port" in text
    text = refused(here, 69, here.operator(ROLLOUT_PASSWORD="marked-Wrong-8832"))
    assert "refused user 'rollout'" in text
    assert "marked-Wrong-8832" not in text


@pytest.mark.parametrize(
    ("setting", "value", "parts"),
    [
        ("binlog_format", "'STATEMENT'", ("binlog_format is STATEMENT", "SET PERSIST binlog_format = 'ROW'")),
        ("read_only", "1", ("read_only on", "the writable primary")),
    ],
)
def test_78_for_a_server_that_is_set_otherwise(here: Small, setting: str, value: str, parts: tuple[str, ...]) -> None:
    with set_globally(here.pair.primary, setting, value):
        text = refused(here, 78)
        planned = here.terminal.run("plan", "--json", expect=78).json
    assert planned["code"] == 78
    assert planned["stages"], "the plan is shown all the same"
    for part in parts:
        assert part in text, text


def test_78_for_a_server_whose_metadata_locks_nobody_can_see(here: Small) -> None:
    turn = "UPDATE performance_schema.setup_instruments SET ENABLED = '{}' WHERE NAME = 'wait/lock/metadata/sql/mdl'"
    script(here.pair.primary, turn.format("NO"))
    try:
        text = refused(here, 78)
    finally:
        script(here.pair.primary, turn.format("YES"))
    assert "the metadata-lock instrument is off" in text
    assert "setup_instruments" in text


def test_78_for_a_target_that_is_itself_a_replica_writable_or_not(here: Small) -> None:
    replica = here.pair.replica
    there = Terminal(replica, here.terminal.runbook)
    assert "point rollout at" in refused(here, 78, there)
    with set_globally(replica, "super_read_only", "0"), set_globally(replica, "read_only", "0"):
        assert "is itself a replica, whose row events fire no trigger" in refused(here, 78, there)
    assert sql(replica, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_rollout'") == [(0,)]


def granted(here: Small, name: str, **without: str) -> str:
    """GRANT statements for everything that is needed, but for what is replaced."""
    rights = EVERYTHING | without
    return "; ".join(f"GRANT {r.format(schema=here.schema)} TO {{who}}" for r in rights.values() if r)


@pytest.mark.parametrize(
    ("missing", "without", "on"),
    [
        ("TRIGGER", {"table": "SELECT, ALTER, UPDATE ON `{schema}`.*"}, "`{schema}`.`orders`"),
        ("PROCESS", {"server": "REPLICATION CLIENT, REPLICATION SLAVE, SUPER ON *.*"}, "*.*"),
    ],
)
def test_77_for_a_missing_privilege_with_the_grant_that_is_enough(
    here: Small, missing: str, without: dict[str, str], on: str
) -> None:
    on = on.format(schema=here.schema)
    with small_account(here.pair.primary, "half", granted(here, "half", **without)) as account:
        terminal = here.operator(account)
        with here.unchanged():
            told = terminal.run("next", "-y", "--json", expect=77).json
            assert terminal.run("doctor", "--json", expect=77).json["missing"][0]["privilege"] == missing
            terminal.run("plan", "--json")
        grant = f"GRANT {missing} ON {on} TO `half`@`127.0.0.1`;"
        assert told["next"] == grant
        script(here.pair.primary, grant)
        wait_caught_up(here.pair)
        terminal.run("next", "-y")


def test_77_for_an_account_that_cannot_see_with_every_right_that_it_lacks(here: Small) -> None:
    """B139: what it cannot see is never taken for what is not there."""
    table = "SELECT, INSERT, UPDATE, ALTER, CREATE, DROP, INDEX ON `{schema}`.*"
    with small_account(here.pair.primary, "half_op", granted(here, "half_op", table=table, seeing="", server="")) as by:
        terminal = here.operator(by)
        with here.unchanged():
            said = terminal.run("next", "-y", "--json", expect=77).json
            missing = terminal.run("doctor", "--json", expect=77).json["missing"]
            checks = {c["name"]: c["verdict"] for c in terminal.run("plan", "--json").json["checks"]}
    rights = {m["privilege"] for m in missing}
    assert {"TRIGGER", "PROCESS", "REPLICATION CLIENT"} <= rights
    assert all(m["grant"] and m["why"] for m in missing)
    assert "GRANT TRIGGER" in said["next"]
    blind = ("metadata-locks", "long-transactions", "replica-health")
    assert [name for name in blind if checks[name] == "pass"] == []


def test_77_for_an_account_without_any_right_on_the_state_with_all_grants_at_once(here: Small) -> None:
    lacking = granted(here, "stateless", state="", table="SELECT, UPDATE, TRIGGER ON `{schema}`.*")
    with small_account(here.pair.primary, "stateless", lacking) as account:
        terminal = here.operator(account)
        with here.unchanged():
            told = terminal.run("next", "-y", "--json", expect=77).json
        alter, state, create = told["next"].splitlines()
        assert alter.startswith(f"GRANT ALTER ON `{here.schema}`.`orders` TO `stateless`@")
        assert state.startswith("GRANT SELECT, INSERT, UPDATE, DELETE ON `\\_rollout`.*")
        assert create.startswith("GRANT CREATE ON `\\_rollout`.*")
        script(here.pair.primary, told["next"])
        terminal.run("next", "-y")


def test_75_while_a_replica_is_out_of_reach_and_the_table_is_not_changed(here: Small) -> None:
    here.write(("checks: {max_wait: 1s}", "checks: {max_wait: 1s}\nreplicas: [127.0.0.1:1]"))
    before = here.seen()
    told = here.terminal.run("next", "-y", "--json", expect=75).json
    assert "127.0.0.1:1" in told["seen"]
    assert "out of reach" in told["seen"] or "no session with" in told["seen"]
    assert {k: v for k, v in here.seen().items() if k != "state"} == {k: v for k, v in before.items() if k != "state"}
    assert here.terminal.run("status", "--json").json["state"] == "held"
    checks = {c["name"]: c for c in here.terminal.run("check", "--json", expect=75).json["checks"]}
    assert checks["replica-health"]["verdict"] == "unseen"
    assert checks["server-kind"]["verdict"] == "pass"


def test_75_while_a_replica_that_was_found_stands_still_and_on_it_goes_when_it_runs(here: Small) -> None:
    replica = here.pair.replica
    script(replica, "STOP REPLICA SQL_THREAD")
    try:
        told = here.terminal.run("next", "-y", "--json", expect=75).json
        assert f"{replica.host}:{replica.port}" in told["seen"]
    finally:
        script(replica, "START REPLICA SQL_THREAD")
    wait_for(
        lambda: sql(
            replica, "SELECT COUNT(*) FROM performance_schema.replication_applier_status WHERE SERVICE_STATE = 'ON'"
        )[0][0]
    )
    here.terminal.run("next", "--phase", "ddl", "-y")


def test_78_for_a_state_that_a_newer_rollout_made_and_it_is_not_touched(here: Small) -> None:
    here.terminal.run("next", "-y")
    here.sql("INSERT INTO _rollout.migration VALUES (99, UTC_TIMESTAMP(6))")
    before, events = here.seen(), here.sql("SELECT * FROM _rollout.event ORDER BY revision")
    for verb in (("next", "-y"), ("status",), ("rollback", "-y"), ("plan",)):
        told = here.terminal.run(*verb, "--json", expect=78).json
        assert "has version 99" in told["seen"]
    assert here.seen() == before
    assert here.sql("SELECT * FROM _rollout.event ORDER BY revision") == events


def test_78_for_a_server_that_greets_as_mariadb(here: Small) -> None:
    """A stand-in that only greets: no such server is at hand, and the greeting is what decides."""
    greeting = (
        b"\x0a5.5.5-10.11.6-MariaDB\x00" + b"\x01\x00\x00\x00" + b"12345678\x00" + b"\xff\xf7\x08\x02\x00\xff\x81"
    )
    greeting += b"\x15" + bytes(10) + b"123456789012\x00mysql_native_password\x00"
    ok = b"\x00\x00\x00\x02\x00\x00\x00"

    def frame(number: int, payload: bytes) -> bytes:
        return len(payload).to_bytes(3, "little") + bytes([number]) + payload

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def serve() -> None:
            while True:
                try:
                    session, _ = listening.accept()
                except OSError:
                    return
                # A client that wanted TLS leaves here, and comes again without.
                with session, suppress(OSError):
                    session.sendall(frame(0, greeting))
                    session.recv(4096)
                    session.sendall(frame(2, ok))
                    session.recv(4096)
                    session.sendall(frame(1, ok))
                    session.recv(4096)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        stand_in = here.operator(ROLLOUT_PORT=str(listening.getsockname()[1]))
        text = refused(here, 78, stand_in)
        listening.shutdown(socket.SHUT_RDWR)
    assert "is MariaDB (10.11.6-MariaDB)" in text
