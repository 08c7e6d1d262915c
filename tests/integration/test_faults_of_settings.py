"""Settings and clocks that change under a rollout, and a server that has no connection left: no value hangs on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

import pymysql
import pytest

from orchestrator.app import wiring
from orchestrator.errors import Exit
from orchestrator.model.state import FORWARD
from orchestrator.mysql.clock import SystemClock
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from tests.support.meanwhile import Somebody, ends
from tests.support.servers import connect, script, sql, wait_caught_up, wait_for
from tests.support.small import Small, small
from tests.support.within import opened

SETTINGS = {
    "time_zone": ("+05:30", "-11:00"),
    "sql_mode": ("ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT", "PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE"),
    "wait_timeout": (1, 28800),
    "interactive_timeout": (1, 28800),
    "lock_wait_timeout": (31536000, 1),
    "innodb_lock_wait_timeout": (1, 1000),
    "transaction_isolation": ("SERIALIZABLE", "READ-UNCOMMITTED"),
    "autocommit": (0, 1),
    "sql_safe_updates": (1, 0),
    "foreign_key_checks": (0, 1),
    "group_concat_max_len": (4, 1024),
}


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


class Jumpy(SystemClock):
    """The client's clock of the wall, off by ``off``; nobody can move the monotonic one."""

    off = timedelta()

    def now(self) -> datetime:
        return super().now() + Jumpy.off


@contextmanager
def as_before(server: Server) -> Iterator[None]:
    """Global settings are inside what the test makes of them."""
    was = {name: sql(server, f"SELECT @@GLOBAL.{name}")[0][0] for name in SETTINGS}
    try:
        yield
    finally:
        change(server, was)


def change(server: Server, values: dict[str, object]) -> None:
    script(server, "; ".join(f"SET GLOBAL {n} = {v if isinstance(v, int) else repr(v)}" for n, v in values.items()))


def test_every_stage_ends_right_whatever_the_global_settings_and_the_clients_clock_become_between_them(
    here: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "SystemClock", Jumpy)
    primary = here.pair.primary
    with as_before(primary):
        for number, phase in enumerate((*FORWARD, "rollback")):
            change(primary, {name: values[number % 2] for name, values in SETTINGS.items()})
            monkeypatch.setattr(Jumpy, "off", timedelta(hours=1 if number % 2 else -1))
            with opened(load(here.terminal.runbook), primary) as app:
                app.commands.rollback("", ()) if phase == "rollback" else app.commands.next(phase)
            if phase == "verify":
                wanted = [("pending",), ("succeeded",), ("succeeded",)]
                assert here.sql(f"SELECT state FROM {here.table} ORDER BY id") == wanted
    assert here.sql(f"SELECT status, note FROM {here.table} ORDER BY id") == [
        ("new", None),
        ("done", "größe"),
        ("done", ""),
    ]


def upgraded(server: Server) -> None:
    """It is stopped, and does to its data folder what a newer version would when it starts."""
    was = server.argv
    server.argv = (*was, "--upgrade=FORCE")
    try:
        server.stop(60)
        server.start()
        server.wait_ready()
    finally:
        server.argv = was


@pytest.mark.slow  # up to fourteen starts with an upgrade each
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "before",
    [pytest.param(("shadow-write", "rollback"), marks=pytest.mark.faults), (*FORWARD, "rollback")],
    ids=["two-stages", "every-stage"],
)
def test_every_stage_goes_on_after_an_upgrade_of_both_servers(here: Small, before: tuple[str, ...]) -> None:
    """One version is at hand; what differs between two is looked at anew in every command, and nothing of it kept."""
    for phase in (*FORWARD, "rollback"):
        if phase in before:
            upgraded(here.pair.replica)
            upgraded(here.pair.primary)
            wait_for(lambda: sql(here.pair.primary, "SHOW REPLICAS"), 90, "the replica is back")
        with opened(load(here.terminal.runbook), here.pair.primary) as app:
            app.commands.rollback("", ()) if phase == "rollback" else app.commands.next(phase)
    wait_caught_up(here.pair)
    kept = [("new", None), ("done", "größe"), ("done", "")]
    for server in (here.pair.primary, here.pair.replica):
        assert sql(server, f"SELECT status, note FROM {here.table} ORDER BY id") == kept


@contextmanager
def no_connection_left(server: Server) -> Iterator[None]:
    ((most,),) = sql(server, "SELECT @@GLOBAL.max_connections")
    with ExitStack() as stack:
        holder = stack.enter_context(closing(connect(server)))
        with holder.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_ID IS NOT NULL")
            row = cursor.fetchone()
            assert row is not None
            cursor.execute(f"SET GLOBAL max_connections = {max(10, int(row[0]))}")
            with suppress(pymysql.err.OperationalError):
                while True:
                    stack.enter_context(closing(connect(server)))
            try:
                yield
            finally:
                cursor.execute(f"SET GLOBAL max_connections = {most}")


@pytest.mark.parametrize(
    ("phase", "step"),
    [
        ("ddl", "add-index:orders_state_idx"),
        pytest.param("backfill", "fill:backfill", marks=(pytest.mark.slow, pytest.mark.faults)),
    ],
)
def test_69_when_no_connection_is_left_before_a_step_and_the_same_command_goes_on(
    here: Small, phase: str, step: str
) -> None:
    with ExitStack() as full:
        if phase == "backfill":
            with opened(load(here.terminal.runbook), here.pair.primary) as app:
                app.commands.next("ddl")
        somebody = Somebody(lambda: full.enter_context(no_connection_left(here.pair.primary)), before=step)
        error = ends(here, somebody, phase)
        assert error.exit_code is Exit.UNREACHABLE
        assert "Too many connections" in error.seen
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        app.commands.next(phase)
