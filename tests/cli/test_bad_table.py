"""A table, key, column or value that a rollout cannot go on with ends with 65, and nothing was begun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.sandbox.pair import Pair
from tests.support.command import Ran
from tests.support.servers import script
from tests.support.small import PLAIN, Small, small


def refused(here: Small, *parts: str) -> Ran:
    """``next`` ends with 65 and says so; nothing is changed."""
    with here.unchanged():
        ran = here.terminal.run("next", "-y", expect=65)
    assert ran.err.splitlines()[0].split() == ["runbook", "exit", "65"], ran.err
    for part in parts:
        assert part in ran.err, f"{part!r} is not in\n{ran.err}"
    return ran


def refused_in_the_plan(here: Small, *parts: str) -> None:
    """``plan`` ends with 65 as well, after all that it has to show, in one object."""
    with here.unchanged():
        planned = here.terminal.run("plan", "--json", expect=65).json
    for part in parts:
        assert part in planned["seen"] + planned["expected"] + planned["next"], planned
    assert {"digest", "fingerprint", "stages", "budgets", "checks", "problems"} <= set(planned)
    assert (planned["error"], planned["code"]) == ("runbook", 65)


@pytest.mark.parametrize(
    ("columns", "options", "instead", "parts"),
    [
        ("", "", "", ("there is no table", ".orders", "check table: in the runbook")),
        ("", "", "CREATE VIEW {0}.orders AS SELECT 1 AS id, 'new' AS status", ("orders is a view", "a base table")),
        (PLAIN, "ENGINE=MyISAM", "", ("orders has the engine MyISAM", "ENGINE=InnoDB")),
        ("id INT NULL UNIQUE, status VARCHAR(20), note VARCHAR(50)", "", "", ("orders: ", "PRIMARY KEY", "UNIQUE")),
        ("id DOUBLE PRIMARY KEY, status VARCHAR(20), note VARCHAR(50)", "", "", ("orders: ", "DOUBLE")),
    ],
    ids=["no table", "a view", "MyISAM", "a key with NULL", "a key of DOUBLE"],
)
def test_65_for_a_table_that_cannot_be_walked(
    pair: Pair, tmp_path: Path, columns: str, options: str, instead: str, parts: tuple[str, ...]
) -> None:
    with small(pair, tmp_path, columns, options=options) as here:
        if instead:
            script(pair.primary, instead.format(here.schema))
        refused(here, *parts)
        if not columns:
            refused_in_the_plan(here, *parts)


def test_65_for_a_table_whose_name_differs_in_case_only_with_the_name_that_is_there(pair: Pair, tmp_path: Path) -> None:
    """B102: refuse, "did you mean orders", as drift does."""
    with small(pair, tmp_path) as here:
        here.write((", name: orders}", ", name: Orders}"))
        meant = f"there is no table {here.schema}.Orders, did you mean {here.schema}.orders?"
        refused_in_the_plan(here, meant, f"write {here.schema}.orders as table: of the runbook")


def test_65_for_a_column_or_index_that_is_there_with_another_meaning(pair: Pair, tmp_path: Path) -> None:
    with small(
        pair, tmp_path, PLAIN + ", state VARCHAR(16), KEY orders_state_idx (note)", "(1, 'new', '', NULL)"
    ) as here:
        refused(here, "state", "varchar(16)", "varchar(32)", "orders_state_idx")


def test_0_for_a_column_that_is_there_as_wanted_it_is_not_added_again_and_that_is_said(
    pair: Pair, tmp_path: Path
) -> None:
    with small(
        pair, tmp_path, PLAIN + ", state VARCHAR(32), KEY orders_state_idx (state)", "(1, 'new', '', NULL)"
    ) as here:
        before = here.seen()["create orders"]
        plan = here.terminal.run("plan")
        assert "already there" in plan.out
        assert "state" in plan.out
        ran = here.terminal.run("next", "--phase", "ddl", "-y")
        assert "already there" in ran.out
        assert here.seen()["create orders"] == before
        assert [e["event"] for e in history(here)] == ["created", "started", "intended", "step-done", "phase-done"]


def history(here: Small) -> list[dict[str, object]]:
    return [json.loads(line) for line in here.terminal.run("history", "--json").out.splitlines()]


def test_65_for_a_column_that_was_there_and_holds_what_only_somebody_else_can_mean(pair: Pair, tmp_path: Path) -> None:
    rows = "(1, 'new', '', 'pending'), (2, 'new', '', NULL), (3, 'new', '', 'theirs'), (4, 'done', '', 'pending')"
    with small(pair, tmp_path, PLAIN + ", state VARCHAR(32)", rows) as here:
        ran = refused(here, "column state holds 'theirs' in 1 rows (keys 3), and no step of ours added it")
        assert "column state holds 'pending' in 1 rows (keys 4)" in ran.err
        here.write(("rollback: {quiet", "rollback: {ddl: drop, quiet"))
        here.sql(f"UPDATE {here.table} SET state = NULL WHERE id IN (3, 4)")
        here.terminal.run("run", "--until", "backfill", "-y")
        here.terminal.run("rollback", "-y")
        left = here.seen()["create orders"]
        assert "`state` varchar(32)" in left, "it was there before: it is not ours to drop"
        assert "orders_state_idx" not in left


def test_65_for_a_moment_that_nobody_can_tell_from_the_default(pair: Pair, tmp_path: Path) -> None:
    """A column of the pair that was there: backfill would write over what may be somebody's."""
    columns = "id INT PRIMARY KEY, made DATETIME NOT NULL, state DATETIME NULL DEFAULT CURRENT_TIMESTAMP"
    rows = "(1, '2026-01-01', '2026-01-01'), (2, '2026-01-02', '2026-05-05'), (3, '2026-01-03', NULL)"
    with small(pair, tmp_path, columns, rows) as here:
        copied = ("forward: {values: {new: pending, done: succeeded}, unmapped: refuse}", "forward: copy")
        back = here.text()[here.text().index("backward:") : here.text().index("\nphases:")]
        here.write(
            ("varchar(32)", "datetime, default: {sql: CURRENT_TIMESTAMP}"),
            ("old: status", "old: made"),
            copied,
            (back, "backward: copy"),
        )
        refused(here, "column state holds '2026-05-05 00:00:00' in 1 rows (keys 2), and no step of ours added it")


def test_an_index_that_was_there_as_wanted_stays_when_ours_go(pair: Pair, tmp_path: Path) -> None:
    with small(pair, tmp_path, PLAIN + ", KEY orders_status_idx (status)") as here:
        both = "  indexes:\n    - {name: orders_status_idx, columns: [status]}"
        here.write(("  indexes:", both), ("rollback: {quiet", "rollback: {ddl: drop, quiet"))
        here.terminal.run("run", "--until", "ddl", "-y")
        assert "orders_state_idx" in here.seen()["create orders"]
        shown = here.terminal.run("rollback", "--dry-run").out
        assert ("orders_state_idx" in shown, "orders_status_idx" in shown) == (True, False)
        here.terminal.run("rollback", "-y")
        left = here.seen()["create orders"]
        assert "orders_status_idx" in left, "it was there before: it is not ours to drop"
        assert "orders_state_idx" not in left


def test_65_for_live_values_that_the_mapping_misses_with_counts_and_keys(pair: Pair, tmp_path: Path) -> None:
    rows = "(1, 'new', NULL), (2, 'done ', ''), (3, 'done ', ''), (4, 'Done', ''), (7, '', '')"
    with small(pair, tmp_path, rows=rows) as here:
        ran = refused(here, "'done '", "unmapped", "2 rows (keys 2 3)")
        assert "'Done' is unmapped in 1 rows (keys 4)" in ran.err
        refused_in_the_plan(here, "'done '", "unmapped", "2 rows (keys 2 3)")
        assert "'' is unmapped in 1 rows (keys 7)" in ran.err


@pytest.mark.parametrize(
    ("columns", "change"),
    [
        (PLAIN, ("columns: [state]}", "columns: [state], unique: true}")),
        (PLAIN + ", UNIQUE KEY one_status (status, id)", ("why", "why")),
        (PLAIN + ", CONSTRAINT sane CHECK (`status` <> 'odd')", ("why", "why")),
    ],
    ids=["new column in a new unique index", "old column in a live unique index", "old column in a live CHECK"],
)
def test_65_for_a_partner_column_in_a_constraint_that_the_mirror_could_break(
    pair: Pair, tmp_path: Path, columns: str, change: tuple[str, str]
) -> None:
    with small(pair, tmp_path, columns) as here:
        if change[0] != change[1]:
            here.write(change)
        refused(here, "status" if "one_status" in columns or "sane" in columns else "state", "mirror")


def test_75_for_a_second_rollout_on_the_table_and_the_first_goes_on(pair: Pair, tmp_path: Path) -> None:
    with small(pair, tmp_path) as here:
        here.terminal.run("next", "-y")
        other = here.operator()
        other.runbook = here.write(("name: orders-state", "name: another"), name="other.yaml")
        before = here.seen()
        told = other.run("next", "-y", "--json", expect=75).json
        assert (told["error"], told["code"]) == ("held", 75)
        assert "orders-state" in told["seen"]
        assert f"{here.schema}.orders" in told["seen"]
        assert here.seen() == before
        assert [r[0] for r in here.sql("SELECT id FROM _rollout.rollout")] == ["orders-state"]
        here.terminal.run("next", "--phase", "backfill", "-y")


def test_65_for_a_source_that_somebody_alters_between_two_stages_and_nothing_for_what_is_theirs(
    pair: Pair, tmp_path: Path
) -> None:
    """B148: the live definition is compared before every phase: stop with a diff."""
    with small(pair, tmp_path) as here:
        here.terminal.run("next", "--phase", "ddl", "-y")
        here.sql(
            f"ALTER TABLE {here.table} ADD COLUMN theirs INT, ADD INDEX (note), MODIFY status VARCHAR(80) NOT NULL"
        )
        refused(here, "column status: type is varchar(80), was varchar(20): somebody altered it")
