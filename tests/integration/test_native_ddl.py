"""Every DDL step on a real server ends in the wanted shape, exactly once, whatever was there and whoever died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from msgspec.structs import replace

from orchestrator.drivers.ddl import NativeDdlDriver
from orchestrator.model.contract import Column, Contract, Default, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.outcome import Result, Seen
from orchestrator.model.shape_diff import column_reasons
from orchestrator.model.step import (
    AddColumns,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    DdlStep,
    DropColumns,
    DropForeignKey,
    DropIndex,
    ProveForeignKey,
)
from orchestrator.model.types import parse_type
from orchestrator.model.way import INPLACE, INSTANT
from orchestrator.mysql.locks import find_tagged
from orchestrator.sandbox.server import Server
from tests.support.ddl import Application, Beats, column, columns_of, held, plain_table, site_on
from tests.support.log import general_log, said
from tests.support.servers import script, sql, wait_for
from tests.support.shapes import live_shape

TYPES = (
    "tinyint",
    "bigint unsigned",
    "decimal(10,3)",
    "double",
    "bit(5)",
    "char(3)",
    "varchar(191)",
    "text",
    "longtext",
    "varbinary(16)",
    "blob",
    "enum('a','it''s','b')",
    "set('x','y')",
    "date",
    "datetime(3)",
    "timestamp(6)",
    "time(2)",
    "year",
    "json",
    "point",
)
DEFAULTS = (
    column("d_int", "int", "-7", null=False),
    column("d_dec", "decimal(6,2)", "1.5", null=False),
    column("d_bit", "bit(3)", "b'101'"),
    column("d_text", "varchar(40)", "it's 100% \\ «x»", null=False),
    column("d_bin", "varbinary(4)", "0x41ff"),
    column("d_enum", "enum('a','it''s')", "it's"),
    column("d_date", "datetime(3)", "2026-01-02 03:04:05.678"),
    column("d_collated", "varchar(20)", "x", charset="latin1", collation="latin1_swedish_ci"),
    Column("d_now", parse_type("datetime(3)"), False, Default("CURRENT_TIMESTAMP(3)", True), on_update=True),
    column("d_hidden", "int", invisible=True),
    Column("d_made", parse_type("int"), generated="a + 1"),
)


def driver_on(server: Server, table: TableName, max_wait_s: float = 20.0) -> NativeDdlDriver:
    return NativeDdlDriver(site_on(server, Contract(table, ()), max_wait_s))


def adding(table: TableName, *columns: Column, family: tuple[TableName, ...] = ()) -> AddColumns:
    return AddColumns(table=table, columns=columns, family=family or (table,))


def indexing(table: TableName, *columns: str, unique: bool = False, budget_s: float = 2.0) -> AddIndex:
    index = Index(f"{'_'.join(columns)}_new", tuple(IndexPart(c) for c in columns), unique=unique)
    return AddIndex(table=table, index=index, final_lock_budget_s=budget_s, tries=3, family=(table,))


def key_to_itself(table: TableName) -> ForeignKey:
    return ForeignKey("t_self_fk", ("parent",), table, ("id",), "SET NULL", "RESTRICT")


def indexes_of(server: Server, table: TableName) -> list[str]:
    text = "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
    return sorted(row[0] for row in sql(server, text, (table.schema, table.name)))


def test_a_column_of_every_type_ends_as_it_was_wanted(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    wanted = (*(column(f"c{n}", type) for n, type in enumerate(TYPES)), *DEFAULTS)
    driver, step = driver_on(primary, table), adding(table, *wanted)
    assert driver.observe(step, Beats()) is Seen.ABSENT
    outcome = driver.apply(step, Beats())
    assert outcome.result is Result.DONE, outcome
    with closing(site_on(primary, Contract(table, ())).connect("test")) as session:
        shape = live_shape(session, table)
    for one in wanted:
        live = shape.column(one.name)
        assert live is not None
        assert column_reasons(one, live, shape) == ()
    assert driver.observe(step, Beats()) is Seen.PRESENT


def test_what_is_there_is_not_added_again(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    script(primary, "ALTER TABLE t ADD COLUMN y INT NULL, ALGORITHM=INSTANT", schema)
    driver = driver_on(primary, table)
    step = adding(table, *(column(name, "int") for name in "xyz"))
    assert driver.observe(step, Beats()) is Seen.PARTIAL
    assert driver.apply(step, Beats()).result is Result.DONE
    assert columns_of(primary, table) == ["id", "p_id", "a", "b", "y", "x", "z"]
    again = driver.apply(step, Beats())
    assert (again.result, again.note) == (Result.DONE, "was there already")


def test_a_column_that_is_otherwise_is_left_alone(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    driver, step = driver_on(primary, table), adding(table, column("x", "int"), column("a", "bigint"))
    assert driver.observe(step, Beats()) is Seen.UNKNOWN
    outcome = driver.apply(step, Beats())
    assert outcome.result is Result.FAILED
    assert "column a is there and is otherwise" in outcome.note
    assert "x" not in columns_of(primary, table)


def test_a_change_keeps_everything_but_the_type(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    script(
        primary,
        "ALTER TABLE t ADD COLUMN v VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT 'it''s'"
        " COMMENT 'kept' INVISIBLE AFTER a, ADD COLUMN e ENUM('a','b') NOT NULL DEFAULT 'b' COMMENT 'kept too'",
        schema,
    )
    driver = driver_on(primary, table)
    with closing(site_on(primary, Contract(table, ())).connect("test")) as session:
        before = live_shape(session, table)
        for name, type, way in (("v", "varchar(40)", INPLACE), ("e", "enum('a','b','c')", INSTANT)):
            live = before.column(name)
            assert live is not None
            after = replace(live, type=parse_type(type), comment="")
            step = ChangeColumn(table=table, before=live, after=after, way=way, family=(table,))
            assert driver.observe(step, Beats()) is Seen.ABSENT
            outcome = driver.apply(step, Beats())
            assert outcome.result is Result.DONE, outcome
        shape = live_shape(session, table)
    for old, new in zip(before.columns, shape.columns, strict=True):
        assert replace(new, type=old.type) == old
        assert new.comment == old.comment


def test_an_index_is_built_once_and_a_duplicate_is_told(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    driver = driver_on(primary, table)
    step = indexing(table, "b", "a")
    assert driver.apply(step, Beats()).result is Result.DONE
    assert driver.observe(step, Beats()) is Seen.PRESENT
    script(primary, "UPDATE t SET a = 1", schema)
    outcome = driver.apply(indexing(table, "a", unique=True), Beats())
    assert outcome.result is Result.FAILED
    assert "3 rows" in outcome.note
    assert indexes_of(primary, table) == ["PRIMARY", "b_a_new", "t_p"]


def test_a_foreign_key_leaves_no_index_that_the_server_made(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    driver = driver_on(primary, table)
    driver.apply(adding(table, column("parent", "int")), Beats())
    step = AddForeignKey(table=table, foreign_key=key_to_itself(table), family=(table,))
    refused = driver.apply(step, Beats())
    assert refused.result is Result.FAILED
    assert "no index" in refused.note
    assert indexes_of(primary, table) == ["PRIMARY", "t_p"]
    driver.apply(indexing(table, "parent"), Beats())
    assert driver.apply(step, Beats()).result is Result.DONE
    assert indexes_of(primary, table) == ["PRIMARY", "parent_new", "t_p"]
    assert driver.observe(step, Beats()) is Seen.PRESENT
    proof = ProveForeignKey(table=table, foreign_key=step.foreign_key)
    assert driver.apply(proof, Beats()).result is Result.DONE
    assert driver.observe(proof, Beats()) is Seen.ABSENT


def test_a_child_without_its_parent_is_counted_and_shown(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema, rows=20)
    script(
        primary,
        "CREATE TABLE pp (x INT, y INT, PRIMARY KEY (x, y)); INSERT INTO pp VALUES (1, 1);"
        "ALTER TABLE t ADD COLUMN x INT NULL, ADD COLUMN y INT NULL;"
        "UPDATE t SET x = 1, y = 1 WHERE id = 1; UPDATE t SET x = 7 WHERE id = 2; UPDATE t SET y = 7 WHERE id = 3;"
        "UPDATE t SET x = 1, y = 2 WHERE id IN (4, 5)",
        schema,
    )
    key = ForeignKey("xy_fk", ("x", "y"), TableName(schema, "pp"), ("x", "y"))
    outcome = driver_on(primary, table).apply(ProveForeignKey(table=table, foreign_key=key), Beats())
    assert outcome.result is Result.FAILED
    assert outcome.figures["orphan_rows"] == 2
    assert sorted(outcome.evidence) == [("4", "1:2"), ("5", "1:2")]


def test_going_back_drops_what_was_added(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    before = (columns_of(primary, table), indexes_of(primary, table))
    driver, key = driver_on(primary, table), key_to_itself(table)
    index = indexing(table, "parent")
    column_step = adding(table, column("parent", "int"), column("other", "int"))
    for step in (column_step, index, AddForeignKey(table=table, foreign_key=key, family=(table,))):
        assert driver.apply(step, Beats()).result is Result.DONE
    down: tuple[DdlStep, ...] = (
        DropForeignKey(table=table, foreign_key=key, family=(table,)),
        DropIndex(table=table, index=index.index, family=(table,)),
        DropColumns(table=table, columns=column_step.columns, family=(table,)),
    )
    for back in down:
        assert driver.observe(back, Beats()) is Seen.ABSENT
        assert driver.apply(back, Beats()).result is Result.DONE
        assert driver.observe(back, Beats()) is Seen.PRESENT
        assert driver.apply(back, Beats()).note == "was there already"
    assert (columns_of(primary, table), indexes_of(primary, table)) == before


def test_what_is_shown_is_what_runs(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    driver, key = driver_on(primary, table), key_to_itself(table)
    steps: tuple[DdlStep, ...] = (
        adding(table, column("parent", "int")),
        indexing(table, "parent"),
        AddForeignKey(table=table, foreign_key=key, family=(table,)),
        ProveForeignKey(table=table, foreign_key=key),
    )
    shown = [text for step in steps for text in driver.describe(step)]
    with general_log(primary):
        for step in steps:
            assert driver.apply(step, Beats()).result is Result.DONE
        ran = said(primary)
    for text in shown:
        assert text in ran
    assert {text for text in ran if text.startswith("ALTER")} == {text for text in shown if text.startswith("ALTER")}


def test_a_statement_that_the_server_will_not_do_cheaply_is_not_done_dearly(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    stored = Column("s", parse_type("int"), generated="a + 1", stored=True)
    outcome = driver_on(primary, table).apply(adding(table, stored), Beats())
    assert outcome.result is Result.FAILED
    assert "1845" in outcome.note
    assert "s" not in columns_of(primary, table)


_CLIENT = """
import sys
from orchestrator.drivers.ddl import NativeDdlDriver
from orchestrator.model.contract import Contract, TableName
from tests.integration.test_native_ddl import adding, indexing
from tests.support.ddl import Beats, column, site_on
from orchestrator.sandbox.server import Server
from tests.support.shapes import live_shape
from tests.support.shapes import live_shape
from pathlib import Path
host, port, schema, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
server = Server("primary", host, port, Path("-"), Path("-"), 0, ())
table = TableName(schema, "t")
# The look is made blind by a family that does not name the table: so the statement meets whoever holds it.
column_step = adding(table, column("n", "int"), family=(TableName(schema, "p"),))
step = indexing(table, "b", "a") if kind == "index" else column_step
NativeDdlDriver(site_on(server, Contract(table, ()))).apply(step, Beats())
"""


@contextmanager
def client(server: Server, schema: str, kind: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", _CLIENT, server.host, str(server.port), schema, kind])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until_it_runs(server: Server, table: TableName, state: str) -> None:
    site = site_on(server, Contract(table, ()))
    with closing(site.connect("test")) as session:
        wait_for(lambda: any(state in t.state for t in find_tagged(session, site.tag_prefix)), 30, state)


def test_a_client_killed_in_the_middle_of_a_build_ends_in_one_index(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema, rows=60_000)
    with client(primary, schema, "index") as process:
        wait_until_it_runs(primary, table, "alter")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    driver, step = driver_on(primary, table), indexing(table, "b", "a")
    assert driver.observe(step, Beats()) in (Seen.ABSENT, Seen.PRESENT)
    site = site_on(primary, Contract(table, ()))
    with closing(site.connect("test")) as session:
        assert find_tagged(session, site.tag_prefix) == (), "judged while its statement still ran"
    assert driver.apply(step, Beats()).result is Result.DONE
    assert indexes_of(primary, table) == ["PRIMARY", "b_a_new", "t_p"]


def test_a_client_killed_while_it_waits_stalls_nobody_for_long(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    step = adding(table, column("n", "int"))
    with held(primary, "BEGIN", f"SELECT * FROM {schema}.t"), Application(primary, table) as application:
        with client(primary, schema, "column") as process:
            wait_until_it_runs(primary, table, "Waiting for table metadata lock")
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert driver_on(primary, table).observe(step, Beats()) is Seen.ABSENT
    # One second is the server's own bound; observe takes it back earlier.
    assert application.longest_wait_s < 1.5
    assert application.errors == []
    assert driver_on(primary, table).apply(step, Beats()).result is Result.DONE
    assert columns_of(primary, table) == ["id", "p_id", "a", "b", "n"]


@pytest.mark.parametrize("rows", [3, 60_000])
def test_a_connection_lost_in_flight_is_followed_to_the_shape(primary: Server, schema: str, rows: int) -> None:
    table = plain_table(primary, schema, rows=rows)
    site = site_on(primary, Contract(table, ()))
    killed = threading.Event()

    def kill_once() -> None:
        with closing(site.connect("test")) as session:
            deadline = time.monotonic() + 20
            while not killed.is_set() and time.monotonic() < deadline:
                for running in find_tagged(session, site.tag_prefix):
                    session.execute(f"KILL {running.process_id}")
                    killed.set()

    thread = threading.Thread(target=kill_once, daemon=True)
    thread.start()
    outcome = driver_on(primary, table).apply(indexing(table, "b", "a"), Beats())
    was_killed = killed.is_set()
    killed.set()
    thread.join()
    assert outcome.result is Result.DONE, outcome
    assert rows == 3 or was_killed
    assert indexes_of(primary, table) == ["PRIMARY", "b_a_new", "t_p"]


def test_a_table_that_is_gone_fails_with_its_name(primary: Server, schema: str) -> None:
    table = TableName(schema, "nobody")
    outcome = driver_on(primary, table).apply(adding(table, column("n", "int")), Beats())
    assert outcome.result is Result.FAILED
    assert f"{schema}.nobody is not there" in outcome.note


def test_abandoning_clears_what_runs_and_keeps_what_took_effect(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    driver, step = driver_on(primary, table), adding(table, column("n", "int"))
    assert driver.abandon(step, Beats()).note == "add-columns left nothing behind"
    driver.apply(step, Beats())
    assert "stays" in driver.abandon(step, Beats()).note
    assert "n" in columns_of(primary, table)
