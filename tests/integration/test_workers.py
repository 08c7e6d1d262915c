"""Several workers on one backfill: no two ranges overlap, none is left out, whoever dies."""

from __future__ import annotations

import threading

import pytest

from orchestrator.drivers.rows import FillDriver
from orchestrator.errors import Fenced
from orchestrator.model.outcome import GO, Progress, Result, Seen, Signal, SignalKind
from orchestrator.sandbox.server import Server
from tests.support.orders import fill, make_orders, site
from tests.support.rows import ToldBeat, begin_rollout, take_over
from tests.support.servers import script, sql


@pytest.fixture
def orders(primary: Server, schema: str) -> str:
    make_orders(primary, schema, 3000)
    begin_rollout(primary)
    return schema


def ranges(server: Server) -> list[tuple[object, ...]]:
    return sql(server, "SELECT range_no, done FROM _rollout.position ORDER BY range_no")


@pytest.mark.parametrize("workers", [3, 0])
def test_a_backfill_by_several_workers_ends_as_one_by_a_single_one(primary: Server, orders: str, workers: int) -> None:
    driver, step = FillDriver(site(primary, orders)), fill(orders, rows=50, workers=workers)
    paused = driver.apply(step, ToldBeat(answer=lambda n, p: GO if p.done < 700 else Signal(SignalKind.PAUSE, "asked")))
    assert paused.result is Result.PAUSED
    assert driver.observe(step, ToldBeat()) is Seen.PARTIAL
    beat = ToldBeat()
    outcome = driver.apply(step, beat)
    assert outcome.result is Result.DONE
    assert (outcome.figures["rows_done"], outcome.figures["rows_changed"]) == (3000, 3000)
    assert (f"; {workers} workers" if workers else " workers") in outcome.note
    assert driver.observe(step, ToldBeat()) is Seen.PRESENT
    assert sql(primary, f"SELECT COUNT(*) FROM {orders}.orders WHERE state IS NULL OR label IS NULL") == [(0,)]
    assert all(p.done <= p.total for p in beat.seen)


def test_what_three_workers_left_is_finished_by_one(primary: Server, orders: str) -> None:
    driver = FillDriver(site(primary, orders))
    driver.apply(
        fill(orders, rows=50, workers=3),
        ToldBeat(answer=lambda n, p: GO if p.done < 700 else Signal(SignalKind.PAUSE, "asked")),
    )
    assert [done for no, done in ranges(primary) if no].count(0) >= 1, "a range is open"
    outcome = driver.apply(fill(orders, rows=50), ToldBeat())
    assert (outcome.result, outcome.figures["rows_changed"]) == (Result.DONE, 3000)
    assert sql(primary, f"SELECT COUNT(*) FROM {orders}.orders WHERE state IS NULL OR label IS NULL") == [(0,)]


def test_workers_that_lost_the_lease_stop_all_of_them(primary: Server, orders: str) -> None:
    def lose(beats: int, progress: Progress) -> Signal:
        if progress.done > 500 and not taken:
            taken.append(beats)
            take_over(primary, 2)
        return GO

    taken: list[int] = []
    with pytest.raises(Fenced):
        FillDriver(site(primary, orders)).apply(fill(orders, rows=50, workers=3), ToldBeat(answer=lose))
    ((filled,),) = sql(primary, f"SELECT COUNT(*) FROM {orders}.orders WHERE state IS NOT NULL")
    assert sql(primary, "SELECT SUM(rows_changed) FROM _rollout.position") == [(filled,)]
    assert [t.name for t in threading.enumerate() if t.name.startswith("rollout-worker")] == []


def test_a_row_that_is_refused_stops_all_workers_and_is_named(primary: Server, orders: str) -> None:
    script(primary, "UPDATE orders SET status = 'huh' WHERE id = 1500", orders)
    outcome = FillDriver(site(primary, orders)).apply(fill(orders, rows=50, workers=3), ToldBeat())
    assert outcome.result is Result.FAILED
    assert "1500" in outcome.note
    assert sql(primary, f"SELECT state FROM {orders}.orders WHERE id = 1500") == [(None,)]


def test_all_workers_wait_while_a_check_holds(primary: Server, orders: str) -> None:
    seen: list[int] = []

    def hold(beats: int, progress: Progress) -> Signal:
        if progress.done > 500 and len(seen) < 12:
            seen.append(int(sql(primary, "SELECT SUM(rows_done) FROM _rollout.position")[0][0]))
            return Signal(SignalKind.HOLD, "replication-lag 7.2s > 5.0s on replica-2")
        return GO

    outcome = FillDriver(site(primary, orders)).apply(fill(orders, rows=50, workers=3), ToldBeat(answer=hold))
    assert outcome.result is Result.DONE
    assert len(set(seen[4:])) == 1, "after the batches under way nothing moves"
    assert "replica-2" in outcome.note
