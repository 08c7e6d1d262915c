"""What counts as a statement that still names a column or the flag, as the server's digests show it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from orchestrator.drivers.waiting import WaitDriver
from orchestrator.model.contract import Contract, TableName
from orchestrator.model.outcome import GO, Progress, Result, Signal
from orchestrator.model.step import Quiet
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.sandbox.server import Server
from orchestrator.store.install import install
from tests.support.ddl import Beats, site_on
from tests.support.servers import connect, script
from tests.support.state import settings_of, state_schema


@pytest.fixture
def state(primary: Server) -> Iterator[str]:
    with state_schema(primary) as name:
        install(settings_of(primary, name))
        yield name


def quiet(schema: str, *columns: str, writes_only: bool = False) -> Quiet:
    return Quiet(
        table=TableName(schema, "orders"),
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
            f"CREATE TABLE {name}.orders (id INT PRIMARY KEY, status INT, state INT, flag INT)",
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
