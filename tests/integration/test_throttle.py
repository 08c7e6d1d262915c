"""Work on rows waits for what the user says: a query, a command, the application's own latency."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.checks.throttle import Throttle
from orchestrator.drivers.reads.gates import Gates
from orchestrator.drivers.reads.sampling import Samples
from orchestrator.model.facts import Facts, GateSample, Need, Reading
from orchestrator.model.runbook import GateSpec, Limits
from orchestrator.model.verdict import Judgement
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.sandbox.server import Server
from tests.support.orders import make_orders, site
from tests.support.servers import script, sql, wait_for


@contextmanager
def watched(primary: Server, schema: str, gate: GateSpec) -> Iterator[MysqlObserver]:
    here, clock = site(primary, schema), SystemClock()
    observer = MysqlObserver(here, samples=lambda: samples.latest())
    gates = Gates(here, lambda: MysqlObserver(here))
    samples = Samples([gate], gates, clock)
    try:
        yield observer
    finally:
        gates.close()
        observer.close()


def judged(observer: MysqlObserver, gate: GateSpec, limits: Limits | None = None) -> tuple[Judgement, str]:
    facts: Facts = observer.look(frozenset({Need.THROTTLES}))
    verdict = Throttle(gate).judge(facts, limits or Limits(), SystemClock().monotonic())
    return verdict.judgement, verdict.reason


def test_a_query_of_the_user_s_holds_work_while_it_is_over_its_max(primary: Server, schema: str) -> None:
    make_orders(primary, schema, 1)
    script(primary, "CREATE TABLE latency (p99_ms INT); INSERT INTO latency VALUES (20)", schema)
    gate = GateSpec("app-p99", "sql", f"SELECT MAX(p99_ms) FROM {schema}.latency", max=50.0, interval_s=0.05)
    with watched(primary, schema, gate) as observer:
        assert judged(observer, gate) == (Judgement.PASS, "app-p99 20")
        sql(primary, f"UPDATE {schema}.latency SET p99_ms = 120")
        wait_for(lambda: judged(observer, gate) == (Judgement.HOLD, "app-p99 120 > 50"))
        sql(primary, f"UPDATE {schema}.latency SET p99_ms = 30")
        wait_for(lambda: judged(observer, gate) == (Judgement.PASS, "app-p99 30"))
        sql(primary, f"DELETE FROM {schema}.latency")
        wait_for(lambda: judged(observer, gate)[0] is Judgement.UNSEEN)


def test_a_command_that_hangs_keeps_no_beat_waiting_and_is_never_good(
    primary: Server, schema: str, tmp_path: Path
) -> None:
    make_orders(primary, schema, 1)
    pipe = tmp_path / "pipe"
    pipe.write_text("3")
    gate = GateSpec("queue", "command", f"cat {pipe}", max=5.0, interval_s=0.05, timeout_s=60.0)
    with watched(primary, schema, gate) as observer:
        assert judged(observer, gate) == (Judgement.PASS, "queue 3")
        pipe.unlink()
        os.mkfifo(pipe)
        wait_for(lambda: "s old" in judged(observer, gate, Limits(stale_after_s=0.3))[1])
        release = threading.Thread(target=pipe.write_text, args=("9",))
        release.start()
        wait_for(lambda: judged(observer, gate) == (Judgement.HOLD, "queue 9 > 5"))
        release.join()
        pipe.unlink()


@pytest.mark.parametrize(("number", "judgement"), [(0.0, Judgement.PASS), (1.0, Judgement.HOLD)])
def test_a_command_without_a_max_says_yes_or_no(number: float, judgement: Judgement) -> None:
    gate = GateSpec("calm", "command", "true")
    facts = Facts(throttles=Reading(0.0, (GateSample("calm", number, "", 0.0),)))
    assert Throttle(gate).judge(facts, Limits(), 1.0).judgement is judgement
