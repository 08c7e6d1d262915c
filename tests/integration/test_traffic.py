"""Two applications on a real pair: the ledger finds what was lost and nothing else, and the flags are obeyed."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from random import Random

import pymysql
import pytest

from orchestrator.mysql import quote
from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.mysql.session import Session
from orchestrator.sandbox.applications import Means, Setting, Worker
from orchestrator.sandbox.arguments import Source
from orchestrator.sandbox.flag_reader import Decision
from orchestrator.sandbox.ledger import Ledger
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.rows import Rows
from orchestrator.sandbox.script import Operation, Script
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.statements import parse
from orchestrator.sandbox.traffic import Traffic
from orchestrator.sandbox.waits import Tally
from tests.support.servers import sql, wait_caught_up, wait_for
from tests.support.state import settings_of
from tests.support.traffic import (
    RUNBOOKS,
    Prepared,
    close_flag,
    drop_mirror,
    expand,
    open_flag,
    prepared,
    raise_mirror,
    sweep,
)

ROWS = 250


@contextmanager
def _traffic(at: Prepared, pace: float = 400.0) -> Iterator[Traffic]:
    traffic = Traffic(at.settings, at.runbook, at.shape, seed=7, pace=pace)
    try:
        yield traffic
    finally:
        traffic.stop()


def _more(traffic: Traffic, what: str, by: int, name: str = "new") -> None:
    """Until the application has done that many more."""
    enough = getattr(traffic.stats(name), what) + by
    wait_for(lambda: getattr(traffic.stats(name), what) >= enough, 60.0, f"{by} more {what} of {name}")


def _whole_life(at: Prepared, traffic: Traffic) -> None:
    """Both applications through all that a rollout does to the table."""
    traffic.start_old()
    traffic.start_new()
    _more(traffic, "writes", 30)
    expand(at)
    relation = raise_mirror(at)
    sweep(at, relation)
    open_flag(at, 50)
    _more(traffic, "new_column_writes", 80)
    _more(traffic, "new_column_reads", 20)
    traffic.stop()


@pytest.mark.parametrize("name", RUNBOOKS)
def test_what_was_written_is_what_is_there_on_primary_and_replica(pair: Pair, schema: str, name: str) -> None:
    with prepared(pair.primary, name, schema, ROWS) as at, _traffic(at) as traffic:
        _whole_life(at, traffic)
        wait_caught_up(pair)
        stats = traffic.stats()
        assert (stats.errors, stats.error_texts, stats.stale_reads) == (0, (), 0)
        assert traffic.ledger.compare(at.session) == []
        with closing(Session(settings_of(pair.replica), role="test")) as replica:
            assert traffic.ledger.compare(replica) == []
        contested = Counter(write.key for write in traffic.ledger.written())
        assert max(contested.values()) >= 5


@pytest.mark.parametrize("name", ["aijob"])
def test_a_way_back_and_forward_again_keeps_the_ledger_right(primary: Server, schema: str, name: str) -> None:
    with prepared(primary, name, schema, ROWS) as at, _traffic(at) as traffic:
        _whole_life(at, traffic)
        close_flag(at)
        traffic.start_old()
        traffic.start_new()
        _more(traffic, "writes", 40)
        drop_mirror(at)
        traffic.ledger.old_is_truth()
        _more(traffic, "writes", 40)
        sweep(at, raise_mirror(at))
        _more(traffic, "writes", 20)
        traffic.stop()
        assert traffic.ledger.compare(at.session) == []


def test_the_new_application_alone_without_mirror_and_flag_loses_nothing(primary: Server, schema: str) -> None:
    with prepared(primary, "orders", schema, ROWS) as at, _traffic(at) as traffic:
        _whole_life(at, traffic)
        traffic.release_without_flag()
        close_flag(at)
        traffic.start_new()
        _more(traffic, "new_column_writes", 40)
        drop_mirror(at)
        _more(traffic, "new_column_writes", 40)
        traffic.stop()
        assert traffic.stats().errors == 0
        assert traffic.ledger.compare(at.session) == []


def test_the_ledger_finds_lost_writes_wrong_partners_and_rows_that_are_gone(primary: Server, schema: str) -> None:
    with prepared(primary, "aijob", schema, ROWS) as at, _traffic(at) as traffic:
        _whole_life(at, traffic)
        drop_mirror(at)
        written = [k for k, rows in traffic.ledger.expected().items() if rows[0] and rows[0]["status"] == "processing"]
        spoiled = {
            "SET retryCount = 777777, attemptCount = 777777": {"retrycount", "attemptcount"},
            "SET priority = priority + 1": {"priority"},
            "SET lifecycleStatus = 'succeeded'": {"lifecyclestatus"},
            "SET status = 'failed', lifecycleStatus = 'failed'": {"status", "lifecyclestatus"},
        }
        for (key,), change in zip(written, spoiled, strict=False):
            at.session.execute(f"UPDATE {at.table} {change} WHERE id = {quote.text(str(key))}")
        gone = str(written[len(spoiled)][0])
        at.session.execute(f"DELETE FROM {at.table} WHERE id = {quote.text(gone)}")
        found: dict[str, set[str]] = {}
        for difference in traffic.ledger.compare(at.session):
            found.setdefault(difference.key, set()).add(difference.column)
        wanted = {str(key): columns for (key,), columns in zip(written, spoiled.values(), strict=False)}
        assert found == wanted | {gone: {""}}


def test_the_ledger_finds_a_row_that_nobody_wrote_and_a_timestamp_that_was_touched(
    primary: Server, schema: str
) -> None:
    with prepared(primary, "aijob", schema, ROWS) as at, _traffic(at) as traffic:
        at.session.execute(f"UPDATE {at.table} SET updatedAt = NOW(3) ORDER BY id LIMIT 1")
        at.session.execute(f"INSERT INTO {at.table} (id, userId) VALUES ('stranger', 'user-000001')")
        found = traffic.ledger.compare(at.session, partners=False)
        assert sorted((d.column, d.key == "stranger") for d in found) == [("", True), ("updatedat", False)]


def test_an_application_waits_longer_than_a_lock_and_retries(primary: Server, schema: str) -> None:
    with prepared(primary, "orders", schema, ROWS) as at, _traffic(at) as traffic:
        window = traffic.window()
        with closing(ApplicationSession(at.settings, "blocker", schema)) as blocker:
            blocker.begin()
            blocker.query(f"SELECT 1 FROM {at.table} FOR UPDATE")
            traffic.start_old()
            waiting = "SELECT COUNT(*) FROM performance_schema.data_lock_waits"
            wait_for(lambda: at.session.value(waiting) > 0, 20.0)
            since = time.monotonic()
            wait_for(lambda: time.monotonic() > since + 0.4)
            blocker.rollback()
        _more(traffic, "writes", 10, "old")
        traffic.stop()
        assert window.max_wait_ms >= 350
        window.reset()
        assert window.max_wait_ms == 0
        assert traffic.ledger.compare(at.session, partners=False) == []


def test_the_old_application_names_no_new_column_and_the_new_one_only_while_the_flag_is_open(
    primary: Server, schema: str
) -> None:
    with prepared(primary, "orders", schema, ROWS) as at, _traffic(at) as traffic:
        _whole_life(at, traffic)
        assert traffic.stats("old").new_column_writes == 0
        assert traffic.stats("old").new_column_reads == 0
        at.session.execute("UPDATE `_rollout`.flag SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND")
        written = traffic.stats("new").new_column_writes
        traffic.start_new()
        _more(traffic, "writes", 30)
        assert traffic.stats("new").new_column_writes == written


def test_a_broken_reader_shows_in_the_health_table_and_not_as_a_database_error(primary: Server, schema: str) -> None:
    with prepared(primary, "orders", schema, ROWS) as at, _traffic(at) as traffic:
        _whole_life(at, traffic)
        open_flag(at, 100)
        traffic.break_reads(True)
        traffic.start_old()
        traffic.start_new()
        health = f"SELECT COALESCE(SUM(errors), 0) FROM {schema}.AppHealth WHERE app = %s"
        wait_for(lambda: sql(primary, health, ("new",))[0][0] > 2, 20.0)
        traffic.break_reads(False)
        traffic.stop()
        stats = traffic.stats()
        assert stats.injected_errors > 2
        assert stats.errors == 0
        assert sql(primary, health, ("old",))[0][0] == 0


def test_a_transaction_that_begins_after_the_flag_was_closed_writes_no_new_column(primary: Server, schema: str) -> None:
    answers = [Decision(new_writes=True), Decision(new_writes=True), Decision(), Decision()]
    with prepared(primary, "documents", schema, 20) as at:
        expand(at)
        ledger = Ledger(at.runbook, at.shape)
        rows = Rows(at.shape, ledger.load(at.session), 1)
        twice = f"UPDATE {at.table} SET stage = 'archived' WHERE id = :kept"
        operation = Operation("twice", 1, (parse(twice), parse("COMMIT"), parse(twice.replace(":kept", ":hot"))))
        script = Script((), (operation,), (operation,))
        setting = Setting(script, script, ledger, rows, [])
        source = Source(ledger.model, rows, Random(1), {}, {})
        with closing(ApplicationSession(at.settings, "new", schema)) as session:
            means = Means(session, source, Random(1), Tally("new"), lambda: answers.pop(0))
            Worker(setting, means).work()
        assert at.session.value(f"SELECT COUNT(*) FROM {at.table} WHERE stage = 'archived'") == 1
        assert len(ledger.written()) == 1
        assert len(answers) == 1


def test_connections_that_are_cut_at_any_moment_leave_the_ledger_right(primary: Server, schema: str) -> None:
    attributes = "performance_schema.session_connect_attrs"
    ours = f"SELECT PROCESSLIST_ID FROM {attributes} WHERE ATTR_VALUE = 'application old' ORDER BY RAND() LIMIT 1"
    with prepared(primary, "documents", schema, ROWS) as at, _traffic(at) as traffic:
        traffic.start_old()
        while len(traffic.ledger.written()) < 400:
            for (connection,) in sql(primary, ours):
                with contextlib.suppress(pymysql.err.MySQLError):  # gone by itself
                    sql(primary, f"KILL {int(connection)}")
        traffic.stop()
        assert traffic.stats().errors > 0
        assert traffic.ledger.compare(at.session, partners=False) == []
