"""Comparing on a real server: every class is found and named, nothing else is, and nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace

from orchestrator.drivers.rows import CompareDriver, FillDriver
from orchestrator.errors import Held
from orchestrator.model.facts import Shape
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Seen, Signal, SignalKind
from orchestrator.model.step import Purpose, Truth
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.relation import Relation, load_relation
from orchestrator.mysql.scan import Reach, scan_drift, scan_meter, scan_values
from orchestrator.mysql.session import Session
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import Account
from orchestrator.store.mysql import MysqlStore
from tests.support.log import general_log, said
from tests.support.orders import compare, fill, make_orders, runbook, site
from tests.support.rows import ROLLOUT, ToldBeat, begin_rollout
from tests.support.servers import connect, script, sql, wait_for
from tests.support.shapes import live_shape
from tests.support.state import settings_of

ROWS = 1200
Answer = Callable[[int, Progress], Signal]


@pytest.fixture
def orders(primary: Server, schema: str) -> str:
    """Filled orders, and nothing of the rollout's state is needed any more."""
    make_orders(primary, schema, ROWS)
    begin_rollout(primary)
    FillDriver(site(primary, schema)).apply(fill(schema), ToldBeat())
    return schema


# The epoch of who holds no lease, as `rollout verify` does: nothing is kept in the state, which may not be there.
NOBODY = 0


def run(
    server: Server,
    schema: str,
    purpose: Purpose = "drift",
    relation: Truth = "old-is-truth",
    answer: Answer | None = None,
    epoch: int = 1,
) -> Outcome:
    beat = ToldBeat(epoch, answer)
    return CompareDriver(site(server, schema)).apply(compare(schema, purpose, relation), beat)


def classes(outcome: Outcome) -> dict[tuple[str, str], tuple[int, str]]:
    return {(name, mapping): (int(rows), " ".join(keys)) for name, mapping, rows, *keys in outcome.evidence}


def test_a_filled_table_has_no_mismatch_and_all_its_rows_were_compared(primary: Server, orders: str) -> None:
    outcome = run(primary, orders, "verify")
    assert outcome.result is Result.DONE
    assert outcome.figures["rows_table"] == outcome.figures["rows_compared"] == ROWS
    assert outcome.figures["mismatches"] == 0


def test_an_empty_table_compares(primary: Server, schema: str) -> None:
    make_orders(primary, schema, 0)
    outcome = run(primary, schema, "verify", epoch=NOBODY)
    assert outcome.result is Result.DONE
    assert outcome.figures["rows_table"] == outcome.figures["rows_compared"] == 0


def test_each_class_is_found_with_its_keys_while_the_old_column_is_the_truth(primary: Server, orders: str) -> None:
    script(
        primary,
        "UPDATE orders SET state = NULL WHERE id IN (1, 1200);"
        "UPDATE orders SET timeout_ms = timeout_ms + 1 WHERE id = 2;"
        "UPDATE orders SET status = 'Done ', label = CONCAT(status, '-', id) WHERE id = 3;"
        "UPDATE orders SET kind = NULL WHERE id = 4;"
        "UPDATE orders SET timeout_s = -1, timeout_ms = -1000 WHERE id = 5",
        orders,
    )
    outcome = run(primary, orders, "verify")
    assert outcome.result is Result.FAILED
    assert outcome.figures["mismatches"] == 6
    assert classes(outcome) == {
        ("missing", "status ↔ state"): (2, "1 1200"),
        ("stale", "timeout_s ↔ timeout_ms"): (1, "2"),
        ("unmapped", "status ↔ state"): (1, "3"),
        ("derived-empty", "kind (derived)"): (1, "4"),
        ("invariant:timeout-is-positive", ""): (1, "5"),
    }


def test_what_corresponds_is_no_drift_once_both_are_written(primary: Server, orders: str) -> None:
    script(
        primary,
        "UPDATE orders SET status = 'work', state = 'locked', label = CONCAT(status, '-', id) WHERE id = 1;"
        "UPDATE orders SET timeout_s = 2, timeout_ms = 1500 WHERE id = 2",
        orders,
    )
    assert run(primary, orders, relation="old-is-truth").result is Result.FAILED
    outcome = run(primary, orders, "verify", "corresponds")
    assert outcome.result is Result.DONE
    assert classes(outcome) == {
        ("lossy-ok", "status ↔ state"): (1, "1"),
        ("lossy-ok", "timeout_s ↔ timeout_ms"): (1, "2"),
    }


def test_a_conflict_takes_the_application_back(primary: Server, orders: str) -> None:
    script(primary, "UPDATE orders SET state = 'cancelled' WHERE id IN (4, 8)", orders)
    step = replace(compare(orders, relation="corresponds"), mend="rollout verify --repair")
    outcome = CompareDriver(site(primary, orders)).apply(step, ToldBeat(1))
    assert outcome.result is Result.BACK
    assert outcome.next.endswith("is mended by: rollout verify --repair")
    assert classes(outcome) == {("conflict", "status ↔ state"): (2, "4 8")}


def test_counts_are_exact_and_samples_few_when_all_rows_are_wrong(primary: Server, orders: str) -> None:
    script(primary, "UPDATE orders SET state = NULL, kind = NULL", orders)
    got = classes(run(primary, orders))
    assert {rows for rows, _ in got.values()} == {ROWS}
    assert all(keys == "1 2 3 4 5 6 7 8 9 10" for _, keys in got.values())


def test_a_row_that_is_being_mended_is_no_mismatch(primary: Server, orders: str) -> None:
    script(primary, "UPDATE orders SET state = NULL WHERE id = 600", orders)
    with closing(connect(primary, database=orders, autocommit=False)) as application, application.cursor() as cursor:
        cursor.execute("UPDATE orders SET state = 'pending', status = 'new', label = 'new-600' WHERE id = 600")
        commit = threading.Timer(0.7, application.commit)
        commit.start()
        outcome = run(primary, orders)
        commit.join()
    assert outcome.result is Result.DONE, outcome


def test_a_wrong_row_that_somebody_holds_is_still_found_and_he_never_waits(primary: Server, orders: str) -> None:
    script(primary, "UPDATE orders SET state = NULL WHERE id IN (600, 601)", orders)
    with closing(connect(primary, database=orders, autocommit=False)) as application, application.cursor() as cursor:
        cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
        cursor.execute("SELECT id FROM orders WHERE id = 600 FOR UPDATE")
        found: list[Outcome] = []
        work = threading.Thread(target=lambda: found.append(run(primary, orders)))
        work.start()
        while work.is_alive():
            cursor.execute("UPDATE orders SET note = CONCAT('n', RAND()) WHERE id IN (601, 602)")
            work.join(0.05)
        application.rollback()
    assert classes(found[0]) == {("missing", "status ↔ state"): (2, "600 601")}


def test_newest_meets_the_last_rows_by_key_and_by_time(
    primary: Server, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.drivers.rows.compare.NEWEST_ROWS", 100)
    monkeypatch.setattr("orchestrator.drivers.rows.compare.RECENT_ROWS", 10)
    script(
        primary,
        "UPDATE orders SET state = NULL, changed_at = changed_at WHERE id IN (2, 1150);"
        "UPDATE orders SET kind = NULL WHERE id = 3",
        orders,
    )
    outcome = run(primary, orders, "newest")
    assert classes(outcome) == {
        ("missing", "status ↔ state"): (1, "1150"),
        ("derived-empty", "kind (derived)"): (1, "3"),
    }
    assert outcome.figures["rows_compared"] == 110


@pytest.mark.parametrize(
    ("draw", "met"),
    [(0.0, {"7"}), (0.5, {"600"}), (0.999, set())],
    ids=["first place", "middle place", "last place"],
)
def test_what_moved_of_late_is_met_by_key_by_time_and_by_a_place_that_is_drawn(
    primary: Server, orders: str, monkeypatch: pytest.MonkeyPatch, draw: float, met: set[str]
) -> None:
    """Invariants are no matter of the mirror: they are not asked."""
    for name, rows in (("MOVED_ROWS", 20), ("RECENT_ROWS", 10), ("_ROWS_A_PLACE", 40)):
        monkeypatch.setattr(f"orchestrator.drivers.rows.compare.{name}", rows)
    script(
        primary,
        "UPDATE orders SET state = NULL, changed_at = '2020-01-01' WHERE id IN (7, 600, 1190);"
        "UPDATE orders SET kind = NULL WHERE id = 300",
        orders,
    )
    driver = CompareDriver(site(primary, orders), lambda: draw)
    outcome = driver.apply(compare(orders, "moved", "old-is-truth"), ToldBeat(1))
    found = {key for _, _, _, *keys in outcome.evidence for key in keys}
    assert found == {"1190", "300", *met}


def test_a_pause_ends_the_comparison_and_it_is_never_found_half_done(primary: Server, orders: str) -> None:
    outcome = run(primary, orders, "verify", answer=lambda n, _: GO if n < 2 else Signal(SignalKind.PAUSE, "asked"))
    assert outcome.result is Result.PAUSED
    assert CompareDriver(site(primary, orders)).observe(compare(orders), ToldBeat()) is Seen.ABSENT


def paused_at(beats: int) -> Answer:
    return lambda n, _: GO if n < beats else Signal(SignalKind.PAUSE, "asked")


def next_holder(server: Server) -> int:
    """The epoch of whoever takes the lease now."""
    with closing(MysqlStore(settings_of(server), SystemClock())) as store:
        return store.bump_epoch(ROLLOUT)


def verify_next(server: Server, schema: str, answer: Answer | None = None) -> tuple[Outcome, int]:
    """A verify of the next holder, in short stretches; the outcome, and how many beats it had."""
    beat = ToldBeat(next_holder(server), answer)
    step = replace(compare(schema, "verify"), target_time_s=0.0001)
    return CompareDriver(site(server, schema)).apply(step, beat), len(beat.seen)


def test_a_verify_that_was_stopped_goes_on_where_it_was(primary: Server, orders: str) -> None:
    whole, beats = verify_next(primary, orders)
    assert beats > 8
    stopped, _ = verify_next(primary, orders, paused_at(6))
    assert stopped.result is Result.PAUSED
    rest, left = verify_next(primary, orders)
    assert left < beats - 3
    assert rest.result is Result.DONE
    assert rest.figures["rows_compared"] == rest.figures["rows_table"] == whole.figures["rows_compared"] == ROWS
    assert sql(primary, "SELECT pass FROM _rollout.position WHERE pass <> 'backfill'") == []


def test_a_verify_begins_anew_when_somebody_acted_in_between(primary: Server, orders: str) -> None:
    """What another holder did, a rollback or another stage, may have made a row wrong that was compared."""
    verify_next(primary, orders, paused_at(6))
    next_holder(primary)
    script(primary, "UPDATE orders SET state = NULL WHERE id = 2", orders)
    outcome, _ = verify_next(primary, orders)
    assert classes(outcome) == {("missing", "status ↔ state"): (1, "2")}


def test_a_verify_begins_anew_behind_a_sweep_of_its_own_holder(primary: Server, orders: str) -> None:
    """As `verify --repair` does: it writes rows that were compared, and then compares every row."""
    verify_next(primary, orders, paused_at(6))
    epoch = next_holder(primary)
    FillDriver(site(primary, orders)).apply(fill(orders, "sweep"), ToldBeat(epoch))
    script(primary, "UPDATE orders SET state = NULL WHERE id = 2", orders)
    assert classes(run(primary, orders, "verify", epoch=epoch)) == {("missing", "status ↔ state"): (1, "2")}


def test_what_was_found_wrong_before_a_pause_is_found_again(primary: Server, orders: str) -> None:
    script(primary, "UPDATE orders SET state = NULL WHERE id IN (2, 1190)", orders)
    stopped, _ = verify_next(primary, orders, paused_at(6))
    assert stopped.result is Result.PAUSED
    outcome, _ = verify_next(primary, orders)
    assert classes(outcome) == {("missing", "status ↔ state"): (2, "2 1190")}


def test_b119_a_verify_that_failed_fails_again_until_the_row_is_mended(primary: Server, orders: str) -> None:
    script(primary, "UPDATE orders SET state = NULL WHERE id = 2", orders)
    for _ in range(2):
        outcome, _ = verify_next(primary, orders)
        assert classes(outcome) == {("missing", "status ↔ state"): (1, "2")}
    script(primary, "UPDATE orders SET state = 'succeeded' WHERE id = 2", orders)
    outcome, _ = verify_next(primary, orders)
    assert outcome.result is Result.DONE
    assert outcome.figures["rows_compared"] == ROWS


def test_b137_a_verify_keeps_no_snapshot_and_holds_back_no_purge(primary: Server, orders: str) -> None:
    """Each stretch in its own short transaction: what the application changes meanwhile is purged meanwhile."""

    def history() -> int:
        text = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'"
        return int(sql(primary, text)[0][0])

    def stretch(beats: int, _: Progress) -> Signal:
        if beats == 4:
            for _again in range(5):
                script(primary, "UPDATE orders SET note = CONCAT(RAND()), changed_at = changed_at", orders)
            wait_for(lambda: history() < 10, what="purge goes on")
            assert sql(primary, "SELECT COUNT(*) FROM information_schema.INNODB_TRX") == [(0,)]
        return GO

    # Else the list is cut only now and then, and says nothing for minutes.
    script(primary, "SET GLOBAL innodb_purge_rseg_truncate_frequency = 1")
    try:
        outcome, _ = verify_next(primary, orders, stretch)
    finally:
        script(primary, "SET GLOBAL innodb_purge_rseg_truncate_frequency = DEFAULT")
    assert outcome.result is Result.DONE


def test_b148_a_table_that_was_altered_meanwhile_is_not_called_right_and_not_called_wrong(
    primary: Server, orders: str
) -> None:
    """STOP with the columns that differ."""

    def alter(beats: int, _: Progress) -> Signal:
        if beats == 2:
            script(primary, "ALTER TABLE orders MODIFY status VARCHAR(80) NOT NULL DEFAULT 'new'", orders)
        return GO

    with pytest.raises(Held) as stopped:
        run(primary, orders, "verify", answer=alter)
    assert "altered while it was compared: status" in stopped.value.seen


def test_comparing_needs_only_select(primary: Server, orders: str) -> None:
    script(primary, "UPDATE orders SET state = NULL WHERE id = 9", orders)
    script(
        primary, f"CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'r'; GRANT SELECT ON {orders}.* TO reader@'127.0.0.1'"
    )
    try:
        driver = CompareDriver(site(primary, orders, account=Account("reader", "r", "")))
        outcome = driver.apply(compare(orders, "verify"), ToldBeat(NOBODY))
        assert len(driver.describe(compare(orders, "verify"))) == 4
    finally:
        script(primary, "DROP USER reader@'127.0.0.1'")
    assert classes(outcome) == {("missing", "status ↔ state"): (1, "9")}


@pytest.mark.parametrize("purpose", ["drift", "verify", "newest"])
def test_a_comparison_of_wrong_rows_says_what_it_shows(primary: Server, orders: str, purpose: Purpose) -> None:
    script(primary, "UPDATE orders SET state = NULL WHERE id IN (3, 1190)", orders)
    shown = CompareDriver(site(primary, orders)).describe(compare(orders, purpose))
    with general_log(primary):
        assert run(primary, orders, purpose).result is Result.FAILED
        ran = said(primary)
    assert [text for text in shown if text not in ran] == []


@pytest.fixture
def scanned(primary: Server, orders: str) -> Iterator[tuple[Session, Relation, str]]:
    with closing(Session(settings_of(primary))) as session:
        book = runbook(orders)
        shape = live_shape(session, book.table)
        yield session, load_relation(session, book.contract, shape), orders


def shape_of(session: Session, orders: str) -> Shape:
    return live_shape(session, runbook(orders).table)


def test_values_are_grouped_byte_by_byte_and_shown_whole(
    primary: Server, scanned: tuple[Session, Relation, str]
) -> None:
    session, relation, orders = scanned
    script(
        primary,
        "UPDATE orders SET status = 'Done' WHERE id IN (1, 2, 3); UPDATE orders SET status = 'done ' WHERE id = 4;"
        "UPDATE orders SET status = '' WHERE id = 5; UPDATE orders SET status = 'd\\0ne' WHERE id = 6",
        orders,
    )
    scan = scan_values(session, relation, shape_of(session, orders), Reach(10**6, 60, SystemClock()))
    assert scan.complete
    assert scan.rows_scanned == ROWS
    assert [(p.value, p.rows, p.keys, p.problem) for p in scan.problems] == [
        ("'Done'", 3, ("1", "2", "3"), "unmapped"),
        ("''", 1, ("5",), "unmapped"),
        ("'d\\x00ne' (0x64006e65)", 1, ("6",), "unmapped"),
        ("'done ' (0x646f6e6520)", 1, ("4",), "unmapped"),
    ]


def test_a_scan_of_values_is_bounded_and_says_so(scanned: tuple[Session, Relation, str]) -> None:
    session, relation, orders = scanned
    scan = scan_values(session, relation, shape_of(session, orders), Reach(200, 60, SystemClock()))
    assert (scan.rows_scanned, scan.complete) == (200, False)


def test_values_are_scanned_before_the_new_columns_exist(primary: Server, schema: str) -> None:
    make_orders(primary, schema, 10, expanded=False)
    script(primary, "UPDATE orders SET status = 'x' WHERE id = 1", schema)
    with closing(Session(settings_of(primary))) as session:
        shape = shape_of(session, schema)
        relation = load_relation(session, runbook(schema).contract, shape)
        scan = scan_values(session, relation, shape, Reach(10**6, 60, SystemClock()))
    assert [(p.mapping, p.value, p.rows) for p in scan.problems] == [("status ↔ state", "'x'", 1)]


def test_the_meter_counts_what_the_way_back_cannot_carry(
    primary: Server, scanned: tuple[Session, Relation, str]
) -> None:
    session, relation, orders = scanned
    script(
        primary,
        "UPDATE orders SET status = 'work', state = 'locked' WHERE id IN (1, 2);"
        "UPDATE orders SET status = 'err', state = 'cancelled' WHERE id = 3;"
        "UPDATE orders SET timeout_s = 2, timeout_ms = 1500 WHERE id = 4",
        orders,
    )
    meter = scan_meter(session, relation, shape_of(session, orders))
    assert [(c.name, c.rows, c.keys) for c in meter.classes] == [
        ("locked", 2, ("1", "2")),
        ("cancelled", 1, ("3",)),
        ("lossy", 1, ("4",)),
    ]


def test_a_scan_that_was_stopped_proves_nothing(scanned: tuple[Session, Relation, str]) -> None:
    session, relation, orders = scanned
    with pytest.raises(Held):
        scan_drift(session, relation, shape_of(session, orders), "corresponds", lambda progress: False)
