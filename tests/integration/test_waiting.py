"""What counts as a statement that still names a column or the flag, as the server's digests show it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from time import monotonic

import pytest
from msgspec.structs import replace

from orchestrator.drivers.waiting import WaitDriver, _counts
from orchestrator.model.contract import Contract, TableName
from orchestrator.model.outcome import GO, Progress, Result, Signal
from orchestrator.model.step import Quiet
from orchestrator.mysql.digests import said_since, server_now
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.session import Session
from orchestrator.sandbox.server import Server
from orchestrator.store.install import install
from tests.support.ddl import Beats, site_on
from tests.support.servers import connect, script
from tests.support.state import settings_of, state_schema

WIDE = [f"a_column_of_many_{n:02d}" for n in range(60)]
ALL = ", ".join(WIDE)
SETS = " = 1, ".join(WIDE) + " = 1"


@pytest.fixture
def state(primary: Server) -> Iterator[str]:
    with state_schema(primary) as name:
        install(settings_of(primary, name))
        yield name


def quiet(schema: str, *columns: str, table: str = "orders", writes_only: bool = False) -> Quiet:
    return Quiet(
        table=TableName(schema, table),
        columns=columns,
        seconds=0.3,
        flag=not columns,
        writes_only=writes_only,
        waived=False,
    )


def heard(primary: Server, step: Quiet, state: str, statement: str, database: str | None) -> Result:
    """How the wait ends while somebody says the statement all the time."""
    site = site_on(primary, Contract(step.table, ()), max_wait_s=0.7)
    site = replace(site, settings=replace(site.settings, state_schema=state))
    session = connect(primary, database=database)

    def says(_: Progress) -> Signal:
        with session.cursor() as cursor:
            cursor.execute(statement)
        return GO

    try:
        return WaitDriver(site, MysqlObserver(site)).apply(step, Beats(says)).result
    finally:
        session.close()


@pytest.fixture
def tables(primary: Server, schema: str) -> Iterator[str]:
    """``orders`` in the schema and in another one, both with a column named flag."""
    other = f"{schema}_b"
    for name in (schema, other):
        script(
            primary,
            f"CREATE DATABASE IF NOT EXISTS {name};"
            f"CREATE TABLE {name}.orders (id INT PRIMARY KEY, status INT, state INT, flag INT);"
            f"CREATE TABLE {name}.wide (id INT AUTO_INCREMENT PRIMARY KEY, {' INT, '.join(WIDE)} INT, status INT)",
        )
    yield schema
    script(primary, f"DROP DATABASE {other}")


@pytest.mark.parametrize(
    ("statement", "database", "counts"),
    [
        ("SELECT status FROM orders", "{t}", True),
        ("SELECT o.STATUS FROM {t}.orders o", None, True),
        ("SELECT status FROM {t}.orders", "{t}_b", True),
        ("SELECT state FROM orders", "{t}", False),
        ("SELECT status FROM orders", "{t}_b", False),
        ("SELECT status FROM {t}_b.orders", None, False),
    ],
)
def test_a_statement_counts_that_names_the_column_of_that_table(
    primary: Server, tables: str, state: str, statement: str, database: str | None, counts: bool
) -> None:
    said, where = statement.format(t=tables), database.format(t=tables) if database else None
    wanted = Result.HELD if counts else Result.DONE
    assert heard(primary, quiet(tables, "status"), state, said, where) is wanted


def test_only_writes_count_where_only_writes_matter(primary: Server, tables: str, state: str) -> None:
    step = quiet(tables, "state", writes_only=True)
    assert heard(primary, step, state, "SELECT state FROM orders WHERE id = 1", tables) is Result.DONE
    assert heard(primary, step, state, "UPDATE orders SET state = 1 WHERE id = 1", tables) is Result.HELD


def test_a_text_that_the_server_cut_may_name_what_was_behind_the_cut(primary: Server, tables: str, state: str) -> None:
    """The server keeps some 1 KiB of a text and shows no sign of that. A statement that hides which tables it reads may
    read this one; one that writes says its table first, and where a list of columns ends no other column is stored."""
    cases = [
        (f"UPDATE wide SET {SETS}, status = 1 WHERE id = 1", True, True),
        (f"INSERT INTO wide ({ALL}, status) VALUES (1{', 1' * 60})", True, True),
        (f"SELECT {ALL}, status FROM wide WHERE id = 1", True, False),
        (f"WITH w AS (SELECT {ALL} FROM {tables}_b.wide) SELECT status FROM wide", True, True),
        (f"SELECT id FROM orders WHERE {' + '.join(['id'] * 200)} = 1", True, False),
        (f"SELECT 1 FROM information_schema.TABLES WHERE {' + '.join(['TABLE_ROWS'] * 90)} = 1", False, False),
        (f"UPDATE {tables}_b.wide SET {SETS} WHERE id = 1", False, False),
        (f"INSERT INTO {tables}_b.wide ({ALL}) VALUES (1{', 1' * 59})", False, False),
    ]
    step, flag = quiet(tables, "status", table="wide"), TableName(state, "flag")
    with closing(Session(settings_of(primary))) as ours, closing(connect(primary, database=tables)) as application:
        for statement, reading, writing in cases:
            since = server_now(ours)
            with application.cursor() as cursor:
                cursor.execute(statement)
            said = []
            until = monotonic() + 10
            while not said:  # the server answers before it counts
                assert monotonic() < until, statement[:80]
                said = said_since(ours, since, (step.table.name, flag.name))
            counts = [any(_counts(replace(step, writes_only=only), flag, s) for s in said) for only in (False, True)]
            assert counts == [reading, writing], statement[:80]
    assert heard(primary, step, state, cases[2][0], tables) is Result.HELD
    assert heard(primary, replace(step, seconds=0.0), state, cases[2][0], tables) is Result.DONE, "quiet: 0s"


@pytest.mark.parametrize(
    ("statement", "in_state", "counts"),
    [
        ("SELECT new_writes FROM {s}.flag WHERE rollout = 'x'", False, True),
        ("SELECT new_writes FROM flag WHERE rollout = 'x'", True, True),
        ("SELECT flag FROM orders", False, False),
    ],
)
def test_the_flag_is_the_state_schemas_table_and_no_column_of_that_name(
    primary: Server, tables: str, state: str, statement: str, in_state: bool, counts: bool
) -> None:
    wanted = Result.HELD if counts else Result.DONE
    said = statement.format(s=state)
    assert heard(primary, quiet(tables), state, said, state if in_state else tables) is wanted
