"""What a plan uses up is said before anything is written, and a plan that does not fit is refused with the figure."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from orchestrator.engine.budgets import budgets
from orchestrator.model.blockers import KillPolicy
from orchestrator.model.contract import Column, Contract, Index, IndexPart, TableName
from orchestrator.model.cost import cost_of, together
from orchestrator.model.facts import DiskFacts, Facts, Reading, RowVersions, SizeFacts
from orchestrator.model.runbook import Limits, PhaseSettings, Runbook
from orchestrator.model.step import AddColumns, AddIndex, GhostAlter, Step
from orchestrator.model.types import parse_type
from orchestrator.model.way import Way
from orchestrator.model.window import Window
from phases.limits import disk_problems

TABLE = TableName("shop", "orders")
SIZE = SizeFacts(200_000, 103 * 2**20, 34 * 2**20)
COLUMNS = AddColumns(table=TABLE, columns=(Column("a", parse_type("int")),), family=(TABLE,))
INDEX = AddIndex(table=TABLE, index=Index("i", (IndexPart("a"),)), final_lock_budget_s=2.0, tries=3, family=(TABLE,))
GHOST = GhostAlter(table=TABLE, family=(TABLE,), why="it copies")
REBUILD = replace(COLUMNS, way=Way("INPLACE", "NONE", "no row versions", rebuilds=True))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def runbook(window: Window | None = None, kill: KillPolicy | None = None) -> Runbook:
    limits = Limits(kill=kill or KillPolicy())
    return Runbook("r", Contract(TABLE, ()), "d", "", "r", phases=PhaseSettings(window=window), limits=limits)


def seen(free_bytes: int) -> Facts:
    return Facts(
        size=Reading(0.0, SIZE),
        disk=Reading(0.0, DiskFacts(free_bytes, "local")),
        row_versions=Reading(0.0, RowVersions(63, 64)),
    )


def test_instant_costs_a_row_version_and_a_moment() -> None:
    cost = cost_of(COLUMNS, SIZE, None)
    assert (cost.row_versions, cost.peak_bytes, cost.replica_s) == (1, 0, 0.0)
    assert cost.exclusive_locks == 1


def test_a_rebuild_and_a_copy_need_the_table_again_and_only_the_rebuild_stops_replicas() -> None:
    rebuild, ghost = cost_of(REBUILD, SIZE, None, 2.0), cost_of(GHOST, SIZE, None)
    assert rebuild.temporary_bytes == ghost.temporary_bytes == 137 * 2**20
    assert (rebuild.replica_s > 5, ghost.replica_s) == (True, 0.0)
    assert (rebuild.binlog_bytes, ghost.binlog_bytes > 137 * 2**20) == (0, True)
    assert rebuild.low_s < 7.6 < rebuild.high_s, "measured: 7.6 s"


def test_an_index_is_inside_its_measured_range() -> None:
    cost = cost_of(INDEX, SIZE, None)
    assert cost.low_s < 0.32
    assert cost.high_s > 0.64
    assert cost.last_lock_s == 2.0


def test_what_is_given_back_counts_once() -> None:
    one, three = cost_of(INDEX, SIZE, None), together([cost_of(INDEX, SIZE, None)] * 3)
    assert three.disk_bytes == 3 * one.disk_bytes
    assert three.temporary_bytes == one.temporary_bytes


def test_a_plan_that_does_not_fit_is_refused_with_the_figure() -> None:
    (problem,) = disk_problems(runbook(), seen(100 * 2**20), (COLUMNS, GHOST))
    assert "274 MiB" in problem.seen or "282 MiB" in problem.seen
    assert "100 MiB are free" in problem.seen
    assert disk_problems(runbook(), seen(2**40), (COLUMNS, GHOST)) == ()
    assert disk_problems(runbook(), Facts(size=Reading(0.0, SIZE)), (GHOST,)) == ()


def test_the_plan_says_every_budget() -> None:
    window = Window(60, 300, "UTC")
    book = runbook(window, KillPolicy(30.0, ("backup",)))
    found = {b.name: b for b in budgets(seen(2**40), book, (COLUMNS, INDEX), NOON)}
    assert found["locks"].need == "2 × up to 250 ms, 1 × up to 2 s at an end"
    assert (found["row versions"].need, found["row versions"].have) == ("1", "64 (63 used)")
    assert found["row versions"].fits
    assert found["window"].have == "opens in 13.0 h"
    assert found["window"].fits is False
    assert found["disk"].fits
    assert "never backup" in found["killing"].need
    full = {b.name: b for b in budgets(seen(1), book, (COLUMNS, replace(COLUMNS), GHOST), NOON)}
    assert (full["row versions"].fits, full["disk"].fits) == (False, False)


def test_b74_a_plan_that_rebuilds_says_that_the_online_log_may_overflow_and_what_to_do() -> None:
    """B74: plan warns for rebuilds on busy tables, and for what an index build has to catch up with."""

    def told(*steps: Step) -> list[tuple[str, str]]:
        return [(b.need, b.have) for b in budgets(seen(2**40), runbook(), steps, NOON) if b.name == "online log"]

    ((need, have),) = told(COLUMNS, REBUILD, INDEX, replace(INDEX))
    assert need.startswith("the application's writes during 1 rebuilds of the table and 2 index builds;")
    assert "1799" in need
    assert "innodb_online_alter_log_max_size" in have
    assert "gh-ost" in have
    assert told(COLUMNS, GHOST) == []
