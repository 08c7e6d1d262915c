"""Hard cases of the server's own DDL, each in the words of what must come out; the case's number is named."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pymysql
import pytest

from orchestrator.drivers.ddl import NativeDdlDriver
from orchestrator.model.contract import Contract, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.outcome import Outcome, Result, Seen
from orchestrator.model.step import (
    AddColumns,
    AddForeignKey,
    AddIndex,
    DropColumns,
    DropForeignKey,
    DropIndex,
    ExclusiveDdlStep,
)
from orchestrator.model.way import Way
from orchestrator.mysql.locks import find_tagged
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import ROOT
from tests.support.ddl import Beats, column, held, plain_table, site_on
from tests.support.servers import connect, script, sql, wait_for

# A build of so many rows takes long enough to be met in its middle.
BUILT_ROWS = 60_000


def driver_on(server: Server, table: TableName, max_wait_s: float = 20.0) -> NativeDdlDriver:
    return NativeDdlDriver(site_on(server, Contract(table, ()), max_wait_s))


def indexing(table: TableName, *columns: str, unique: bool = False) -> AddIndex:
    index = Index(f"{'_'.join(columns)}_new", tuple(IndexPart(c) for c in columns), unique=unique)
    return AddIndex(table=table, index=index, final_lock_budget_s=2.0, tries=3, family=(table,))


def made(server: Server, table: TableName) -> str:
    return str(sql(server, f"SHOW CREATE TABLE {table}")[0][1])


@contextmanager
def during_build(server: Server, table: TableName, act: Callable[[pymysql.cursors.Cursor], None]) -> Iterator[None]:
    """``act`` again and again while the first tagged statement builds, and not any more when that one has ended."""
    site = site_on(server, Contract(table, ()))
    with closing(connect(server)) as writer, closing(site.connect("test")) as looking, writer.cursor() as cursor:

        def building() -> bool:
            return any("alter" in t.state for t in find_tagged(looking, site.tag_prefix))

        def run() -> None:
            wait_for(building, 20, "it builds")
            while find_tagged(looking, site.tag_prefix):
                act(cursor)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            thread.join(30)
            assert not thread.is_alive()


def test_b49_the_row_with_id_0_is_still_there_after_a_rebuild(primary: Server, schema: str) -> None:
    script(
        primary,
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT NULL);"
        "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO'); INSERT INTO t VALUES (0, 42), (1, 1)",
        schema,
    )
    table = TableName(schema, "t")
    way = Way("INPLACE", "NONE", "every row is written anew", rebuilds=True)
    step = AddColumns(table=table, columns=(column("n", "int"),), family=(table,), way=way)
    driver, (before,) = driver_on(primary, table), innodb_id(primary, table)
    assert driver.apply(step, Beats()).result is Result.DONE
    assert driver.observe(step, Beats()) is Seen.PRESENT
    assert innodb_id(primary, table) != [before], "it was rebuilt"
    assert sql(primary, f"SELECT id, a, n FROM {table} ORDER BY id") == [(0, 42, None), (1, 1, None)]


def innodb_id(server: Server, table: TableName) -> list[tuple[int]]:
    """The server's own number of the table's rows: another one after each rebuild."""
    named = f"{table.schema}/{table.name}"
    return sql(server, "SELECT TABLE_ID FROM information_schema.INNODB_TABLES WHERE NAME = %s", (named,), account=ROOT)


def test_b28_a_default_that_is_a_zero_date_hinders_no_alter_of_ours(primary: Server, schema: str) -> None:
    """Case B28. A strict session gets 1067 for every ALTER of such a table; ours has a mode of its own, and the default
    stays what it was."""
    zero = "joined DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00'"
    script(primary, f"SET SESSION sql_mode = ''; CREATE TABLE t (id INT PRIMARY KEY, {zero})", schema)
    table = TableName(schema, "t")
    with pytest.raises(pymysql.err.OperationalError) as strict:
        sql(primary, f"ALTER TABLE {table} ADD COLUMN other INT, ALGORITHM=INSTANT")
    assert strict.value.args[0] == 1067
    step = AddColumns(table=table, columns=(column("c", "int"),), family=(table,))
    assert driver_on(primary, table).apply(step, Beats()).result is Result.DONE
    assert "DEFAULT '0000-00-00 00:00:00'" in made(primary, table)


def test_b65_a_reader_of_the_parent_is_named_and_the_child_is_as_it_was(primary: Server, schema: str) -> None:
    """Lock check covers all tables related by FK; on time-out the state is unchanged and the message names the
    parent table."""
    table = plain_table(primary, schema)
    parent = TableName(schema, "elder")
    script(primary, "CREATE TABLE elder (id INT PRIMARY KEY); ALTER TABLE t ADD COLUMN e INT NULL, ADD KEY (e)", schema)
    key = ForeignKey("t_e_fk", ("e",), parent, ("id",), "RESTRICT", "RESTRICT")
    step = AddForeignKey(table=table, foreign_key=key, family=(table, parent))
    before = made(primary, table)
    with held(primary, "BEGIN", f"SELECT * FROM {parent}") as blocker:
        outcome = driver_on(primary, table, max_wait_s=0.6).apply(step, Beats())
        assert outcome.result is Result.HELD
        assert str(parent) in outcome.note
        assert f"id {blocker.thread_id()}" in outcome.note
        assert made(primary, table) == before
    assert driver_on(primary, table).apply(step, Beats()).result is Result.DONE


def test_b66_going_back_restores_exactly_the_indexes_and_again_is_nothing(primary: Server, schema: str) -> None:
    """Order FK, index, column. An index that a key needs is refused by the server (1553), and nothing is done."""
    table = plain_table(primary, schema)
    before = made(primary, table)
    added = AddColumns(table=table, columns=(column("e", "int"),), family=(table,))
    index = indexing(table, "e")
    key = ForeignKey("t_e_fk", ("e",), TableName(schema, "p"), ("id",), "RESTRICT", "RESTRICT")
    driver = driver_on(primary, table)
    for step in (added, index, AddForeignKey(table=table, foreign_key=key, family=(table,))):
        assert driver.apply(step, Beats()).result is Result.DONE
    expanded = made(primary, table)
    too_early = driver.apply(DropIndex(table=table, index=index.index, family=(table,)), Beats())
    assert too_early.result is Result.FAILED
    assert "1553" in too_early.note
    assert made(primary, table) == expanded
    down: tuple[ExclusiveDdlStep, ...] = (
        DropForeignKey(table=table, foreign_key=key, family=(table,)),
        DropIndex(table=table, index=index.index, family=(table,)),
        DropColumns(table=table, columns=added.columns, family=(table,)),
    )
    for _ in ("once", "and again"):
        outcomes = [driver.apply(step, Beats()) for step in down]
        assert [o.result for o in outcomes] == [Result.DONE] * 3
        assert made(primary, table) == before
    assert [o.note for o in outcomes] == ["was there already"] * 3


def test_b73_a_transient_duplicate_in_the_online_log_is_no_fault_of_the_data(primary: Server, schema: str) -> None:
    """A row that takes a value and gives it up again while the index is built: the server ends the build with 1062.
    Message says "transient duplicate in the online log"; bounded retries; not reported as a data fault."""
    table = plain_table(primary, schema, rows=BUILT_ROWS)

    def takes_and_gives_up(cursor: pymysql.cursors.Cursor) -> None:
        cursor.execute("BEGIN")
        cursor.execute(f"INSERT INTO {table} (id, a) VALUES (1000000, 7)")
        cursor.execute("ROLLBACK")

    with during_build(primary, table, takes_and_gives_up):
        outcome = driver_on(primary, table).apply(indexing(table, "a", unique=True), Beats())
    assert outcome.result is Result.DONE, outcome
    assert "1 builds were lost to a transient duplicate in the online log" in outcome.note
    assert sql(primary, f"SELECT COUNT(*) FROM {table}") == [(BUILT_ROWS,)]


def test_b74_an_online_log_that_is_full_stops_with_advice_and_is_not_tried_again_blindly(
    primary: Server, schema: str
) -> None:
    """On 1799 STOP with advice (raise the variable or gh-ost); never immediate blind retry."""
    table = plain_table(primary, schema, rows=BUILT_ROWS)
    script(primary, "ALTER TABLE t ADD COLUMN w VARCHAR(700) CHARACTER SET latin1 NOT NULL DEFAULT ''", schema)
    before = made(primary, table)
    ((was,),) = sql(primary, "SELECT @@GLOBAL.innodb_online_alter_log_max_size")
    script(primary, "SET GLOBAL innodb_online_alter_log_max_size = 65536")

    def writes_much(cursor: pymysql.cursors.Cursor) -> None:
        # The log is counted in blocks of innodb_sort_buffer_size, 1 MiB.
        cursor.execute(f"UPDATE {table} SET w = REPEAT(CHAR(65 + RAND() * 26), 700) WHERE id <= 1000")

    try:
        with during_build(primary, table, writes_much):
            outcome = driver_on(primary, table).apply(indexing(table, "w", "a"), Beats())
    finally:
        script(primary, f"SET GLOBAL innodb_online_alter_log_max_size = {was}")
    assert outcome.result is Result.HELD, outcome
    assert "1799" in outcome.note
    assert "innodb_online_alter_log_max_size" in outcome.next
    assert "gh-ost" in outcome.next
    assert made(primary, table) == before


def test_b81_a_running_backup_is_waited_for_by_its_name(primary: Server, schema: str) -> None:
    """Check object_type BACKUP LOCK; WAIT with the reason; nothing is tried, and nothing is changed."""
    table = plain_table(primary, schema)
    step = AddColumns(table=table, columns=(column("n", "int"),), family=(table,))
    before = made(primary, table)
    with held(primary, "LOCK INSTANCE FOR BACKUP"):
        outcome = driver_on(primary, table, max_wait_s=0.6).apply(step, Beats())
        assert outcome.result is Result.HELD
        assert "LOCK INSTANCE FOR BACKUP" in outcome.note
        assert outcome.figures["tries"] == 0
        assert made(primary, table) == before
    assert driver_on(primary, table).apply(step, Beats()).result is Result.DONE


def test_b82_a_deadlock_with_the_application_ends_neither_us_nor_a_row(primary: Server, schema: str) -> None:
    """The application's transaction has read the table when our ALTER asks for it, and then writes: one of the two is
    the victim, the server takes the application's (1213). Its next try finds the column and every row."""
    table = plain_table(primary, schema)
    # Blind for the reader, so that the statement meets it.
    step = AddColumns(table=table, columns=(column("n", "int"),), family=(TableName(schema, "p"),))
    site = site_on(primary, Contract(table, ()))
    outcomes: list[Outcome] = []
    with held(primary, "BEGIN", f"SELECT * FROM {table}") as session, session.cursor() as cursor:
        thread = threading.Thread(target=lambda: outcomes.append(driver_on(primary, table).apply(step, Beats())))
        thread.start()
        with closing(site.connect("test")) as looking:
            waits = "Waiting for table metadata lock"
            wait_for(lambda: any(waits in t.state for t in find_tagged(looking, site.tag_prefix)), 20, waits)
            with pytest.raises(pymysql.err.OperationalError) as seen:
                cursor.execute(f"UPDATE {table} SET a = a + 10 WHERE id = 1")
        thread.join(20)
        assert seen.value.args[0] == 1213
        cursor.execute(f"UPDATE {table} SET a = a + 10 WHERE id = 1")
    (outcome,) = outcomes
    assert outcome.result is Result.DONE, outcome
    assert sql(primary, f"SELECT id, a, n FROM {table} ORDER BY id") == [(1, 11, None), (2, 2, None), (3, 3, None)]
