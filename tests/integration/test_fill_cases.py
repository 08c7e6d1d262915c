"""What has gone wrong in other tools while rows were filled, each case in the words of what must come out."""

from __future__ import annotations

from contextlib import closing

import pytest

from orchestrator.drivers.rows import FillDriver
from orchestrator.model.outcome import GO, Progress, Result, Signal, SignalKind
from orchestrator.sandbox.server import Server
from tests.support.cases import Case, positions, writes
from tests.support.orders import fill, make_orders, site
from tests.support.rows import ToldBeat, begin_rollout, paused_after
from tests.support.servers import connect, script, sql

TEN = ", ".join(f"({n}, {n})" for n in range(1, 11))
PLAIN = Case("id INT PRIMARY KEY, v INT", f"VALUES {TEN}", "v_n", "int", "v + 1", "id")


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
    cut: list[int] = []

    def answer(beats: int, _: Progress) -> Signal:
        if beats != 3:
            return GO
        for (id,) in sql(
            primary,
            "SELECT PROCESSLIST_ID FROM performance_schema.threads JOIN performance_schema.session_connect_attrs"
            " ON session_connect_attrs.PROCESSLIST_ID = threads.PROCESSLIST_ID"
            " WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE LIKE 'rollout backfill %'".replace(
                "SELECT PROCESSLIST_ID", "SELECT threads.PROCESSLIST_ID"
            ),
        ):
            sql(primary, f"KILL {id}")
            cut.append(int(id))
        return Signal(SignalKind.HOLD, "replication-lag 7.2s > 5.0s on replica-2")

    outcome = FillDriver(PLAIN.site(primary, schema)).apply(PLAIN.step(schema, 2), ToldBeat(answer=answer))
    assert outcome.result is Result.DONE
    assert cut
    assert writes(primary, schema) == [1] * 10


def test_b120_showing_the_plan_of_a_backfill_that_stopped_keeps_its_progress(primary: Server, schema: str) -> None:
    PLAIN.make(primary, schema)
    driver = FillDriver(PLAIN.site(primary, schema))
    driver.apply(PLAIN.step(schema, 2), ToldBeat(answer=paused_after(2)))
    before = sql(primary, "SELECT * FROM _rollout.position")
    assert any("`id` > 4" in statement for statement in driver.describe(PLAIN.step(schema, 2)))
    assert sql(primary, "SELECT * FROM _rollout.position") == before


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
    assert all(p.done <= p.total for p in beat.seen)
    assert all(p.eta_s is None or p.eta_s >= 0 for p in beat.seen)


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
