"""A replica that is rebuilt from nothing while a command looks: a new server at its address, and then a replica."""

from __future__ import annotations

import shutil

import pytest

from orchestrator.checks.replica_health import ReplicaHealth
from orchestrator.model.facts import Facts, Need, Reading, ReplicaFacts
from orchestrator.model.runbook import Limits, ReplicaPolicy
from orchestrator.model.verdict import Verdict
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.sandbox.mysqld import find_mysqld
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.places import cache_folder
from orchestrator.sandbox.template import REPLICATION, copy_template, template
from tests.support.looking import TABLE, observing, runbook
from tests.support.servers import guarded_pair, script, wait_caught_up, wait_for


def look(observer: MysqlObserver) -> tuple[ReplicaFacts, ...]:
    reading = observer.look(frozenset({Need.REPLICAS})).replicas
    assert reading is not None
    return reading.value or ()


def judged(facts: tuple[ReplicaFacts, ...]) -> Verdict:
    return ReplicaHealth(ReplicaPolicy()).judge(Facts(replicas=Reading(0.0, facts)), Limits(), 0.0)


def another_in_its_place(pair: Pair) -> None:
    """An empty server answers at the replica's address."""
    pair.replica.kill9()
    shutil.rmtree(pair.replica.datadir)
    copy_template(template(find_mysqld(), cache_folder()), pair.replica.datadir)
    pair.replica.start()
    pair.replica.wait_ready()


def linked(pair: Pair) -> None:
    """It copies all that the primary has."""
    script(
        pair.replica,
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{pair.primary.host}', SOURCE_PORT={pair.primary.port},"
        f" SOURCE_USER='{REPLICATION.user}', SOURCE_PASSWORD='{REPLICATION.password}', SOURCE_AUTO_POSITION=1,"
        " SOURCE_CONNECT_RETRY=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA",
    )
    wait_caught_up(pair)


@pytest.mark.faults
@pytest.mark.slow  # a pair of its own
def test_another_server_in_a_replicas_place_holds_the_command_that_knew_the_old_one_and_not_the_next() -> None:
    with guarded_pair() as pair:
        script(pair.primary, "CREATE DATABASE app")
        script(pair.primary, TABLE, "app")
        wait_caught_up(pair)
        with observing(pair.primary, runbook("app")) as observer:
            wait_for(lambda: judged(look(observer)).good, 20, "the replica is well")
            another_in_its_place(pair)
            for _ in range(20):
                seen = look(observer)
                assert not judged(seen).good, seen
            linked(pair)
            seen = look(observer)
            assert not judged(seen).good, "whom this command knew is gone, and it does not forget"
            assert "another server answers" in " ".join(facts.problem for facts in seen)
        with observing(pair.primary, runbook("app")) as observer:
            wait_for(lambda: judged(look(observer)).good, 20, "the next command knows the new one alone")
