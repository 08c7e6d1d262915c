"""What must be over before the mirror comes down: each condition of its order, broken once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from orchestrator.drivers.waiting import WaitDriver
from orchestrator.model.contract import Contract, TableName
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.step import Drain
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import ROOT
from tests.support.ddl import Beats, held, site_on
from tests.support.servers import connect, script, wait_for


@pytest.fixture
def table(primary: Server, schema: str) -> Iterator[TableName]:
    script(primary, "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 1), (2, 2)", schema)
    return TableName(schema, "t")


def drained(primary: Server, table: TableName, poll_s: float = 0.1) -> Outcome:
    site = site_on(primary, Contract(table, ()), max_wait_s=0.6)
    return WaitDriver(site, MysqlObserver(site)).apply(Drain(table=table, poll_s=poll_s), Beats())


def test_a_transaction_begun_before_and_idle_since_keeps_the_mirror_up(primary: Server, table: TableName) -> None:
    """It has said nothing for longer than any quiet, and may still write what it read the flag for."""
    with held(primary, "BEGIN", f"UPDATE {table} SET n = 3 WHERE id = 1") as idle:
        time_passes(primary)
        outcome = drained(primary, table)
        assert outcome.result is Result.HELD
        assert f"session {idle.thread_id()} has a transaction open" in outcome.note
    assert drained(primary, table).result is Result.DONE


def test_a_transaction_that_has_touched_nothing_yet_keeps_the_mirror_up(primary: Server, table: TableName) -> None:
    with held(primary, "BEGIN") as idle:
        time_passes(primary)
        outcome = drained(primary, table)
        assert (outcome.result, str(idle.thread_id()) in outcome.note) == (Result.HELD, True)


def test_a_prepared_xa_that_outlived_its_session_keeps_the_mirror_up(primary: Server, table: TableName) -> None:
    xid = f"'undoing {table.schema}'"
    with closing(connect(primary, ROOT)) as session, session.cursor() as cursor:
        for said in (f"XA START {xid}", f"UPDATE {table} SET n = 3", f"XA END {xid}", f"XA PREPARE {xid}"):
            cursor.execute(said)
    try:
        time_passes(primary)
        outcome = drained(primary, table)
        assert outcome.result is Result.HELD
        assert "prepared XA" in outcome.note
    finally:
        script(primary, f"XA ROLLBACK {xid}")
    assert drained(primary, table).result is Result.DONE


def test_a_reader_of_a_cached_flag_has_one_poll_to_hear_that_it_went_down(primary: Server, table: TableName) -> None:
    began = time.monotonic()
    assert drained(primary, table, poll_s=0.7).result is Result.DONE
    assert time.monotonic() - began >= 0.7


def time_passes(primary: Server) -> None:
    """The server tells a transaction's age in whole seconds: one that began before is a second old."""
    begun = time.monotonic()
    wait_for(lambda: time.monotonic() - begun > 1.1, 5)
