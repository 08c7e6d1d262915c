"""What is said of replicas is true of replicas that stand still, are late on purpose, are gone, or do not answer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from orchestrator.checks.replica_health import ReplicaHealth
from orchestrator.checks.replica_locks import ReplicaLocks
from orchestrator.checks.replication_lag import ReplicationLag
from orchestrator.errors import AnotherServer
from orchestrator.model.facts import Facts, Need, Reading, ReplicaFacts
from orchestrator.model.runbook import Limits, ReplicaPolicy
from orchestrator.model.verdict import Judgement, Verdict
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.look.discovery import Address, split_address
from orchestrator.mysql.look.replicas import reach
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.site import Site
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import APPLICATION, ROOT
from tests.support.looking import TABLE, observing, runbook, small_account, working
from tests.support.lossy import Loss, LossyWay, lossy_way
from tests.support.servers import connect, script, sql, wait_caught_up, wait_for
from tests.support.state import settings_of
from tests.support.ways import spreading


@pytest.fixture
def sick(pair: Pair) -> Iterator[Server]:
    """The replica, to be made ill; it is well again after the test."""
    yield pair.replica
    script(pair.replica, "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 0; START REPLICA")
    wait_caught_up(pair)


@pytest.fixture
def observer(pair: Pair, schema: str) -> Iterator[MysqlObserver]:
    script(pair.primary, TABLE, schema)
    wait_caught_up(pair)
    with observing(pair.primary, runbook(schema)) as opened:
        yield opened


def test_a_session_with_a_replica_that_is_opened_again_is_never_one_with_another_server(
    pair: Pair, schema: str
) -> None:
    """Else whoever has its address now would be taken for it, and it for well."""
    with spreading(pair.replica, pair.primary) as way:
        address = Address("replica", ("127.0.0.1",), way.port)
        site = Site(settings_of(pair.primary), runbook(schema), SystemClock())
        with closing(reach(address, site)) as session:
            way.turn(cut=True)
            with pytest.raises(ServerError):
                session.value("SELECT @@server_uuid")
            with pytest.raises(AnotherServer):
                session.value("SELECT @@server_uuid")


@contextmanager
def far(pair: Pair, schema: str) -> Iterator[tuple[LossyWay, MysqlObserver]]:
    """The replica at the end of a way that can be made long."""
    with lossy_way(pair.replica) as way:
        named = ReplicaPolicy("list", (f"127.0.0.1:{way.port}",))
        with observing(pair.primary, runbook(schema, replicas=named)) as observer:
            yield way, observer


def look(observer: MysqlObserver) -> ReplicaFacts:
    """The one replica of the pair."""
    reading = observer.look(frozenset({Need.REPLICAS})).replicas
    assert reading is not None
    assert reading.value is not None, reading.unseen
    (facts,) = reading.value
    return facts


def until(observer: MysqlObserver, said: Callable[[ReplicaFacts], bool]) -> ReplicaFacts:
    """The first facts of which ``said`` holds."""
    last: list[ReplicaFacts] = []

    def is_so() -> bool:
        last.append(look(observer))
        return said(last[-1])

    try:
        wait_for(is_so, 15.0)
    except AssertionError as error:
        raise AssertionError(f"last: {last[-1]}") from error
    return last[-1]


def judged(facts: ReplicaFacts) -> tuple[Verdict, Verdict]:
    """What lag and health say of it."""
    reading = Facts(replicas=Reading(0.0, (facts,)))
    policy = ReplicaPolicy()
    return ReplicationLag(policy).judge(reading, Limits(), 0.0), ReplicaHealth(policy).judge(reading, Limits(), 0.0)


def test_a_replica_that_has_everything_is_not_behind_however_long_nothing_was_written(
    observer: MysqlObserver, pair: Pair
) -> None:
    facts = look(observer)
    assert facts.name == f"{pair.replica.host}:{pair.replica.port}"
    assert (facts.lag_s, facts.caught_up, facts.problem) == (0.0, True, "")
    assert all(v.good for v in judged(facts))


def test_while_we_work_the_heartbeat_tells_the_lag_below_a_second(observer: MysqlObserver, primary: Server) -> None:
    with working(primary):
        facts = until(observer, lambda f: f.lag_s is not None and f.lag_s > 0)
        assert facts.lag_s is not None
        assert facts.lag_s < 1.0


@pytest.mark.parametrize("moved", ["- INTERVAL 744 SECOND", "+ INTERVAL 744 SECOND"])
def test_a_heartbeat_of_an_earlier_command_or_of_another_clock_is_no_lag(
    observer: MysqlObserver, primary: Server, pair: Pair, moved: str
) -> None:
    """Case B87: only the primary's clock counts, and no lag is negative."""
    with working(primary):
        until(observer, lambda f: f.lag_s is not None and f.lag_s > 0)
    script(primary, f"UPDATE _rollout.heartbeat SET at = UTC_TIMESTAMP(6) {moved}")
    wait_caught_up(pair)
    assert look(observer).lag_s == 0.0
    with working(primary):
        seen = [look(observer) for _ in range(10)]
    assert all(f.lag_s is not None and f.lag_s < 5.0 for f in seen), seen


def has_heartbeat(server: Server) -> bool:
    """Whether a heartbeat row has arrived there."""
    there = (
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_rollout' AND TABLE_NAME = 'heartbeat'"
    )
    return bool(sql(server, there)[0][0] and sql(server, "SELECT COUNT(*) FROM _rollout.heartbeat")[0][0])


@pytest.mark.parametrize("thread", ["SQL_THREAD", "IO_THREAD"])
def test_a_stopped_thread_grows_the_lag_and_is_broken_not_late(
    observer: MysqlObserver, primary: Server, sick: Server, thread: str
) -> None:
    with working(primary):
        wait_for(lambda: has_heartbeat(sick), 15.0, "the replica has a heartbeat that can grow old")
        until(observer, lambda f: f.lag_s is not None)
        script(sick, f"STOP REPLICA {thread}")
        facts = until(observer, lambda f: (f.lag_s or 0.0) > 1.5)
        assert facts.caught_up is False
        assert "stopped" in facts.problem
        assert (facts.io_running, facts.sql_running) == (thread != "IO_THREAD", thread != "SQL_THREAD")
        health = judged(facts)[1]
        assert health.judgement is Judgement.HOLD
        assert health.goes_back
        script(sick, f"START REPLICA {thread}")
        until(observer, lambda f: f.lag_s is not None and f.lag_s < 1.0 and not f.problem)


def test_without_a_heartbeat_a_stopped_replica_that_misses_something_cannot_say(
    observer: MysqlObserver, primary: Server, sick: Server, schema: str
) -> None:
    script(sick, "STOP REPLICA SQL_THREAD")
    facts = until(observer, lambda f: not f.sql_running)
    assert (facts.lag_s, facts.caught_up) == (0.0, True)
    assert not judged(facts)[1].good
    sql(primary, "INSERT INTO t VALUES (3, 'new')", database=schema)
    facts = look(observer)
    assert (facts.lag_s, facts.caught_up) == (None, False)
    assert judged(facts)[0].judgement is Judgement.UNSEEN


def test_without_a_heartbeat_the_age_of_what_is_missing_is_the_lag(
    observer: MysqlObserver, primary: Server, replica: Server, schema: str
) -> None:
    blocker = connect(replica, ROOT, schema)
    try:
        with blocker.cursor() as cursor:
            cursor.execute("LOCK TABLES t READ")
        sql(primary, "INSERT INTO t VALUES (4, 'new')", database=schema)
        began = time.monotonic()
        first = until(observer, lambda f: f.caught_up is False and f.lag_s is not None)
        second = until(observer, lambda f: (f.lag_s or 0.0) > 1.0)
        assert first.lag_s is not None
        assert second.lag_s is not None
        assert second.lag_s <= time.monotonic() - began + 0.5
    finally:
        blocker.close()
    until(observer, lambda f: f.lag_s == 0.0)


def test_a_delayed_replica_is_late_says_why_and_is_not_broken(
    observer: MysqlObserver, primary: Server, sick: Server
) -> None:
    script(sick, "STOP REPLICA SQL_THREAD; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = 2; START REPLICA SQL_THREAD")
    with working(primary):
        facts = until(observer, lambda f: f.lag_s is not None and f.lag_s > 1.9)
        assert facts.delay_s == 2
        assert judged(facts)[1].good
        assert facts.lag_s is not None
        assert facts.lag_s < 4.0


def test_a_replica_that_is_shut_down_is_out_of_reach_and_never_forgotten(
    observer: MysqlObserver, sick: Server, pair: Pair
) -> None:
    look(observer)
    sick.stop(grace_s=10)
    try:
        facts = until(observer, lambda f: not f.reachable)
        assert facts.problem
        assert facts.lag_s is None
        assert all(v.judgement is Judgement.UNSEEN for v in judged(facts))
        for (id,) in sql(
            pair.primary, "SELECT ID FROM performance_schema.processlist WHERE COMMAND LIKE 'Binlog Dump%'"
        ):
            script(pair.primary, f"KILL {id}")
        wait_for(lambda: not sql(pair.primary, "SHOW REPLICAS"), 20.0, "the primary forgets it")
        assert not look(observer).reachable
    finally:
        sick.start()
        sick.wait_ready()
    until(observer, lambda f: f.reachable and f.io_running)


def test_a_replica_that_does_not_answer_stops_no_beat(observer: MysqlObserver, sick: Server) -> None:
    look(observer)
    os.kill(sick.pid, signal.SIGSTOP)
    try:
        took = []
        for _ in range(4):
            began = time.monotonic()
            facts = look(observer)
            took.append(time.monotonic() - began)
            assert not facts.reachable
            assert judged(facts)[0].judgement is Judgement.UNSEEN
        assert took[0] < 3.0
        assert max(took[1:]) < 0.6
    finally:
        os.kill(sick.pid, signal.SIGCONT)
    until(observer, lambda f: f.reachable)


def test_a_far_replica_that_was_missed_once_is_seen_again(pair: Pair, schema: str) -> None:
    """A look takes several times its way there and back, and a session more: longer than anybody waits for one who gave
    no answer the last time. Beats come when the answer has come, and nobody waits for it any more."""
    with far(pair, schema) as (way, observer):
        way.far_s = 0.05
        assert look(observer).reachable
        way.lose = Loss.ANSWER
        assert not look(observer).reachable
        seen = []
        for _ in range(4):
            wait_for(lambda: time.monotonic() - way.spoke_at > 0.3, 10)
            seen.append(look(observer).reachable)
    assert seen[1:] == [True] * 3


def test_an_answer_to_an_earlier_look_is_not_taken_for_the_present(pair: Pair, schema: str, sick: Server) -> None:
    """It says that the replica had what the primary had then. What is written here comes after that, and never
    arrives."""
    with far(pair, schema) as (way, observer):
        script(sick, "STOP REPLICA SQL_THREAD")
        until(observer, lambda f: f.caught_up is True)
        way.far_s = 0.6
        assert not look(observer).reachable
        script(pair.primary, "CREATE TABLE late (id INT PRIMARY KEY)", schema)
        way.far_s = 0.0
        assert until(observer, lambda f: f.reachable).caught_up is False


def test_a_replica_without_report_host_is_found_by_where_its_dump_thread_comes_from(
    observer: MysqlObserver, sick: Server, pair: Pair
) -> None:
    argv = sick.argv
    sick.argv = tuple(a for a in argv if not a.startswith("--report-"))
    try:
        sick.restart()
        wait_for(lambda: [r for r in sql(pair.primary, "SHOW REPLICAS") if r[1] == ""], 40.0, "a replica without host")
        with observing(pair.primary, runbook("any")) as fresh:
            facts = until(fresh, lambda f: f.reachable)
            assert facts.name.startswith("server-")
    finally:
        sick.argv = argv
        sick.restart()
    wait_for(lambda: [r for r in sql(pair.primary, "SHOW REPLICAS") if r[1]], 40.0, "a replica with its host")


def test_a_filter_that_keeps_the_heartbeat_away_leaves_the_lag_to_what_is_missing(
    observer: MysqlObserver, primary: Server, sick: Server
) -> None:
    """Case B92: nobody waits for a row that never comes."""
    with working(primary):
        wait_for(lambda: has_heartbeat(sick), 15.0, "a heartbeat that stands still from now on")
        filtered = (
            "STOP REPLICA SQL_THREAD; CHANGE REPLICATION FILTER REPLICATE_IGNORE_DB = ({}); START REPLICA SQL_THREAD"
        )
        try:
            script(sick, filtered.format("_rollout"))
            facts = until(observer, lambda f: f.sql_running and f.lag_s is not None)
            assert all(verdict.good for verdict in judged(facts)), facts
        finally:
            script(sick, filtered.format(""))


def test_a_server_that_is_not_our_replica_is_said_to_be_none(pair: Pair, schema: str) -> None:
    me = f"{pair.primary.host}:{pair.primary.port}"
    with observing(pair.primary, runbook(schema, replicas=ReplicaPolicy("list", (me,)))) as observer:
        facts = look(observer)
    assert "does not replicate" in facts.problem
    assert not judged(facts)[1].good


def test_a_named_replica_that_nobody_answers_for_is_out_of_reach(pair: Pair, schema: str) -> None:
    names = (f"{pair.replica.host}:{pair.replica.port}", "127.0.0.1:1")
    with observing(pair.primary, runbook(schema, replicas=ReplicaPolicy("list", names))) as observer:
        reading = observer.look(frozenset({Need.REPLICAS})).replicas
    assert reading is not None
    assert reading.value is not None
    assert [r.reachable for r in reading.value] == [True, False]


def test_without_the_right_to_see_replicas_there_is_never_none(primary: Server, schema: str) -> None:
    """Case B88: what cannot be seen is not absent."""
    with (
        small_account(primary, "norepl", "GRANT SELECT ON performance_schema.* TO {who}") as account,
        observing(primary, runbook(schema), account) as observer,
    ):
        reading = observer.look(frozenset({Need.REPLICAS})).replicas
    assert reading is not None
    assert not reading.seen
    assert reading.value is None
    assert reading.grant == "GRANT REPLICATION SLAVE ON *.* TO `norepl`@`127.0.0.1`;"


def test_a_policy_of_none_looks_at_none(primary: Server, schema: str) -> None:
    with observing(primary, runbook(schema, replicas=ReplicaPolicy("none", reason="test"))) as observer:
        reading = observer.look(frozenset({Need.REPLICAS})).replicas
    assert reading is not None
    assert reading.value == ()


def test_a_reader_on_the_replica_is_seen_before_an_alter(observer: MysqlObserver, replica: Server, schema: str) -> None:
    reader = connect(replica, APPLICATION, schema, autocommit=False)
    try:
        with reader.cursor() as cursor:
            cursor.execute("SELECT * FROM t")
        facts = observer.look(frozenset({Need.REPLICA_LOCKS}))
        assert facts.replica_locks is not None
        assert facts.replica_locks.value is not None
        (holder,) = facts.replica_locks.value[0].holders
        assert (holder.user, holder.idle, holder.table) == (APPLICATION.user, True, f"{schema}.t")
        later = Limits(metadata_lock_age_s=0.0)
        assert ReplicaLocks().judge(facts, later, facts.replica_locks.at).judgement is Judgement.HOLD
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("db2:3307", ("db2", 3307)),
        ("db2", ("db2", 3306)),
        ("[::1]:3307", ("::1", 3307)),
        ("::1", ("::1", 3306)),
        ("10.0.0.7:51234", ("10.0.0.7", 51234)),
    ],
)
def test_an_address_is_read_as_it_is_written(written: str, address: tuple[str, int]) -> None:
    assert split_address(written) == address
