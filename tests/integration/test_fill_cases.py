"""What has gone wrong in other tools while rows were filled, each case in the words of what must come out."""

from __future__ import annotations

from contextlib import closing

import pytest
from msgspec.structs import replace

from orchestrator.drivers.rows import FillDriver
from orchestrator.errors import ConfigurationError
from orchestrator.model.contract import Column, Contract, Expression, Mapping, TableName
from orchestrator.model.facts import Need
from orchestrator.model.outcome import GO, Progress, Result, Signal, SignalKind
from orchestrator.model.runbook import Runbook
from orchestrator.model.types import parse_type
from orchestrator.mysql.filling import fill_rule
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.relation import load_relation
from orchestrator.sandbox.server import Server
from tests.support.cases import Case, positions, writes
from tests.support.edges import Edge, EdgySession
from tests.support.log import general_log, said
from tests.support.orders import fill, make_orders, site
from tests.support.rows import ROLLOUT, ToldBeat, begin_rollout, fill_pass, paused_after
from tests.support.servers import connect, script, sql
from tests.support.shapes import live_shape

TEN = ", ".join(f"({n}, {n})" for n in range(1, 11))
PINNED = {"sql_mode", "time_zone", "lock_wait_timeout", "innodb_lock_wait_timeout", "transaction_isolation"}
PLAIN = Case("id INT PRIMARY KEY, v INT", f"VALUES {TEN}", "v_n", "int", "v + 1", "id")


def test_b60_no_value_goes_through_the_client_and_a_newer_write_is_never_overwritten(
    primary: Server, schema: str
) -> None:
    """The application changes a row of the batch after it was read, and before it is written."""
    PLAIN.make(primary, schema)

    def change(edge: Edge) -> None:
        sql(primary, f"UPDATE {schema}.t SET v = v + 100 WHERE id IN (2, 3)")

    site = PLAIN.site(primary, schema)
    with closing(EdgySession(site.settings, change, (Edge.BEFORE,))) as session:
        shape = live_shape(session, site.runbook.table)
        rule = fill_rule(load_relation(session, site.runbook.contract, shape), shape, "", "")
        fill_pass(session, site.runbook.table, ToldBeat(), 10, rule).run()
    assert sql(primary, f"SELECT id, v, v_n FROM {schema}.t WHERE id IN (1, 2, 3) ORDER BY id") == [
        (1, 1, 2),
        (2, 102, 103),
        (3, 103, 104),
    ]


def test_b82_an_application_that_locks_the_other_way_round_is_no_deadlock(primary: Server, schema: str) -> None:
    """It has row 2 and wants row 1 while the batch covers both: the batch waits for nothing, so nobody is a victim."""
    PLAIN.make(primary, schema)
    with closing(connect(primary, database=schema, autocommit=False)) as application, application.cursor() as cursor:
        cursor.execute("SELECT * FROM t WHERE id = 2 FOR UPDATE")

        def crosses(_: Edge) -> None:
            """The batch is on its way."""
            cursor.execute("UPDATE t SET v = v + 1 WHERE id IN (1, 2)")

        site = PLAIN.site(primary, schema)
        with closing(EdgySession(site.settings, crosses, (Edge.SENT,))) as session:
            shape = live_shape(session, site.runbook.table)
            rule = fill_rule(load_relation(session, site.runbook.contract, shape), shape, "", "")
            position = fill_pass(session, site.runbook.table, ToldBeat(), 10, rule).run()
        application.commit()
    assert position.rows_skipped in (1, 2), "what it held is left to the sweep"
    driver = FillDriver(PLAIN.site(primary, schema))
    assert driver.apply(PLAIN.step(schema, 5, "sweep"), ToldBeat()).result is Result.DONE
    assert sql(primary, f"SELECT COUNT(*) FROM {schema}.t WHERE v_n <=> v + 1") == [(10,)]


def test_b82_a_batch_that_is_a_victim_is_tried_again_whole_and_counted(primary: Server, schema: str) -> None:
    PLAIN.make(primary, schema)
    script(
        primary,
        "CREATE TABLE victim (n INT); INSERT INTO victim VALUES (1); CREATE TRIGGER deadlocks BEFORE UPDATE ON t"
        " FOR EACH ROW BEGIN IF NEW.id = 4 AND EXISTS (SELECT * FROM victim) THEN SIGNAL SQLSTATE '40001'"
        " SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found'; END IF; END",
        schema,
    )

    def release(beats: int, progress: Progress) -> Signal:
        if "1213" in progress.throttled_by:
            sql(primary, f"DELETE FROM {schema}.victim")
        return GO

    outcome = FillDriver(PLAIN.site(primary, schema)).apply(PLAIN.step(schema, 2), ToldBeat(answer=release))
    assert outcome.result is Result.DONE
    assert outcome.figures["retries"] >= 1
    assert writes(primary, schema) == [1] * 10


def test_b83_after_a_lock_wait_timeout_nothing_half_done_is_committed(primary: Server, schema: str) -> None:
    """The position row is what a batch can wait for: somebody holds it."""
    PLAIN.make(primary, schema)
    driver = FillDriver(PLAIN.site(primary, schema))
    driver.apply(PLAIN.step(schema, 2), ToldBeat(answer=paused_after(2)))
    with closing(connect(primary, autocommit=False)) as other, other.cursor() as cursor:
        cursor.execute("SELECT * FROM _rollout.position FOR UPDATE")

        def release(beats: int, progress: Progress) -> Signal:
            if "1205" in progress.throttled_by:
                other.rollback()
            return GO

        outcome = driver.apply(PLAIN.step(schema, 2), ToldBeat(answer=release))
    assert outcome.result is Result.DONE
    assert writes(primary, schema) == [1] * 10


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [("IF(v LIKE '%5%', 1, 0)", 1), ("DATE_FORMAT('2026-01-02', '%Y%m') + 0 * v", 10 * 202601)],
)
def test_b103_percent_signs_of_an_expression_are_no_format_codes(
    primary: Server, schema: str, expression: str, wanted: int
) -> None:
    case = Case(PLAIN.columns, PLAIN.rows, "v_n", "int", expression, "id")
    case.make(primary, schema)
    assert case.backfill(primary, schema, 3).result is Result.DONE
    assert sql(primary, f"SELECT SUM(v_n) FROM {schema}.t") == [(wanted,)]


def test_b105_what_others_change_is_seen_on_the_next_beat_and_nothing_of_ours_stays_open(
    primary: Server, schema: str
) -> None:
    PLAIN.make(primary, schema)
    seen: list[int] = []
    observer = MysqlObserver(PLAIN.site(primary, schema))

    def look(_: int, progress: Progress) -> Signal:
        reading = observer.look(frozenset({Need.POSITIONS})).positions
        assert reading is not None
        assert reading.value is not None
        assert sum(p.rows_done for p in reading.value) == progress.done
        assert sql(primary, "SELECT COUNT(*) FROM information_schema.INNODB_TRX") == [(0,)]
        seen.append(progress.done)
        return GO

    with closing(observer):
        outcome = FillDriver(PLAIN.site(primary, schema)).apply(PLAIN.step(schema, 2), ToldBeat(answer=look))
    assert outcome.result is Result.DONE
    assert seen == [0, 2, 4, 6, 8]


def test_b106_the_end_is_decided_by_the_key_and_never_by_affected_rows(primary: Server, schema: str) -> None:
    PLAIN.make(primary, schema)
    sql(primary, f"UPDATE {schema}.t SET v_n = v + 1 WHERE id IN (3, 4, 7, 8)")
    sql(primary, f"DELETE FROM {schema}.writes")
    outcome = PLAIN.backfill(primary, schema, 2)
    assert outcome.result is Result.DONE
    assert writes(primary, schema) == [1] * 6
    assert sql(primary, f"SELECT COUNT(*) FROM {schema}.t WHERE v_n <=> v + 1") == [(10,)]


def test_b107_a_session_that_was_cut_while_it_was_throttled_is_opened_and_pinned_again(
    primary: Server, schema: str
) -> None:
    PLAIN.make(primary, schema)
    seen: dict[int, dict[str, str]] = {}

    def look() -> int:
        """The session that fills, with what it has set."""
        ((id, thread),) = sql(
            primary,
            "SELECT t.PROCESSLIST_ID, t.THREAD_ID FROM performance_schema.threads t"
            " JOIN performance_schema.session_connect_attrs a ON a.PROCESSLIST_ID = t.PROCESSLIST_ID"
            " WHERE a.ATTR_NAME = 'program_name' AND a.ATTR_VALUE LIKE 'rollout backfill %'",
        )
        of = "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.variables_by_thread WHERE THREAD_ID = "
        seen[int(id)] = {name: value for name, value in sql(primary, f"{of}{thread}") if name in PINNED}
        return int(id)

    def answer(beats: int, progress: Progress) -> Signal:
        if beats == 3:
            sql(primary, f"KILL {look()}")
            return Signal(SignalKind.HOLD, "replication-lag 7.2s > 5.0s on replica-2")
        if progress.done >= 8 and len(seen) == 1:
            look()
        return GO

    outcome = FillDriver(PLAIN.site(primary, schema)).apply(PLAIN.step(schema, 2), ToldBeat(answer=answer))
    assert outcome.result is Result.DONE
    before, after = seen.values()
    assert before == after, "the new session is not as the first one was"
    assert (after["sql_mode"], after["time_zone"]) == ("STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION", "+00:00")
    assert set(after) == PINNED
    assert writes(primary, schema) == [1] * 10


def test_b108_large_values_and_many_rows_are_filled_by_statements_that_stay_small(primary: Server, schema: str) -> None:
    """Rows of 600 kB under a max_allowed_packet of 1 MiB: by ranges in the backfill, by bounded lists of keys in the
    sweep."""
    large = ", ".join(f"({n}, REPEAT('{n}', 600000))" for n in range(6))
    case = Case("id INT PRIMARY KEY, v LONGTEXT", f"VALUES {large}", "v_n", "longtext", "v", "id")
    ((most,),) = sql(primary, "SELECT @@GLOBAL.max_allowed_packet")
    case.make(primary, schema)
    script(
        primary,
        "CREATE TABLE wide (k VARCHAR(700) PRIMARY KEY, v INT, v_n INT) CHARACTER SET ascii;"
        "INSERT INTO wide (k, v, v_n) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
        " SELECT CONCAT(LPAD(i, 6, '0'), REPEAT('k', 600)), i, IF(i % 5 = 0, NULL, i + 1) FROM n",
        schema,
    )
    wide = replace(PLAIN.site(primary, schema), runbook=wide_runbook(schema))
    try:
        script(primary, "SET GLOBAL max_allowed_packet = 1048576")
        with general_log(primary):
            filled = FillDriver(case.site(primary, schema)).apply(case.step(schema, 1000), ToldBeat())
            step = replace(case.step(schema, 1000, "sweep"), table=wide.runbook.table)
            swept = FillDriver(wide).apply(step, ToldBeat())
            longest = max(len(text) for text in said(primary))
    finally:
        script(primary, f"SET GLOBAL max_allowed_packet = {most}")
    assert (filled.result, swept.result) == (Result.DONE, Result.DONE)
    assert writes(primary, schema) == [1] * 6
    assert swept.figures["rows_changed"] == 200
    assert sql(primary, f"SELECT COUNT(*) FROM {schema}.wide WHERE NOT v_n <=> v + 1") == [(0,)]
    assert longest < 256 * 1024


def wide_runbook(schema: str) -> Runbook:
    contract = Contract(
        TableName(schema, "wide"),
        (Column("v_n", parse_type("int")),),
        mappings=(Mapping("v_n", None, Expression("v + 1"), follows=True),),
    )
    return Runbook(id=ROLLOUT, contract=contract, digest="", text="", path="")


def test_b120_showing_the_plan_of_a_backfill_that_stopped_keeps_its_progress(primary: Server, schema: str) -> None:
    PLAIN.make(primary, schema)
    driver = FillDriver(PLAIN.site(primary, schema))
    driver.apply(PLAIN.step(schema, 2), ToldBeat(answer=paused_after(2)))
    before = sql(primary, "SELECT * FROM _rollout.position")
    assert any("`id` > 4" in statement for statement in driver.describe(PLAIN.step(schema, 2)))
    assert sql(primary, "SELECT * FROM _rollout.position") == before
    assert len(writes(primary, schema)) == 4
    assert driver.apply(PLAIN.step(schema, 2), ToldBeat()).result is Result.DONE
    assert writes(primary, schema) == [1] * 10, "it went on where it was"


def test_b95_one_row_that_is_more_than_the_binary_log_takes_stops_the_backfill_and_is_named(
    primary: Server, schema: str
) -> None:
    """Case B95. Batches are halved down to one row; what is before it is kept, and a later try goes on there. A trigger
    of the application makes the row that large: it keeps copies."""
    PLAIN.make(primary, schema)
    script(
        primary,
        "CREATE TABLE copies (v LONGTEXT); CREATE TRIGGER keeps AFTER UPDATE ON t FOR EACH ROW INSERT INTO copies"
        " SELECT REPEAT('v', 40000) FROM t WHERE NEW.id = 7",
        schema,
    )
    ((most,),) = sql(primary, "SELECT @@GLOBAL.max_binlog_cache_size")
    driver = FillDriver(PLAIN.site(primary, schema))
    try:
        script(primary, "SET GLOBAL max_binlog_cache_size = 65536")
        outcome = driver.apply(PLAIN.step(schema, 10), ToldBeat())
    finally:
        script(primary, f"SET GLOBAL max_binlog_cache_size = {most}")
    assert outcome.result is Result.FAILED
    assert "the batch behind 6 up to 7: 1197" in outcome.note
    assert "max_binlog_cache_size" in outcome.note
    assert positions(primary) == '[["int","6"]]'
    assert driver.apply(PLAIN.step(schema, 10), ToldBeat()).result is Result.DONE
    assert writes(primary, schema) == [1] * 10


def test_b121_a_batch_that_fails_at_once_after_a_resume_keeps_the_position(primary: Server, schema: str) -> None:
    PLAIN.make(primary, schema)
    driver = FillDriver(PLAIN.site(primary, schema))
    driver.apply(PLAIN.step(schema, 2), ToldBeat(answer=paused_after(2)))
    refuses = "CREATE TRIGGER refuses BEFORE UPDATE ON t FOR EACH ROW SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'"
    script(primary, refuses, schema)
    for _ in range(2):
        assert driver.apply(PLAIN.step(schema, 2), ToldBeat()).result is Result.FAILED
        assert positions(primary) == '[["int","4"]]'
    script(primary, "DROP TRIGGER refuses", schema)
    assert driver.apply(PLAIN.step(schema, 2), ToldBeat()).result is Result.DONE
    assert writes(primary, schema) == [1] * 10


def test_b143_an_error_whose_text_is_no_text_is_noted_escaped(primary: Server, schema: str) -> None:
    """Case B143. A trigger of the application says bytes of a row: 0xFF, and what a terminal obeys."""
    PLAIN.make(primary, schema)
    says = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = _binary 0x6E6F20FF1B5B33316D0A"
    script(primary, f"CREATE TRIGGER refuses BEFORE UPDATE ON t FOR EACH ROW {says}", schema)
    outcome = FillDriver(PLAIN.site(primary, schema)).apply(PLAIN.step(schema, 2), ToldBeat())
    assert outcome.result is Result.FAILED
    assert "1644 no " in outcome.note
    assert r"\x1b[31m\n" in outcome.note
    assert outcome.note.isprintable()


@pytest.mark.parametrize("broken", ['[["int","4"', '[["int"]]', "[]", "4", '[["float","4.0"]]'])
def test_b123_a_position_that_nobody_can_read_is_refused_and_never_begun_anew(
    primary: Server, schema: str, broken: str
) -> None:
    PLAIN.make(primary, schema)
    driver = FillDriver(PLAIN.site(primary, schema))
    driver.apply(PLAIN.step(schema, 2), ToldBeat(answer=paused_after(2)))
    sql(primary, "UPDATE _rollout.position SET position = %s", (broken,))
    with pytest.raises(ConfigurationError) as refused:
        driver.apply(PLAIN.step(schema, 2), ToldBeat())
    assert f"the stored position of backfill cannot be read: {broken!r}" in refused.value.seen
    assert "backup" in refused.value.next
    assert positions(primary) == broken
    assert writes(primary, schema) == [1] * 4


def test_b123_a_state_that_takes_no_position_stops_the_backfill_before_the_next_row(
    primary: Server, schema: str
) -> None:
    """The disk of the state tables is full: rows without their position would be counted twice."""
    PLAIN.make(primary, schema)
    driver = FillDriver(PLAIN.site(primary, schema))
    driver.apply(PLAIN.step(schema, 2), ToldBeat(answer=paused_after(2)))
    full = "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table position is full'"
    script(primary, f"CREATE TRIGGER _rollout.fills BEFORE UPDATE ON _rollout.position FOR EACH ROW {full}")
    outcome = driver.apply(PLAIN.step(schema, 2), ToldBeat())
    assert outcome.result is Result.FAILED
    assert "1114 The table position is full" in outcome.note
    assert writes(primary, schema) == [1] * 4
    script(primary, "DROP TRIGGER _rollout.fills")
    assert driver.apply(PLAIN.step(schema, 2), ToldBeat()).result is Result.DONE
    assert writes(primary, schema) == [1] * 10


def test_b131_progress_never_passes_100_percent_although_the_estimate_is_wrong(primary: Server, schema: str) -> None:
    make_orders(primary, schema, 500)
    begin_rollout(primary)
    sql(
        primary,
        "UPDATE mysql.innodb_table_stats SET n_rows = 3 WHERE database_name = %s AND table_name = 'orders'",
        (schema,),
    )
    sql(primary, f"FLUSH TABLES {schema}.orders")
    beat = ToldBeat()
    assert FillDriver(site(primary, schema)).apply(fill(schema, rows=50), beat).result is Result.DONE
    assert all(p.done <= p.total and p.estimated for p in beat.seen)
    shares = [p.share for p in beat.seen if p.share is not None]
    assert len(shares) > 5
    assert max(shares) < 1.0, "all is done, it says, before the end"
    assert all(p.eta_s is None for p in beat.seen if p.done >= p.total), "it knows when it ends, and has passed that"


def test_b132_a_state_table_that_is_dropped_stops_the_backfill_at_once_and_is_named(
    primary: Server, schema: str
) -> None:
    PLAIN.make(primary, schema)

    def drop(beats: int, _: Progress) -> Signal:
        if beats == 3:
            script(primary, "DROP TABLE _rollout.position")
        assert beats < 5, "it goes on"
        return GO

    outcome = FillDriver(PLAIN.site(primary, schema)).apply(PLAIN.step(schema, 2), ToldBeat(answer=drop))
    assert outcome.result is Result.FAILED
    assert "1146 Table '_rollout.position' doesn't exist" in outcome.note
    assert writes(primary, schema) == [1] * 4


def test_b144_a_full_disk_ends_the_backfill_with_the_server_s_reason(primary: Server, schema: str) -> None:
    """As the server says it when a tablespace cannot grow; here a trigger says it."""
    PLAIN.make(primary, schema)
    full = "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table t is full'"
    script(primary, f"CREATE TRIGGER fills BEFORE UPDATE ON t FOR EACH ROW {full}", schema)
    outcome = PLAIN.backfill(primary, schema, 2)
    assert outcome.result is Result.FAILED
    assert "1114 The table t is full" in outcome.note
    assert writes(primary, schema) == []


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("MODIFY status VARCHAR(80) NOT NULL DEFAULT 'new'", "status was varchar(20) and is varchar(80)"),
        ("DROP COLUMN kind", "kind is gone"),
        (
            "ADD COLUMN seen_at DATETIME(6) NULL ON UPDATE CURRENT_TIMESTAMP(6)",
            "seen_at came, which the server sets on every write",
        ),
    ],
)
def test_b148_a_table_that_is_altered_under_the_backfill_stops_it_with_the_difference(
    primary: Server, schema: str, monkeypatch: pytest.MonkeyPatch, ddl: str, told: str
) -> None:
    monkeypatch.setattr("orchestrator.drivers.rows.table._ASK_EVERY_S", 0.0)
    make_orders(primary, schema, 300)
    begin_rollout(primary)

    def alter(beats: int, _: Progress) -> Signal:
        if beats == 3:
            script(primary, f"ALTER TABLE orders {ddl}", schema)
        return GO

    driver = FillDriver(site(primary, schema))
    stopped = driver.apply(fill(schema, rows=50), ToldBeat(answer=alter))
    assert stopped.result is Result.FAILED
    assert f"was altered while it was filled: {told}" in stopped.note
    assert sql(primary, f"SELECT COUNT(*) FROM {schema}.orders WHERE state IS NOT NULL") == [(100,)]
    if "DROP" in ddl:
        script(primary, "ALTER TABLE orders ADD COLUMN kind VARCHAR(16) NULL", schema)
    assert driver.apply(fill(schema, rows=50), ToldBeat()).result is Result.DONE
    assert sql(primary, f"SELECT COUNT(*) FROM {schema}.orders WHERE state IS NOT NULL") == [(300,)]
    if "seen_at" in ddl:
        assert sql(primary, f"SELECT COUNT(seen_at) FROM {schema}.orders") == [(0,)], "ours is no write of its own"


def test_b148_an_index_or_a_plain_column_of_somebody_s_stops_nothing(
    primary: Server, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.drivers.rows.table._ASK_EVERY_S", 0.0)
    make_orders(primary, schema, 300)
    begin_rollout(primary)

    def alter(beats: int, _: Progress) -> Signal:
        if beats == 3:
            script(primary, "ALTER TABLE orders ADD COLUMN more INT NULL, ADD KEY by_status (status)", schema)
        return GO

    outcome = FillDriver(site(primary, schema)).apply(fill(schema, rows=50), ToldBeat(answer=alter))
    assert outcome.result is Result.DONE
    assert outcome.figures["rows_changed"] == 300
