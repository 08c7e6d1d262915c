"""Blockers are ended only as the runbook allows, each one is told, and hours without exclusive locks are waited out."""

from __future__ import annotations

from datetime import datetime, timedelta

import pymysql
import pytest
from msgspec.structs import replace

from orchestrator.drivers.ddl import NativeDdlDriver
from orchestrator.model.blockers import KillPolicy
from orchestrator.model.contract import Contract, TableName
from orchestrator.model.outcome import Result
from orchestrator.model.step import AddColumns, DropColumns
from orchestrator.model.window import Window
from orchestrator.mysql.site import Site
from orchestrator.sandbox.server import Server
from tests.support.ddl import Application, Beats, column, columns_of, held, plain_table, site_on


def site(server: Server, table: TableName, kill: KillPolicy, window: Window | None = None) -> Site:
    base = site_on(server, Contract(table, ()), max_wait_s=2.0)
    runbook = replace(
        base.runbook,
        limits=replace(base.runbook.limits, kill=kill),
        phases=replace(base.runbook.phases, window=window),
    )
    return Site(base.settings, runbook, base.clock)


def add(table: TableName) -> AddColumns:
    return AddColumns(table=table, columns=(column("n", "int"),), family=(table,))


def test_a_session_older_than_its_age_is_killed_and_stands_in_the_history(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    driver = NativeDdlDriver(site(primary, table, KillPolicy(0.5, ("app",))))
    with held(primary, "BEGIN", f"SELECT * FROM {schema}.t") as blocker, Application(primary, table) as application:
        outcome = driver.apply(add(table), Beats())
        with pytest.raises(pymysql.err.MySQLError), blocker.cursor() as cursor:
            cursor.execute("SELECT 1")
    assert outcome.result is Result.DONE
    assert outcome.figures["killed_sessions"] == 1
    assert [row[0] for row in outcome.evidence] == ["killed"]
    assert "killed as the runbook allows: root@" in outcome.note
    assert (application.errors, application.longest_wait_s < 0.5) == ([], True)


@pytest.mark.parametrize("kill", [KillPolicy(), KillPolicy(60.0), KillPolicy(0.1, ("root",))])
def test_a_session_that_may_not_be_killed_holds_the_step_and_lives(
    primary: Server, schema: str, kill: KillPolicy
) -> None:
    table = plain_table(primary, schema)
    with held(primary, "BEGIN", f"SELECT * FROM {schema}.t") as blocker:
        outcome = NativeDdlDriver(site(primary, table, kill)).apply(add(table), Beats())
        with blocker.cursor() as cursor:
            cursor.execute("SELECT 1")
    assert outcome.result is Result.HELD
    assert "root@" in outcome.note
    assert "n" not in columns_of(primary, table)


def test_exclusive_locks_wait_for_the_window_and_the_way_back_does_not(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)

    def minutes(at: datetime) -> int:
        return at.hour * 60 + at.minute

    now = site_on(primary, Contract(table, ())).clock.now()
    later = Window(minutes(now + timedelta(hours=2)), minutes(now + timedelta(hours=3)), "UTC")
    outcome = NativeDdlDriver(site(primary, table, KillPolicy(), later)).apply(add(table), Beats())
    assert outcome.result is Result.HELD
    assert f"the window {later} opens in" in outcome.note
    around = Window(minutes(now - timedelta(hours=1)), minutes(now + timedelta(hours=1)), "UTC")
    assert NativeDdlDriver(site(primary, table, KillPolicy(), around)).apply(add(table), Beats()).result is Result.DONE
    back = DropColumns(table=table, columns=(column("n", "int"),), family=(table,))
    assert NativeDdlDriver(site(primary, table, KillPolicy(), later)).apply(back, Beats()).result is Result.DONE
