"""The fill driver on a real server: exactly once, fenced, never in the way, stopped before a wrong write."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

import pymysql
import pytest

from orchestrator.drivers.rows import FillDriver
from orchestrator.drivers.rows.passes import Halt
from orchestrator.errors import Fenced, ServerUnreachable
from orchestrator.model.contract import TableName
from orchestrator.model.keys import Key
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Seen, Signal, SignalKind
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import packets
from orchestrator.mysql.sql.packets import Move
from orchestrator.mysql.sql.positions import Fence, PassName
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import Account
from tests.support.log import general_log, said
from tests.support.orders import fill, make_orders, site
from tests.support.rows import (
    ROLLOUT,
    VISIT,
    ToldBeat,
    begin_rollout,
    fill_pass,
    paused_after,
    reader_of,
    take_over,
)
from tests.support.servers import connect, script, sql, wait_for
from tests.support.state import settings_of

COLUMNS = {1406: "state", 1264: "timeout_s", 1366: "timeout_s", 1048: "status"}
HELD = {
    "": "status varchar(20) is 4 bytes long, timeout_s int is 2 bytes long",
    "state": "it holds: status varchar(20) is 4 bytes long",
    "timeout_s": "timeout_ms bigint is NULL",
    "status": "state varchar(32) is NULL",
}
WAITING = "SELECT COUNT(*) FROM performance_schema.data_locks WHERE OBJECT_SCHEMA = %s AND LOCK_STATUS = 'WAITING'"
Answer = Callable[[int, Progress], Signal]


@pytest.fixture
def orders(primary: Server, schema: str) -> str:
    """1,000 expanded orders, and a rollout of epoch 1."""
    make_orders(primary, schema, 1000)
    begin_rollout(primary)
    return schema


def run(server: Server, schema: str, answer: Answer | None = None, **step: object) -> Outcome:
    return FillDriver(site(server, schema)).apply(fill(schema, **step), ToldBeat(answer=answer))  # type: ignore[arg-type]


def unfilled(server: Server, schema: str) -> int:
    ((rows,),) = sql(
        server,
        f"SELECT COUNT(*) FROM {schema}.orders WHERE NOT (state <=> ELT(FIELD(status, 'new', 'work', 'done', 'err'),"
        " 'pending', 'running', 'succeeded', 'failed') AND timeout_ms <=> timeout_s * 1000 AND kind <=> 'order'"
        " AND label <=> CONCAT(status, '-', id))",
    )
    return int(rows)


def _before_update(body: str) -> str:
    """The application's own trigger, which does ``body`` to the row 333."""
    return f"CREATE TRIGGER refuses BEFORE UPDATE ON orders FOR EACH ROW BEGIN IF NEW.id = 333 THEN {body}; END IF; END"


def position(server: Server, name: str = "backfill") -> tuple[object, ...]:
    rows = sql(
        server,
        "SELECT rows_done, rows_changed, rows_skipped, done FROM _rollout.position WHERE pass = %s",
        (name,),
    )
    return rows[0] if rows else ()


def test_every_row_is_filled_and_on_update_columns_stay_untouched(primary: Server, orders: str) -> None:
    outcome = run(primary, orders)
    assert outcome.result is Result.DONE
    assert unfilled(primary, orders) == 0
    assert sql(primary, f"SELECT DISTINCT changed_at FROM {orders}.orders WHERE changed_at <> '2025-01-01'") == []
    assert position(primary) == (1000, 1000, 0, 1)


def test_a_row_that_is_right_already_is_not_written(primary: Server, orders: str) -> None:
    run(primary, orders)
    script(primary, "DELETE FROM _rollout.position; UPDATE orders SET state = NULL WHERE id IN (3, 700)", orders)
    script(primary, "CREATE TABLE touched (id BIGINT)", orders)
    script(primary, "CREATE TRIGGER t AFTER UPDATE ON orders FOR EACH ROW INSERT INTO touched VALUES (NEW.id)", orders)
    assert run(primary, orders).figures["rows_changed"] == 2
    assert sql(primary, f"SELECT id FROM {orders}.touched ORDER BY id") == [(3,), (700,)]


@pytest.mark.parametrize("rows", [0, 1, 200, 201])
def test_the_ends_of_a_table_are_met(primary: Server, schema: str, rows: int) -> None:
    make_orders(primary, schema, rows)
    begin_rollout(primary)
    outcome = run(primary, schema)
    assert outcome.result is Result.DONE
    assert outcome.figures["rows_changed"] == rows
    assert unfilled(primary, schema) == 0


def test_the_range_is_fixed_at_the_start(primary: Server, orders: str) -> None:
    def insert(beats: int, _: Progress) -> Signal:
        sql(primary, f"INSERT INTO {orders}.orders (status) VALUES ('new'), ('done')")
        return GO

    outcome = run(primary, orders, insert, rows=50)
    assert outcome.result is Result.DONE
    assert position(primary)[0] == 1000
    assert sql(primary, f"SELECT COUNT(*) FROM {orders}.orders WHERE id > 1000 AND state IS NOT NULL") == [(0,)]


def test_a_paused_pass_goes_on_where_it_was(primary: Server, orders: str) -> None:
    driver, step = FillDriver(site(primary, orders)), fill(orders, rows=100)
    assert driver.observe(step, ToldBeat()) is Seen.ABSENT
    paused = run(primary, orders, lambda n, _: GO if n <= 4 else Signal(SignalKind.PAUSE, "asked"), rows=100)
    assert paused.result is Result.PAUSED
    assert position(primary)[0] == 400
    assert driver.observe(step, ToldBeat()) is Seen.PARTIAL
    assert run(primary, orders, rows=100).result is Result.DONE
    assert position(primary) == (1000, 1000, 0, 1)
    assert driver.observe(step, ToldBeat()) is Seen.PRESENT


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        (SignalKind.PAUSE, Result.PAUSED),
        (SignalKind.ABORT, Result.PAUSED),
        (SignalKind.STOP, Result.HELD),
        (SignalKind.BACK, Result.BACK),
    ],
)
def test_each_signal_ends_the_pass_in_its_own_way(
    primary: Server, orders: str, kind: SignalKind, result: Result
) -> None:
    outcome = run(primary, orders, lambda n, _: GO if n <= 2 else Signal(kind, "why"), rows=100)
    assert outcome.result is result
    assert "why" in outcome.note
    assert position(primary)[0] == 200


def test_a_hold_waits_writes_nothing_and_is_counted(primary: Server, orders: str) -> None:
    seen: list[tuple[object, ...]] = []

    def answer(beats: int, progress: Progress) -> Signal:
        if not 3 <= beats <= 8:
            return GO
        seen.append(position(primary))
        return Signal(SignalKind.HOLD, "replication-lag 7.2s > 5.0s on replica-2")

    beat = ToldBeat(answer=answer)
    outcome = FillDriver(site(primary, orders)).apply(fill(orders, rows=100), beat)
    assert outcome.result is Result.DONE
    assert len(set(seen)) == 1
    assert outcome.figures["throttled_s"] > 0
    assert "replica-2" in beat.seen[-1].throttled_by


def test_whoever_lost_the_lease_stops_and_changes_nothing(primary: Server, orders: str) -> None:
    def lose(beats: int, _: Progress) -> Signal:
        if beats == 3:
            take_over(primary, 2)
        return GO

    with pytest.raises(Fenced):
        run(primary, orders, lose, rows=100)
    assert unfilled(primary, orders) == 800
    assert position(primary)[0] == 200


def test_a_lease_that_was_lost_before_the_first_batch_begins_nothing(primary: Server, orders: str) -> None:
    take_over(primary, 2)
    with pytest.raises(Fenced):
        run(primary, orders)
    assert unfilled(primary, orders) == 1000
    assert position(primary) == ()


def test_the_next_holder_takes_over_a_position_that_an_older_epoch_left(primary: Server, orders: str) -> None:
    run(primary, orders, lambda n, _: GO if n <= 4 else Signal(SignalKind.PAUSE), rows=100)
    sql(primary, "UPDATE _rollout.rollout SET epoch = 7")
    outcome = FillDriver(site(primary, orders)).apply(fill(orders, rows=100), ToldBeat(epoch=7))
    assert outcome.result is Result.DONE
    assert unfilled(primary, orders) == 0


def test_locked_rows_are_left_without_waiting_and_swept_later(primary: Server, orders: str) -> None:
    with closing(connect(primary, database=orders, autocommit=False)) as application, application.cursor() as cursor:
        cursor.execute("SELECT id FROM orders WHERE id IN (5, 500) FOR UPDATE")
        began = time.monotonic()
        outcome = run(primary, orders)
        assert outcome.result is Result.DONE
        assert outcome.figures["rows_skipped"] == 2
        assert unfilled(primary, orders) == 2
        assert time.monotonic() - began < 30
        application.commit()
    swept = run(primary, orders, pass_name="sweep")
    assert swept.result is Result.DONE
    assert swept.figures["rows_changed"] == 2
    assert unfilled(primary, orders) == 0


def test_the_sweep_waits_for_locked_rows_one_by_one_and_not_by_whole_passes(primary: Server, orders: str) -> None:
    run(primary, orders)
    script(primary, "UPDATE orders SET state = NULL WHERE id IN (77, 500)", orders)
    with closing(connect(primary, database=orders, autocommit=False)) as application, application.cursor() as cursor:
        cursor.execute("SELECT id FROM orders WHERE id IN (77, 500) FOR UPDATE")

        def release(beats: int, progress: Progress) -> Signal:
            if progress.throttled_by.startswith("locked-rows 2"):
                application.commit()
            return GO

        outcome = run(primary, orders, release, pass_name="sweep")
    assert outcome.result is Result.DONE
    assert outcome.figures["passes"] == 2
    assert outcome.figures["rows_changed"] == 2
    assert unfilled(primary, orders) == 0
    assert position(primary, "sweep-1")[1:3] == (2, 0)


def test_the_application_waits_for_a_single_row_of_ours_no_longer_than_a_batch_takes(
    primary: Server, orders: str
) -> None:
    """While we wait for its row we hold nothing; an application that queues behind us gets the row at once."""
    with closing(connect(primary, database=orders, autocommit=False)) as first, first.cursor() as holds:
        holds.execute("SELECT id FROM orders WHERE id = 77 FOR UPDATE")
        waited: list[float] = []

        def second() -> None:
            with closing(connect(primary, database=orders)) as session, session.cursor() as cursor:
                wait_for(lambda: sql(primary, WAITING, (orders,))[0][0] >= 1)
                cursor.execute("UPDATE orders SET note = 'free' WHERE id = 78")
                waiting = threading.Timer(0.3, first.commit)
                waiting.start()
                began = time.monotonic()
                cursor.execute("UPDATE orders SET note = 'queued' WHERE id = 77")
                waited.append(time.monotonic() - began)
                waiting.join()

        queued = threading.Thread(target=second)
        queued.start()
        outcome = run(primary, orders, pass_name="sweep")
        queued.join()
    assert outcome.result is Result.DONE
    assert waited[0] < 0.3 + 0.5
    assert unfilled(primary, orders) == 0


def test_rows_that_stay_locked_hold_the_sweep_and_are_named(primary: Server, orders: str) -> None:
    with closing(connect(primary, database=orders, autocommit=False)) as application, application.cursor() as cursor:
        cursor.execute("UPDATE orders SET note = 'mine' WHERE id = 77")
        driver = FillDriver(site(primary, orders, max_wait_s=0.5))
        outcome = driver.apply(fill(orders, "sweep"), ToldBeat())
        assert outcome.result is Result.HELD
        assert "77" in outcome.note
        assert f"(id {application.thread_id()}," in outcome.note
    assert unfilled(primary, orders) == 1


def test_an_unmapped_value_stops_before_its_batch_is_written(primary: Server, orders: str) -> None:
    script(primary, "UPDATE orders SET status = 'Done\\t' WHERE id IN (450, 451)", orders)
    outcome = run(primary, orders, rows=100)
    assert outcome.result is Result.FAILED
    assert "status ↔ state: 2 rows hold" in outcome.note
    assert "0x446f6e6509" in outcome.note
    assert "450" in outcome.note
    assert outcome.evidence[0][:3] == ("unmapped", "status ↔ state", "2")
    assert position(primary)[0] == 400
    assert unfilled(primary, orders) == 600
    script(primary, "UPDATE orders SET status = 'done' WHERE id IN (450, 451)", orders)
    assert run(primary, orders).result is Result.DONE


POISONS = {
    3819: "ALTER TABLE orders ADD CONSTRAINT c CHECK (note <> 'secret' OR state IS NULL)",
    1644: _before_update("SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this one'"),
    1406: _before_update("SET NEW.state = REPEAT('x', 99)"),
    1264: _before_update("SET NEW.timeout_s = 4294967296"),
    1366: _before_update("SET NEW.timeout_s = 'secret'"),
    1048: _before_update("SET NEW.status = NULL"),
}


@pytest.mark.parametrize("number", POISONS)
def test_a_row_that_the_server_refuses_is_found_and_named_without_its_value(
    primary: Server, orders: str, number: int
) -> None:
    script(primary, f"UPDATE orders SET note = 'secret' WHERE id = 333; {POISONS[number]}", orders)
    before = sql(primary, f"SELECT * FROM {orders}.orders WHERE id > 300")
    outcome = run(primary, orders, rows=100)
    assert outcome.result is Result.FAILED
    assert outcome.evidence == (("poison", COLUMNS.get(number, ""), str(number), "333"),)
    assert f"key 333{', column ' if number in COLUMNS else ''}{COLUMNS.get(number, '')}: {number} " in outcome.note
    assert HELD[COLUMNS.get(number, "")] in outcome.note
    assert "secret" not in outcome.note
    assert position(primary) == (300, 300, 0, 0), "nothing is passed by"
    assert sql(primary, f"SELECT * FROM {orders}.orders WHERE id > 300") == before, "what was tried is rolled back"
    script(primary, "ALTER TABLE orders DROP CHECK c" if number == 3819 else "DROP TRIGGER refuses", orders)
    assert run(primary, orders, rows=100).result is Result.DONE
    assert unfilled(primary, orders) == 0


def test_a_full_disk_is_no_row_s_fault(primary: Server, orders: str) -> None:
    script(primary, _before_update("SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'full'"), orders)
    outcome = run(primary, orders, rows=100)
    assert outcome.result is Result.FAILED
    assert "the server refused the batch behind 300 up to 400: 1114 full" in outcome.note
    assert outcome.evidence == ()
    assert position(primary) == (300, 300, 0, 0)


def test_a_batch_that_the_binary_log_does_not_take_is_halved_and_the_position_kept(
    primary: Server, orders: str
) -> None:
    """Case B95. The average row says nothing of the rows that are wide."""
    ((most,),) = sql(primary, "SELECT @@GLOBAL.max_binlog_cache_size")
    wide = "UPDATE orders SET note = IF(id BETWEEN 400 AND 700, REPEAT('ä', 200), ''); ANALYZE TABLE orders"
    script(primary, wide, orders)
    try:
        script(primary, "SET GLOBAL max_binlog_cache_size = 65536")
        beat = ToldBeat()
        outcome = FillDriver(site(primary, orders)).apply(fill(orders, rows=1000), beat)
    finally:
        script(primary, f"SET GLOBAL max_binlog_cache_size = {most}")
    assert outcome.result is Result.DONE
    assert unfilled(primary, orders) == 0
    assert position(primary) == (1000, 1000, 0, 1)
    assert {p.batch_rows for p in beat.seen if p.done > 500} < set(range(100))


def test_a_server_that_turns_read_only_is_written_to_no_more(primary: Server, orders: str) -> None:
    """Case B91: read_only stops no privileged account, so it is asked for."""

    def demote(beats: int, _: Progress) -> Signal:
        if beats == 3:
            script(primary, "SET GLOBAL read_only = 1")
        return GO

    try:
        outcome = run(primary, orders, demote, rows=100)
    finally:
        script(primary, "SET GLOBAL read_only = 0")
    assert outcome.result is Result.FAILED
    assert "read-only" in outcome.note
    assert unfilled(primary, orders) == 800


def test_a_row_that_moves_behind_the_position_is_swept(primary: Server, orders: str) -> None:
    def move(beats: int, _: Progress) -> Signal:
        if beats == 6:
            script(
                primary,
                "UPDATE orders SET id = 2000000 - id WHERE id = 950; UPDATE orders SET id = 0 WHERE id = 999",
                orders,
            )
        return GO

    assert run(primary, orders, move, rows=100).result is Result.DONE
    assert unfilled(primary, orders) == 2
    assert run(primary, orders, pass_name="sweep").result is Result.DONE
    assert unfilled(primary, orders) == 0


def visits(server: Server, schema: str, rows: int) -> TableName:
    """A table whose ``v`` counts how often a row was written."""
    script(
        server,
        "CREATE TABLE visits (id INT PRIMARY KEY, v INT NOT NULL DEFAULT 0);"
        "INSERT INTO visits (id) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {rows}) SELECT i FROM n",
        schema,
    )
    begin_rollout(server)
    return TableName(schema, "visits")


@pytest.mark.parametrize(("epoch", "at"), [(1, None), (0, (20,)), (2, (20,)), (1, (30,)), (1, (10,))])
def test_a_packet_from_another_epoch_or_another_position_changes_nothing(
    primary: Server, schema: str, epoch: int, at: Key | None
) -> None:
    table = visits(primary, schema, 50)
    with closing(Session(settings_of(primary))) as session:
        with pytest.raises(Halt):
            fill_pass(session, table, ToldBeat(answer=paused_after(2)), rows=10).run()
        reader = reader_of(session, table, VISIT.counted)
        fence = Fence(PassName("_rollout", ROLLOUT, 1, "backfill"), epoch, at)
        late = packets.batch(reader.space, fence, Move((40,), 20, 20, last=False), VISIT.write, "/* late */")
        assert packets.moved(session.packet(late)).fenced
    assert sql(primary, f"SELECT SUM(v), MAX(v) FROM {schema}.visits") == [(20, 1)]
    assert position(primary) == (20, 20, 0, 0)


def test_connections_killed_at_any_moment_lose_no_row_and_double_none(primary: Server, schema: str) -> None:
    table = visits(primary, schema, 400)
    done = threading.Event()
    with closing(Session(settings_of(primary))) as session:
        killer = threading.Thread(target=_kill_on_and_on, args=(primary, done))
        killer.start()
        try:
            outcome = fill_pass(session, table, ToldBeat(), rows=10).run()
        finally:
            done.set()
            killer.join()
    assert outcome.done
    assert sql(primary, f"SELECT MIN(v), MAX(v), COUNT(*) FROM {schema}.visits") == [(1, 1, 400)]
    assert (outcome.rows_done, outcome.rows_changed) == (400, 400)


def _kill_on_and_on(server: Server, done: threading.Event) -> None:
    """Kills every session of ours at some moment after each thirty rows."""
    killed_at = 0
    with closing(connect(server)) as session, session.cursor() as cursor:
        while not done.wait(random.random() * 0.02):
            cursor.execute("SELECT COALESCE(SUM(rows_done), 0) FROM _rollout.position")
            ((rows,),) = cursor.fetchall()
            if rows < killed_at + 30:
                continue
            killed_at = int(rows)
            cursor.execute(
                "SELECT ID FROM performance_schema.processlist WHERE USER = 'rollout' AND ID <> CONNECTION_ID()"
            )
            for (id,) in cursor.fetchall():
                with suppress(pymysql.err.MySQLError):
                    cursor.execute(f"KILL {id}")


def test_a_frozen_process_delays_no_application_write_and_wakes_fenced(primary: Server, schema: str) -> None:
    make_orders(primary, schema, 4000)
    begin_rollout(primary)
    argv = [sys.executable, "-m", "tests.support.filler", str(primary.port), schema, "1"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: position(primary) and int(str(position(primary)[0])) > 100)
        os.kill(process.pid, signal.SIGSTOP)
        # The packet that was on its way ends by itself; from here on nothing of the process may hold anything.
        stood = wait_for(lambda: _standing(primary))
        with closing(connect(primary, database=schema)) as application, application.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
            cursor.execute("UPDATE orders SET note = 'application'")
        take_over(primary, 2)
        os.kill(process.pid, signal.SIGCONT)
        said, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert said.split() == ["began", "fenced"]
    assert position(primary)[0] == stood
    assert unfilled(primary, schema) == 4000 - int(str(stood))


def _standing(server: Server) -> object:
    """The rows that are done, once two looks 300 ms apart agree."""
    before = position(server)[0]
    end = time.monotonic() + 0.3
    wait_for(lambda: time.monotonic() > end)
    return before if position(server)[0] == before else None


@pytest.mark.parametrize(
    ("on_conflict", "status", "state"),
    [("new_wins", "err", "cancelled"), ("old_wins", "new", "pending")],
)
def test_a_decided_conflict_is_mended_and_what_corresponds_is_kept(
    primary: Server, orders: str, on_conflict: str, status: str, state: str
) -> None:
    run(primary, orders)
    script(
        primary,
        "UPDATE orders SET status = 'new', state = 'cancelled' WHERE id = 10;"
        "UPDATE orders SET status = 'work', state = 'locked', label = CONCAT(status, '-', id) WHERE id = 11;"
        "UPDATE orders SET timeout_s = 2, timeout_ms = 1500 WHERE id = 12;"
        "UPDATE orders SET status = 'done', state = NULL WHERE id = 13",
        orders,
    )
    outcome = run(primary, orders, pass_name="sweep", on_conflict=on_conflict)
    assert outcome.result is Result.DONE
    got = dict(sql(primary, f"SELECT id, CONCAT_WS(' ', status, state) FROM {orders}.orders WHERE id IN (10, 11, 13)"))
    assert got == {10: f"{status} {state}", 11: "work locked", 13: "done succeeded"}
    assert sql(primary, f"SELECT timeout_ms FROM {orders}.orders WHERE id = 12") == [(1500,)]


def test_an_undecided_conflict_stops_the_sweep_and_is_named(primary: Server, orders: str) -> None:
    run(primary, orders)
    script(
        primary,
        "UPDATE orders SET status = 'new', state = 'cancelled', label = CONCAT(status, '-', id) WHERE id = 10;"
        "UPDATE orders SET state = NULL WHERE id = 700;"
        "UPDATE orders SET status = 'work', state = 'locked', label = CONCAT(status, '-', id) WHERE id = 701",
        orders,
    )
    outcome = run(primary, orders, pass_name="sweep", on_conflict="refuse")
    assert outcome.result is Result.FAILED
    assert "'new with cancelled', which is conflict (key 10)" in outcome.note
    assert "--on-conflict" in outcome.next
    script(primary, "UPDATE orders SET status = 'err', label = CONCAT(status, '-', id) WHERE id = 10", orders)
    assert run(primary, orders, pass_name="sweep", on_conflict="refuse").result is Result.DONE
    assert sql(primary, f"SELECT id, state FROM {orders}.orders WHERE id IN (10, 701) ORDER BY id") == [
        (10, "cancelled"),
        (701, "locked"),
    ]
    assert sql(primary, f"SELECT state IS NOT NULL FROM {orders}.orders WHERE id = 700") == [(1,)]


def test_while_the_old_column_is_the_truth_the_sweep_restores_it(primary: Server, orders: str) -> None:
    run(primary, orders)
    script(
        primary,
        "UPDATE orders SET state = 'locked' WHERE id = 1; UPDATE orders SET timeout_ms = 1 WHERE id = 2",
        orders,
    )
    assert run(primary, orders, pass_name="sweep").result is Result.DONE
    assert unfilled(primary, orders) == 0


def test_what_is_shown_is_what_runs(primary: Server, orders: str) -> None:
    shown = FillDriver(site(primary, orders)).describe(fill(orders))
    with general_log(primary):
        run(primary, orders, lambda n, _: GO if n <= 1 else Signal(SignalKind.PAUSE))
        ran = [text.rstrip(";") for text in said(primary)]
    assert shown[0] == "-- in the order of PRIMARY (id); each batch: about 60000 ms, at most 200 rows (max_batch)"
    for statement in shown[1:]:
        assert statement.replace(":epoch", "1") in ran


def test_showing_needs_only_select_and_writes_nothing(primary: Server, schema: str) -> None:
    make_orders(primary, schema, 500, expanded=False)
    script(
        primary, f"CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'r'; GRANT SELECT ON {schema}.* TO reader@'127.0.0.1'"
    )
    try:
        with general_log(primary):
            driver = FillDriver(site(primary, schema, account=Account("reader", "r", "")))
            shown = driver.describe(fill(schema))
            ran = said(primary, "reader")
    finally:
        script(primary, "DROP USER reader@'127.0.0.1'")
    assert any("UPDATE" in s and "`id` <= 200" in s for s in shown)
    first_words = {text.split(None, 1)[0].upper() for text in ran}
    assert "SELECT" in first_words, "the log has what was sent"
    assert first_words <= {"SELECT", "SET", "EXPLAIN", "SHOW"}


def test_the_largest_batch_fits_into_what_the_server_takes_and_is_named(primary: Server, orders: str) -> None:
    ((most,),) = sql(primary, "SELECT @@GLOBAL.max_binlog_cache_size")
    script(primary, "UPDATE orders SET note = REPEAT('x', 200); ANALYZE TABLE orders", orders)
    try:
        script(primary, "SET GLOBAL max_binlog_cache_size = 65536")
        shown = FillDriver(site(primary, orders)).describe(fill(orders, rows=5000))
        beat = ToldBeat()
        outcome = FillDriver(site(primary, orders)).apply(fill(orders, rows=5000), beat)
    finally:
        script(primary, f"SET GLOBAL max_binlog_cache_size = {most}")
    assert "(max_binlog_cache_size, rows of " in shown[0]
    assert outcome.result is Result.DONE
    assert outcome.figures["retries"] == 0
    assert 10 < max(p.batch_rows for p in beat.seen) < 100


def test_a_session_that_is_cut_before_it_is_set_up_is_a_server_out_of_reach(
    primary: Server, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up = Session.pin

    def cut(session: Session, variable: str, value: str | int) -> None:
        sql(primary, f"KILL {session.value('SELECT CONNECTION_ID()')}")
        set_up(session, variable, value)

    monkeypatch.setattr(Session, "pin", cut)
    with pytest.raises(ServerUnreachable, match=r"filling .*orders: the server says (2006|2013|1927|4031)"):
        run(primary, orders)
    assert unfilled(primary, orders) == 1000
