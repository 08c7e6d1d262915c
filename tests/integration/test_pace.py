"""Work on rows in a crowd: others' statements under way, here such that wait for one row."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

import pymysql
import pytest
from msgspec.structs import replace

from orchestrator.drivers.rows import CompareDriver, FillDriver
from orchestrator.model.contract import TableName
from orchestrator.model.facts import Need
from orchestrator.model.outcome import Outcome, Progress, Result
from orchestrator.model.step import Compare
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.pace import NO_REST, Pace
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from tests.support.looking import small_account
from tests.support.orders import fill, make_orders, site
from tests.support.rows import ToldBeat, begin_rollout
from tests.support.servers import connect, script, sql, wait_for
from tests.support.state import settings_of

ONE_IS_MANY = 0
CROWD = 3


@pytest.fixture
def orders(primary: Server, schema: str) -> str:
    make_orders(primary, schema, 1000)
    script(primary, "CREATE TABLE held (id INT PRIMARY KEY); INSERT INTO held VALUES (1)", database=schema)
    begin_rollout(primary)
    return schema


@contextmanager
def crowd(
    server: Server, schema: str, statement: str = "SELECT * FROM held FOR UPDATE", many: int = CROWD
) -> Iterator[None]:
    """So many sessions that say the statement until the end, while another one holds the row that it may wait for."""
    with ExitStack() as stack:
        holder = stack.enter_context(closing(connect(server, database=schema)))
        holder.begin()
        with holder.cursor() as cursor:
            cursor.execute("SELECT * FROM held FOR UPDATE")
        for _ in range(many):
            session = stack.enter_context(closing(connect(server, database=schema)))
            thread = threading.Thread(target=_says, args=(session, statement), daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(sql, server, f"KILL {session.thread_id()}")
        wait_for(lambda: _saying(server, statement) == many, what="a crowd")
        yield


def _says(session: pymysql.Connection, statement: str) -> None:  # type: ignore[type-arg]
    with suppress(pymysql.Error), session.cursor() as cursor:
        cursor.execute(statement)


def _saying(server: Server, statement: str) -> int:
    found = sql(server, "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_INFO = %s", (statement,))
    return int(found[0][0])


def crowded(server: Server, schema: str) -> Site:
    of = site(server, schema)
    return replace(of, runbook=replace(of.runbook, limits=replace(of.runbook.limits, rest_above=ONE_IS_MANY)))


def test_rests_grow_while_the_crowd_stays_and_end_behind_it(primary: Server, orders: str) -> None:
    with closing(Session(settings_of(primary))) as session:
        pace = Pace(ONE_IS_MANY)
        assert pace.after(session, 0.01) == NO_REST
        with crowd(primary, orders):
            rests = [pace.after(session, 0.01) for _ in range(8)]
        seconds = [round(rest.seconds, 6) for rest in rests]
        assert seconds == [0.01, 0.02, 0.04, 0.08, 0.16, 0.16, 0.16, 0.16]
        assert rests[-1].share == 1 / 8
        assert rests[0].reason.startswith(f"threads-running {CROWD}, more than 0")
        assert pace.after(session, 100.0).seconds == 1.0, "at most"
        after = [pace.after(session, 0.01) for _ in range(60)]
        assert after[0].seconds > after[20].seconds > 0
        assert after[-1] == NO_REST


def test_who_only_sleeps_is_no_crowd_and_neither_are_sessions_of_ours(primary: Server, orders: str) -> None:
    with closing(Session(settings_of(primary))) as session, crowd(primary, orders, "SELECT SLEEP(60)"):
        assert Pace(ONE_IS_MANY).after(session, 0.01) == NO_REST
    with closing(Session(settings_of(primary))) as session, closing(Session(settings_of(primary))) as ours:
        ours.execute("SELECT GET_LOCK('pace', 10)")
        busy = threading.Thread(target=lambda: ours.query("SELECT BENCHMARK(3000000, SHA2('x', 512))"))
        busy.start()
        try:
            wait_for(lambda: _saying(primary, "SELECT BENCHMARK(3000000, SHA2('x', 512))") == 1, what="work of ours")
            assert Pace(ONE_IS_MANY).after(session, 0.01) == NO_REST
        finally:
            busy.join()


def test_what_applies_a_replicas_events_is_no_crowd(pair: Pair, orders: str) -> None:
    """Under whose name ever: that of who started the replica."""
    script(pair.replica, "STOP REPLICA; START REPLICA")
    script(pair.primary, "INSERT INTO held VALUES (2)", database=orders)
    with closing(Session(settings_of(pair.replica))) as session:
        applying = "SELECT PROCESSLIST_COMMAND FROM performance_schema.threads WHERE NAME LIKE %s"
        wait_for(lambda: ("Query",) in session.query(applying, ("%replica_worker",)), what="an event that is applied")
        assert Pace(ONE_IS_MANY).after(session, 0.01) == NO_REST


def test_a_crowd_is_more_than_the_processors_serve_where_they_are_shown(primary: Server, orders: str) -> None:
    """They are to who may use resource groups; to others a number has to be said."""
    shown = "GRANT SELECT ON performance_schema.* TO {who}; GRANT RESOURCE_GROUP_USER ON *.* TO {who}"
    unshown = "GRANT SELECT ON performance_schema.* TO {who}"
    processors = len(os.sched_getaffinity(0))
    with crowd(primary, orders, many=int(2.5 * processors) + 1):
        for grants, said, rests in [(shown, None, 0.01), (unshown, None, 0.0), (unshown, 1, 0.01)]:
            with (
                small_account(primary, "pace_small", grants) as account,
                closing(Session(settings_of(primary, account=account))) as session,
            ):
                assert Pace(said).after(session, 0.01).seconds == rests
    with closing(Session(settings_of(primary))) as session, crowd(primary, orders, many=int(2.5 * processors)):
        assert Pace(None).after(session, 0.01) == NO_REST


def test_who_cannot_see_what_is_under_way_does_not_rest(primary: Server, orders: str) -> None:
    with (
        crowd(primary, orders),
        small_account(primary, "pace_blind", f"GRANT SELECT ON {orders}.* TO {{who}}") as account,
        closing(Session(settings_of(primary, account=account))) as session,
    ):
        assert Pace(ONE_IS_MANY).after(session, 0.01) == NO_REST


@pytest.mark.parametrize("pass_name", ["backfill", "sweep"])
def test_a_fill_in_a_crowd_is_whole_and_says_for_what_it_rested(primary: Server, orders: str, pass_name: str) -> None:
    def filled() -> Outcome:
        return FillDriver(crowded(primary, orders)).apply(fill(orders, pass_name, 100), ToldBeat())  # type: ignore[arg-type]

    with crowd(primary, orders):
        outcome = filled()
    assert outcome.result is Result.DONE, outcome
    assert ": threads-running 3, more than " in outcome.note
    assert sql(primary, "SELECT COUNT(*) FROM orders WHERE state IS NULL", database=orders)[0][0] == 0


def test_several_workers_rest_as_one_does(primary: Server, orders: str) -> None:
    with crowd(primary, orders):
        outcome = FillDriver(crowded(primary, orders)).apply(fill(orders, rows=100, workers=2), ToldBeat())
    assert outcome.result is Result.DONE, outcome
    assert ": threads-running " in outcome.note
    assert sql(primary, "SELECT COUNT(*) FROM orders WHERE state IS NULL", database=orders)[0][0] == 0


def test_what_only_reads_rests_too_and_says_so_on_its_beats(primary: Server, orders: str) -> None:
    FillDriver(site(primary, orders)).apply(fill(orders), ToldBeat())
    step = Compare(
        table=TableName(orders, "orders"), relation="corresponds", purpose="drift", target_time_s=1e-6, walk=1
    )
    beat, told = ToldBeat(), list[Progress]()

    def goes_on(progress: Progress) -> bool:
        told.append(progress)
        return True

    with crowd(primary, orders):
        outcome = CompareDriver(crowded(primary, orders)).apply(step, beat)
        observer = MysqlObserver(crowded(primary, orders))
        with closing(observer):
            drift = observer.look(frozenset({Need.DRIFT}), goes_on).drift
    assert outcome.result is Result.DONE, outcome
    assert any(p.throttled_by.startswith("threads-running 3, more than ") for p in beat.seen)
    assert drift is not None
    assert drift.value is not None
    assert drift.value.mismatches == 0
