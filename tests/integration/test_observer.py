"""The observer brings what is there, and says of everything else why it cannot be seen and what would show it."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import fields, replace

import orchestrator.mysql.observer as observer_module
from orchestrator.checks import all_checks
from orchestrator.checks.mirror_intact import MirrorIntact
from orchestrator.checks.writable_primary import WritablePrimary
from orchestrator.errors import ServerUnreachable
from orchestrator.model.contract import ForeignKey, TableName, ValueMap
from orchestrator.model.facts import BlockerKind, Facts, Need, Presence, Reading
from orchestrator.model.runbook import DiskSource, Limits, ReplicaPolicy
from orchestrator.model.state import Record
from orchestrator.model.verdict import Judgement
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.look.size import file_name
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.relation import load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.mirror import create_trigger, trigger_name
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import APPLICATION
from tests.support.looking import ROLLOUT, TABLE, observing, runbook, settings, small_account
from tests.support.servers import connect, script, sql, wait_caught_up, wait_for
from tests.support.shapes import live_shape

CHEAP = frozenset(Need) - {Need.VALUES, Need.DRIFT, Need.METER}
EXPAND = "ALTER TABLE t ADD COLUMN state VARCHAR(32)"


@pytest.fixture
def table(pair: Pair, schema: str) -> str:
    """The schema, with the table of the runbook in it."""
    script(pair.primary, TABLE, schema)
    wait_caught_up(pair)
    return schema


@pytest.fixture
def observer(primary: Server, table: str) -> Iterator[MysqlObserver]:
    with observing(primary, runbook(table)) as opened:
        yield opened


def readings(facts: Facts) -> dict[str, Reading[object]]:
    """Every reading that was asked for, by its name."""
    found = {f.name: getattr(facts, f.name) for f in fields(facts)}
    return {name: reading for name, reading in found.items() if isinstance(reading, Reading)}


def named(needs: frozenset[Need]) -> set[str]:
    return {n.value.replace("-", "_") for n in needs}


def test_everything_that_is_asked_for_is_brought_and_nothing_else(observer: MysqlObserver) -> None:
    brought = readings(observer.look(CHEAP))
    assert set(brought) == named(CHEAP)
    assert {n: r.unseen for n, r in brought.items() if not r.seen} == {}
    assert set(readings(observer.look(frozenset({Need.LOAD})))) == {"load"}


def test_a_look_at_everything_writes_nothing(observer: MysqlObserver, primary: Server, table: str) -> None:
    script(primary, EXPAND, table)
    before = sql(primary, "SELECT @@GLOBAL.gtid_executed")
    brought = readings(observer.look(frozenset(Need)))
    assert {n: r.unseen for n, r in brought.items() if not r.seen} == {}
    assert sql(primary, "SELECT @@GLOBAL.gtid_executed") == before


def test_a_reading_bears_the_time_at_which_it_was_taken(observer: MysqlObserver) -> None:
    before = time.monotonic()
    first = observer.look(frozenset({Need.LOAD})).load
    assert first is not None
    assert before <= first.at <= time.monotonic()
    second = observer.look(frozenset({Need.LOAD})).load
    assert second is not None
    assert second.at > first.at


def test_every_check_passes_on_a_healthy_pair_before_the_first_step(
    observer: MysqlObserver, primary: Server, table: str
) -> None:
    facts = observer.look(CHEAP)
    verdicts = {c.name: c.judge(facts, Limits(), time.monotonic()) for c in all_checks(runbook(table))}
    assert {name: v.reason for name, v in verdicts.items() if not v.good} == {}


def test_a_holder_is_named_and_a_long_transaction_has_its_age(
    observer: MysqlObserver, primary: Server, table: str
) -> None:
    holder = connect(primary, APPLICATION, table, autocommit=False)
    try:
        with holder.cursor() as cursor:
            cursor.execute("UPDATE t SET status = 'done' WHERE id = 1")
        began = time.monotonic()

        def seen_old() -> bool:
            facts = observer.look(frozenset({Need.TRANSACTIONS}))
            assert facts.transactions is not None
            mine = [t for t in facts.transactions.value or () if t.user == APPLICATION.user]
            return bool(mine) and mine[0].age_s > 0.5

        wait_for(seen_old)
        facts = observer.look(frozenset({Need.LOCKS, Need.TRANSACTIONS}))
        assert facts.locks is not None
        assert facts.transactions is not None
        (lock,) = facts.locks.value or ()
        assert (lock.user, lock.table, lock.kind) == (APPLICATION.user, f"{table}.t", BlockerKind.TRANSACTION)
        (transaction,) = facts.transactions.value or ()
        assert transaction.rows_modified == 1
        assert "UPDATE t" in transaction.statement
        assert transaction.age_s <= time.monotonic() - began + 1.0
    finally:
        holder.close()


def test_a_lock_on_a_parent_of_a_new_foreign_key_is_seen(primary: Server, table: str) -> None:
    script(primary, "CREATE TABLE parent (id INT PRIMARY KEY)", table)
    of = runbook(table)
    key = ForeignKey("fk", ("id",), TableName(table, "parent"), ("id",))
    holder = connect(primary, APPLICATION, table, autocommit=False)
    try:
        with holder.cursor() as cursor:
            cursor.execute("SELECT * FROM parent")
        with observing(primary, replace(of, contract=replace(of.contract, foreign_keys=(key,)))) as observer:
            facts = observer.look(frozenset({Need.LOCKS}))
        assert facts.locks is not None
        assert [h.table for h in facts.locks.value or ()] == [f"{table}.parent"]
    finally:
        holder.close()


def test_a_small_account_sees_what_it_may_and_is_told_the_grant_for_the_rest(primary: Server, table: str) -> None:
    with (
        small_account(primary, "small", f"GRANT SELECT ON {table}.* TO {{who}}") as account,
        observing(primary, runbook(table), account) as observer,
    ):
        brought = readings(observer.look(CHEAP))
    seen = {n for n, r in brought.items() if r.seen}
    assert {"server", "shape", "load", "privileges", "size", "disk"} <= seen
    blind = {n: r for n, r in brought.items() if not r.seen}
    by_privilege = {"locks", "transactions", "replicas", "replica_locks", "row_versions", "readers"}
    assert set(blind) == by_privilege | {"mirror", "flag", "positions"}
    assert all(r.value is None for r in blind.values()), "nothing is made up"
    who = "`small`@`127.0.0.1`"
    assert blind["replicas"].grant == f"GRANT REPLICATION SLAVE ON *.* TO {who};"
    assert blind["locks"].grant == f"GRANT SELECT ON performance_schema.* TO {who};"
    assert blind["row_versions"].grant == f"GRANT PROCESS ON *.* TO {who};"
    assert blind["mirror"].grant == f"GRANT TRIGGER ON `{table}`.`t` TO {who};"
    assert blind["flag"].grant == f"GRANT SELECT ON `\\_rollout`.* TO {who};"
    facts = Facts(**brought)  # type: ignore[arg-type]  # the names are those of the fields
    verdicts = {c.name: c.judge(facts, Limits(), time.monotonic()) for c in all_checks(runbook(table))}
    assert verdicts["metadata-locks"].judgement is Judgement.UNSEEN
    assert verdicts["history-list"].judgement is Judgement.UNSEEN
    assert verdicts["writable-primary"].judgement is Judgement.UNSEEN
    assert verdicts["privileges"].judgement is Judgement.REFUSE


def test_the_grants_that_are_named_are_all_that_is_needed(pair: Pair, table: str) -> None:
    primary = pair.primary
    of = replace(runbook(table), replicas=ReplicaPolicy("list", (f"{pair.replica.host}:{pair.replica.port}",)))
    with small_account(primary, "grows", "GRANT USAGE ON *.* TO {who}") as account:
        with observing(primary, of, account) as observer:
            missing = observer.look(frozenset({Need.PRIVILEGES})).privileges
        assert missing is not None
        assert missing.value
        grants = [m.grant for m in missing.value if m.privilege != "log_bin_trust_function_creators"]
        script(primary, "CREATE DATABASE _rollout; " + " ".join(grants))
        wait_caught_up(pair)
        with observing(primary, of, account) as observer:
            brought = readings(observer.look(CHEAP))
        assert {n: r.unseen for n, r in brought.items() if not r.seen} == {}
        replicas = brought["replica_locks"].value
        assert isinstance(replicas, tuple)
        assert replicas[0].problem == ""
        rest = brought["privileges"].value
        assert isinstance(rest, tuple)
        assert {m.privilege for m in rest} <= {"log_bin_trust_function_creators"}
        script(primary, "DROP DATABASE _rollout")


def test_the_trigger_setting_is_asked_for_only_when_it_is_off(primary: Server, table: str) -> None:
    ((was,),) = sql(primary, "SELECT @@GLOBAL.log_bin_trust_function_creators")
    everything = "GRANT SELECT, ALTER, UPDATE, TRIGGER ON *.* TO {who}"
    with (
        small_account(primary, "nosuper", everything) as account,
        observing(primary, runbook(table), account) as observer,
    ):
        asked = {}
        for setting in (0, 1):
            script(primary, f"SET GLOBAL log_bin_trust_function_creators = {setting}")
            missing = observer.look(frozenset({Need.PRIVILEGES})).privileges
            assert missing is not None
            asked[setting] = "log_bin_trust_function_creators" in {m.privilege for m in missing.value or ()}
        script(primary, f"SET GLOBAL log_bin_trust_function_creators = {was}")
    assert asked == {0: True, 1: False}


def test_a_child_in_a_schema_that_is_hidden_is_named(primary: Server, table: str) -> None:
    hidden = f"{table}_h"
    script(
        primary,
        f"CREATE DATABASE {hidden}; CREATE TABLE {hidden}.child (id INT PRIMARY KEY,"
        f" FOREIGN KEY (id) REFERENCES {table}.t (id))",
    )
    try:
        with (
            small_account(
                primary, "half", f"GRANT SELECT ON {table}.* TO {{who}}; GRANT PROCESS ON *.* TO {{who}}"
            ) as a,
            observing(primary, runbook(table), a) as observer,
        ):
            facts = observer.look(frozenset({Need.PRIVILEGES, Need.SHAPE}))
        assert facts.shape is not None
        assert facts.shape.value is not None
        assert facts.shape.value.referenced_by == (), "the server hides it without a word"
        assert facts.privileges is not None
        grants = [m.grant for m in facts.privileges.value or ()]
        assert f"GRANT SELECT ON `{hidden}`.`child` TO `half`@`127.0.0.1`;" in grants
    finally:
        script(primary, f"DROP DATABASE {hidden}")


def test_a_table_that_is_missing_is_told_from_one_that_is_hidden(primary: Server, table: str) -> None:
    with observing(primary, runbook(table, "nothing")) as observer:
        shape = observer.look(frozenset({Need.SHAPE, Need.LOCKS})).shape
    assert shape is not None
    assert shape.seen
    assert shape.value is None
    with (
        small_account(primary, "outsider", "GRANT USAGE ON *.* TO {who}") as account,
        observing(primary, runbook(table), account) as observer,
    ):
        shape = observer.look(frozenset({Need.SHAPE})).shape
    assert shape is not None
    assert not shape.seen
    assert shape.grant == f"GRANT SELECT ON `{table}`.`t` TO `outsider`@`127.0.0.1`;"


def test_a_session_that_was_killed_is_opened_again_within_the_look(observer: MysqlObserver, primary: Server) -> None:
    observer.look(frozenset({Need.LOAD}))
    for (id,) in sql(
        primary,
        "SELECT PROCESSLIST_ID FROM performance_schema.session_connect_attrs"
        " WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE LIKE 'rollout observer %'",
    ):
        script(primary, f"KILL {id}")
    brought = readings(observer.look(frozenset({Need.LOAD, Need.SERVER})))
    assert {n: r.unseen for n, r in brought.items() if not r.seen} == {}


def test_a_server_that_is_gone_makes_readings_unseen_and_raises_nothing(primary: Server, table: str) -> None:
    nowhere = replace(settings(primary), port=1)
    observer = MysqlObserver(Site(nowhere, runbook(table), SystemClock()))
    brought = readings(observer.look(frozenset(Need)))
    assert set(brought) == named(frozenset(Need))
    assert not any(r.seen for r in brought.values())


def test_no_session_is_left_after_close(primary: Server, table: str, pair: Pair) -> None:
    roles = ("rollout observer", "rollout scan", "rollout replica")

    def sessions() -> int:
        question = (
            "SELECT COUNT(*) FROM performance_schema.session_connect_attrs"
            " WHERE ATTR_NAME = 'program_name' AND SUBSTRING_INDEX(ATTR_VALUE, ' ', 2) IN %s"
        )
        return sum(int(sql(s, question, (roles,))[0][0]) for s in (pair.primary, pair.replica))

    wait_for(lambda: sessions() == 0)
    script(primary, EXPAND, table)
    with observing(primary, runbook(table)) as observer:
        observer.look(frozenset(Need))
        observer.look(frozenset(Need))
        assert sessions() == 3
    wait_for(lambda: sessions() == 0)


def test_the_mirror_is_absent_present_changed_or_overtaken(
    observer: MysqlObserver, primary: Server, table: str
) -> None:
    def mirror() -> tuple[Presence, Presence, str]:
        reading = observer.look(frozenset({Need.MIRROR})).mirror
        assert reading is not None
        assert reading.value is not None, reading.unseen
        (_, update), (_, insert) = reading.value.parts
        return update, insert, reading.value.problem

    assert mirror() == (Presence.ABSENT, Presence.ABSENT, "")
    script(primary, EXPAND, table)
    assert mirror() == (Presence.ABSENT, Presence.ABSENT, "")
    of = TableName(table, "t")
    session = Session(settings(primary))
    shape = live_shape(session, of)
    relation = load_relation(session, runbook(table).contract, shape)
    session.pin("sql_mode", "")
    names = {event: trigger_name(ROLLOUT, event) for event in ("update", "insert")}
    session.execute(create_trigger(relation, of, "update", names["update"], "/* x */"))
    assert mirror() == (Presence.PRESENT, Presence.ABSENT, "")
    session.execute(create_trigger(relation, of, "insert", names["insert"], "/* x */"))
    assert mirror() == (Presence.PRESENT, Presence.PRESENT, "")
    script(primary, "CREATE TRIGGER later BEFORE UPDATE ON t FOR EACH ROW SET NEW.status = 'new'", table)
    assert (mirror()[0], "later runs after ours" in mirror()[2]) == (Presence.CHANGED, True)
    script(primary, f"DROP TRIGGER later; DROP TRIGGER `{names['update']}`", table)
    script(primary, f"CREATE TRIGGER `{names['update']}` BEFORE UPDATE ON t FOR EACH ROW SET NEW.state = 'x'", table)
    assert mirror() == (Presence.CHANGED, Presence.PRESENT, "")
    script(primary, f"DROP TRIGGER `{names['update']}`", table)
    strict = create_trigger(relation, of, "update", names["update"], "")
    session.pin("sql_mode", "STRICT_TRANS_TABLES")
    session.execute(strict)
    assert mirror()[0] is Presence.CHANGED, "a strict body would raise"
    session.close()


def test_drift_values_and_meter_are_measured_by_the_relation_that_holds(primary: Server, table: str) -> None:
    script(
        primary, f"{EXPAND}; UPDATE t SET state = 'pending' WHERE id = 1; INSERT INTO t VALUES (3, 'odd', NULL)", table
    )
    with observing(primary, runbook(table)) as observer:
        facts = observer.look(frozenset({Need.DRIFT, Need.VALUES, Need.METER}))
    assert facts.drift is not None
    assert facts.drift.value is not None
    assert facts.drift.value.rows_compared == 3
    assert {(c.name, c.rows) for c in facts.drift.value.classes} == {("missing", 1), ("unmapped", 1)}
    assert facts.values is not None
    assert facts.values.value is not None
    assert [p.problem for p in facts.values.value.problems] == ["unmapped"]
    assert facts.meter is not None
    assert facts.meter.seen


def test_before_ddl_there_is_nothing_on_the_meter(observer: MysqlObserver) -> None:
    meter = observer.look(frozenset({Need.METER})).meter
    assert meter is not None
    assert meter.value is not None
    assert meter.value.rows == 0


def test_flag_and_positions_are_read_as_they_stand_and_absent_without_a_state_schema(
    observer: MysqlObserver, primary: Server
) -> None:
    needs = frozenset({Need.FLAG, Need.POSITIONS})
    facts = observer.look(needs)
    assert facts.flag is not None
    assert facts.flag.value is not None
    assert not facts.flag.value.exists
    assert facts.positions is not None
    assert facts.positions.value == ()
    script(
        primary,
        "CREATE DATABASE _rollout; CREATE TABLE _rollout.flag (rollout VARCHAR(64) PRIMARY KEY,"
        " new_writes TINYINT NOT NULL, read_percent INT NOT NULL, salt VARCHAR(64) NOT NULL,"
        " expires_at DATETIME(6) NOT NULL, epoch BIGINT NOT NULL, double_writes TINYINT NOT NULL);"
        f" INSERT INTO _rollout.flag VALUES ('{ROLLOUT}', 1, 25, 's', UTC_TIMESTAMP(6) + INTERVAL 60 SECOND, 7, 1)",
    )
    flag = observer.look(needs).flag
    assert flag is not None
    assert flag.value is not None
    assert (flag.value.effective_percent, flag.value.effective_new_writes, flag.value.epoch) == (25, True, 7)
    assert flag.value.expires_in_s is not None
    assert 50 < flag.value.expires_in_s <= 60
    assert flag.value.double_writes
    script(primary, "UPDATE _rollout.flag SET expires_at = UTC_TIMESTAMP(6)")
    flag = observer.look(needs).flag
    assert flag is not None
    assert flag.value is not None
    assert (flag.value.expired, flag.value.effective_percent) == (True, 0)
    script(primary, "UPDATE _rollout.flag SET expires_at = '9999-12-31'")
    flag = observer.look(needs).flag
    assert flag is not None
    assert flag.value is not None
    assert flag.value.expires_in_s is None
    assert not flag.value.expired


def disk_of(server: Server, schema: str, source: DiskSource) -> Reading[object]:
    with observing(server, runbook(schema, disk=source)) as observer:
        reading = observer.look(frozenset({Need.DISK})).disk
    assert reading is not None
    return reading


def test_free_disk_comes_from_the_file_system_from_a_command_or_not_at_all(
    primary: Server, schema: str, tmp_path: Path
) -> None:
    local = disk_of(primary, schema, DiskSource()).value
    assert local is not None
    assert getattr(local, "free_bytes") > 0  # noqa: B009  # the reading is typed as any
    prints = f"{shlex.quote(sys.executable)} -c 'print(12345)'"
    assert "free_bytes=12345" in str(disk_of(primary, schema, DiskSource("command", prints)).value)
    none = disk_of(primary, schema, DiskSource("none", "grows by itself"))
    assert none.seen
    assert "grows by itself" in str(none.value)


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("false", "ended with 1"),
        ("echo 12 GiB", "no whole number"),
        ("/no/such/command", "cannot be run"),
        ("echo 5; rm", "no whole number"),
        ("'", "cannot be run"),
        ("", "cannot be run"),
    ],
)
def test_a_disk_command_that_fails_is_unseen_and_is_no_shell(
    primary: Server, schema: str, command: str, why: str
) -> None:
    reading = disk_of(primary, schema, DiskSource("command", command))
    assert not reading.seen
    assert why in reading.unseen


def test_row_versions_are_counted_and_reset_by_a_rebuild_whatever_the_table_is_called(
    primary: Server, schema: str
) -> None:
    script(primary, "CREATE TABLE `my-table` (id INT PRIMARY KEY, status VARCHAR(20))", schema)
    with observing(primary, runbook(schema, "my-table")) as observer:

        def used() -> int:
            reading = observer.look(frozenset({Need.ROW_VERSIONS})).row_versions
            assert reading is not None
            assert reading.value is not None, reading.unseen
            return reading.value.used

        assert used() == 0
        for column in ("a", "b"):
            script(primary, f"ALTER TABLE `my-table` ADD COLUMN {column} INT, ALGORITHM=INSTANT", schema)
        assert used() == 2
        script(primary, "ALTER TABLE `my-table` FORCE", schema)
        assert used() == 0
    assert file_name("my-table") == "my@002dtable"


def test_row_versions_of_a_partitioned_table_are_the_worst_partitions(primary: Server, schema: str) -> None:
    script(
        primary,
        "CREATE TABLE t (id INT PRIMARY KEY, status VARCHAR(20)) PARTITION BY HASH (id) PARTITIONS 3;"
        " ALTER TABLE t ADD COLUMN a INT, ALGORITHM=INSTANT; CREATE TABLE t2 (id INT PRIMARY KEY)",
        schema,
    )
    with observing(primary, runbook(schema)) as observer:
        reading = observer.look(frozenset({Need.ROW_VERSIONS})).row_versions
    assert reading is not None
    assert reading.value is not None
    assert reading.value.used == 1


def test_a_read_only_server_and_a_replica_are_seen_as_such(pair: Pair, schema: str) -> None:
    with observing(pair.replica, runbook(schema)) as observer:
        server = observer.look(frozenset({Need.SERVER})).server
    assert server is not None
    assert server.value is not None
    assert server.value.is_replica is True
    ((was, super_was),) = sql(pair.replica, "SELECT @@GLOBAL.read_only, @@GLOBAL.super_read_only")
    script(pair.replica, "SET GLOBAL read_only = 1")
    try:
        with observing(pair.replica, runbook(schema)) as observer:
            server = observer.look(frozenset({Need.SERVER})).server
    finally:
        script(pair.replica, f"SET GLOBAL read_only = {was}; SET GLOBAL super_read_only = {super_was}")
    assert server is not None
    assert server.value is not None
    assert server.value.read_only


def test_locks_are_unseen_while_the_instrument_is_off(observer: MysqlObserver, primary: Server) -> None:
    switch = "UPDATE performance_schema.setup_instruments SET ENABLED = '{}' WHERE NAME = 'wait/lock/metadata/sql/mdl'"
    script(primary, switch.format("NO"))
    try:
        facts = observer.look(frozenset({Need.LOCKS, Need.SERVER}))
    finally:
        script(primary, switch.format("YES"))
    assert facts.locks is not None
    assert not facts.locks.seen
    assert facts.server is not None
    assert facts.server.value is not None
    assert facts.server.value.metadata_lock_instrument is False


def test_a_primary_that_does_not_answer_costs_one_wait_and_not_one_for_every_need(
    primary: Server, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer_module, "LOOK_TIMEOUT_S", 1.5)
    with observing(primary, runbook(table)) as observer:
        assert all(r.seen for r in readings(observer.look(CHEAP)).values())
        os.kill(primary.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            brought = readings(observer.look(CHEAP))
            took_s = time.monotonic() - began
        finally:
            os.kill(primary.pid, signal.SIGCONT)
        assert not any(r.seen for r in brought.values() if r.at > began)
        assert took_s < 3 * 1.5
        wait_for(lambda: all(r.seen for r in readings(observer.look(CHEAP)).values()))


def recorded(server_uuid: str, **changes: object) -> Record:
    record = Record(ROLLOUT, TableName("s", "t"), "", "", "", server_uuid)
    return replace(record, **changes)  # type: ignore[arg-type]  # the names are those of the fields


def test_a_server_that_is_not_the_one_of_the_record_is_seen_on_the_next_beat(primary: Server, table: str) -> None:
    records = iter([recorded(sql(primary, "SELECT @@server_uuid")[0][0]), recorded("another")])
    observer = MysqlObserver(Site(settings(primary), runbook(table), SystemClock()), lambda: next(records))
    check = WritablePrimary()
    before, after = (check.judge(observer.look(check.needs), Limits(), time.monotonic()) for _ in range(2))
    observer.close()
    assert before.good
    assert after.judgement is Judgement.REFUSE
    assert after.goes_back


def test_a_record_that_cannot_be_read_makes_nothing_good(primary: Server, table: str) -> None:
    def unreadable() -> Record:
        raise ServerUnreachable("gone", "a server", "look")

    script(primary, EXPAND, table)
    observer = MysqlObserver(Site(settings(primary), runbook(table), SystemClock()), unreadable)
    facts = observer.look(frozenset({Need.SERVER, Need.MIRROR, Need.DRIFT}))
    observer.close()
    verdicts = [c.judge(facts, Limits(), time.monotonic()) for c in (WritablePrimary(), MirrorIntact(runbook(table)))]
    assert not any(v.good for v in verdicts)
    assert facts.drift is not None
    assert not facts.drift.seen


@pytest.mark.parametrize(
    ("record", "due"),
    [
        (None, False),
        (recorded("u", done=("ddl", "backfill")), False),
        (recorded("u", phase="shadow-write", done_steps=("install-trigger:update",)), True),
        (recorded("u", phase="shadow-write", done_steps=(), mirror="triggers"), True),
        (recorded("u", done=("ddl", "backfill", "shadow-write")), True),
        (recorded("u", done=("ddl",)), False),
    ],
)
def test_the_mirror_is_due_from_the_moment_that_its_first_trigger_stands(record: Record | None, due: bool) -> None:
    assert (record is not None and record.mirror_due) is due


def test_drift_is_measured_by_correspondence_once_both_columns_are_written(primary: Server, table: str) -> None:
    back = ValueMap((("pending", "new"), ("locked", "new"), ("succeeded", "done")))
    of = runbook(table)
    mapping = replace(of.contract.mappings[0], backward=back)
    of = replace(of, contract=replace(of.contract, mappings=(mapping,)))
    script(primary, f"{EXPAND}; UPDATE t SET state = IF(id = 1, 'locked', 'succeeded')", table)
    counted = []
    for both_written in (False, True):
        record = recorded("u", both_written=both_written)
        observer = MysqlObserver(Site(settings(primary), of, SystemClock()), lambda r=record: r)  # type: ignore[misc]
        drift = observer.look(frozenset({Need.DRIFT})).drift
        observer.close()
        assert drift is not None
        assert drift.value is not None, drift.unseen
        counted.append(drift.value.mismatches)
    assert counted == [1, 0]
