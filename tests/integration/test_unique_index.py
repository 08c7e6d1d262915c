"""A unique index is built only over rows that have no duplicate as the index compares; a duplicate that no row has is
told apart and tried again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from orchestrator.drivers.ddl import NativeDdlDriver
from orchestrator.drivers.ddl.unique import Duplicates
from orchestrator.model.contract import Contract, Index, IndexPart, TableName
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.step import AddIndex, CountDuplicates
from orchestrator.mysql.guard import Guard
from orchestrator.sandbox.server import Server
from tests.support.ddl import Beats, site_on
from tests.support.servers import script, sql

ROWS = """
CREATE TABLE t (id INT PRIMARY KEY, tenant INT NULL, v VARCHAR(20) COLLATE utf8mb4_unicode_ci NULL, KEY a (tenant));
INSERT INTO t VALUES (1, 1, 'Key1'), (2, 1, 'key1'), (3, 1, 'key1 '), (4, 2, 'key1'), (5, NULL, 'key1'),
 (6, NULL, 'key1'), (7, 3, NULL), (8, 3, NULL), (9, 4, 'ab-1'), (10, 4, 'ab-2');
"""
LOST = Outcome(Result.FAILED, "the server says 1062", evidence=(("1062", "Duplicate entry"),))


@pytest.fixture(scope="module")
def table(primary: Server) -> Iterator[TableName]:
    name = f"u_{uuid.uuid4().hex[:10]}"
    script(primary, f"CREATE DATABASE {name} DEFAULT CHARACTER SET utf8mb4")
    script(primary, ROWS, name)
    yield TableName(name, "t")
    script(primary, f"DROP DATABASE {name}")


def unique(table: TableName, *parts: IndexPart) -> AddIndex:
    index = Index("uq", parts, unique=True)
    return AddIndex(table=table, index=index, final_lock_budget_s=1, tries=2, family=(table,))


def driver(server: Server, table: TableName) -> NativeDdlDriver:
    return NativeDdlDriver(site_on(server, Contract(table, ())))


def test_duplicates_are_refused_with_groups_and_keys_under_the_columns_collation(
    primary: Server, table: TableName
) -> None:
    outcome = driver(primary, table).apply(unique(table, IndexPart("tenant"), IndexPart("v")), Beats())
    assert outcome.result is Result.FAILED
    assert (outcome.figures["duplicate_groups"], outcome.figures["duplicate_rows"]) == (1, 3)
    assert outcome.evidence[0][2:] == ("1", "3")
    assert "a row with NULL in any of (tenant, v) is nobody's duplicate" in outcome.expected
    assert sql(primary, f"SELECT COUNT(*) FROM {table}") == [(10,)]
    assert len(sql(primary, f"SHOW INDEX FROM {table}")) == 2


def test_a_prefix_makes_duplicates_that_the_whole_value_does_not(primary: Server, table: TableName) -> None:
    on = driver(primary, table)
    whole = CountDuplicates(table=table, index=Index("i", (IndexPart("id"), IndexPart("v")), unique=True))
    assert on.apply(whole, Beats()).result is Result.DONE
    parts = (IndexPart("tenant"), IndexPart("v", prefix=3))
    outcome = on.apply(CountDuplicates(table=table, index=Index("i", parts, unique=True)), Beats())
    assert outcome.figures["duplicate_groups"] == 2


def test_a_new_column_with_a_constant_is_counted_before_it_exists(primary: Server, table: TableName) -> None:
    index = Index("i", (IndexPart("tenant"), IndexPart("kind")), unique=True)
    outcome = driver(primary, table).apply(CountDuplicates(table=table, index=index, absent=("kind",)), Beats())
    assert outcome.figures["duplicate_rows"] == 7
    alone = Index("i", (IndexPart("kind"),), unique=True)
    outcome = driver(primary, table).apply(CountDuplicates(table=table, index=alone, absent=("kind",)), Beats())
    assert outcome.figures["duplicate_rows"] == 10


def test_a_transient_duplicate_in_the_online_log_is_tried_again_and_is_no_fault_of_the_data(
    primary: Server, table: TableName
) -> None:
    site = site_on(primary, Contract(table, ()))
    duplicates = Duplicates(site, Guard(site))
    step, answers = unique(table, IndexPart("id"), IndexPart("v")), [LOST, Outcome(Result.DONE, "took effect")]
    outcome = duplicates.build(step, site.tag("x"), Beats(), lambda: answers.pop(0))
    assert outcome.result is Result.DONE
    assert "transient duplicate in the online log" in outcome.note
    tries: list[int] = []

    def always() -> Outcome:
        tries.append(1)
        return LOST

    outcome = duplicates.build(step, site.tag("x"), Beats(), always)
    assert (outcome.result, len(tries)) == (Result.HELD, 3)
    assert "transient duplicate in the online log" in outcome.note
    assert "no row must be mended" in outcome.next
