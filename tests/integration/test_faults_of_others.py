"""Somebody else changes the table while a rollout is on its way: between two stages, or in a backfill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.engine import pulse
from orchestrator.engine.walk import Paused
from orchestrator.errors import Exit, RolloutError
from orchestrator.model.state import FORWARD
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from tests.support.meanwhile import ROW_BY_ROW, Somebody, beside, ends
from tests.support.servers import script
from tests.support.small import Small, small
from tests.support.within import opened

ROWS = ", ".join(f"({n}, IF({n} % 2, 'new', 'done'), NULL)" for n in range(1, 41))
LONG = (pytest.mark.slow, pytest.mark.faults)
WRONG = "SELECT COUNT(*) FROM {t} WHERE NOT (state <=> IF(status = 'new', 'pending', 'succeeded'))"


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path, rows=ROWS) as at:
        at.write(ROW_BY_ROW)
        yield at


def stages(here: Small, *phases: str) -> None:
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        for phase in phases:
            app.commands.next(phase)


def wrong(here: Small) -> int:
    return int(here.sql(WRONG.format(t=here.table))[0][0])


def rows(here: Small) -> int:
    return int(here.sql(f"SELECT COUNT(*) FROM {here.table}")[0][0])


def grown(here: Small) -> None:
    """Ten times as many rows, between those that were there and behind them."""
    here.sql(f"UPDATE {here.table} SET id = id * 20 ORDER BY id DESC")
    here.sql(
        f"INSERT INTO {here.table} (id, status) SELECT o.id + n.i, o.status FROM {here.table} o,"
        " (VALUES ROW(1), ROW(2), ROW(3), ROW(4), ROW(5), ROW(6), ROW(7), ROW(8), ROW(900)) AS n (i)"
    )


@pytest.mark.parametrize(
    "what",
    ["grow", *(pytest.param(f"{w} TABLE {{t}}", marks=LONG) for w in ("TRUNCATE", "OPTIMIZE"))],
)
def test_a_table_that_is_emptied_rebuilt_or_grows_tenfold_under_a_backfill_ends_with_every_row_right(
    here: Small, what: str
) -> None:
    stages(here, "ddl")
    somebody = Somebody(
        (lambda: grown(here)) if what == "grow" else (lambda: script(here.pair.primary, what.format(t=here.table))),
        during="fill:backfill",
    )
    with beside(here, somebody) as (_, commands):
        commands.next("backfill")
        assert somebody.acted
        commands.next("shadow-write")
    assert rows(here) == {"TRUNCATE TABLE {t}": 0, "OPTIMIZE TABLE {t}": 40, "grow": 400}[what]
    assert wrong(here) == 0


def test_a_table_that_is_renamed_away_under_a_backfill_ends_it_with_its_name_and_it_goes_on_when_it_is_back(
    here: Small,
) -> None:
    stages(here, "ddl")
    there, away = here.table, f"`{here.schema}`.`away`"
    somebody = Somebody(lambda: here.sql(f"RENAME TABLE {there} TO {away}"), during="fill:backfill")
    error = ends(here, somebody, "backfill")
    assert error.exit_code is Exit.CONFIGURATION, error.seen
    assert f"{here.schema}.orders" in error.seen
    with opened(load(here.terminal.runbook), here.pair.primary) as app, pytest.raises(RolloutError) as gone:
        app.commands.next("backfill")
    assert gone.value.exit_code is Exit.RUNBOOK, gone.value.seen
    assert "there is no table" in gone.value.seen
    here.sql(f"RENAME TABLE {away} TO {there}")
    stages(here, "backfill")
    assert wrong(here) == 0


def swapped_by_a_copy_tool(here: Small) -> None:
    """As another gh-ost does at its end: a copy with a column of its own, and without our triggers, takes the name."""
    ghost, old = f"`{here.schema}`.`_orders_gho`", f"`{here.schema}`.`_orders_del`"
    script(
        here.pair.primary,
        f"CREATE TABLE {ghost} LIKE {here.table}; ALTER TABLE {ghost} ADD COLUMN theirs INT;"
        f"INSERT INTO {ghost} SELECT *, 1 FROM {here.table};"
        f"RENAME TABLE {here.table} TO {old}, {ghost} TO {here.table}",
    )


def test_a_table_that_somebody_elses_copy_tool_swaps_has_no_mirror_and_shadow_write_is_the_next_stage_again(
    here: Small,
) -> None:
    """The copy has every row, but nothing keeps its columns in step. The old table still has triggers of our name."""
    stages(here, *FORWARD[:4])
    swapped_by_a_copy_tool(here)
    here.sql(f"UPDATE {here.table} SET status = 'done' WHERE id = 1")
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        with pytest.raises(RolloutError) as refused:
            app.commands.next("verify")
        assert refused.value.exit_code is Exit.USAGE
        assert "shadow-write is not done" in refused.value.seen
        with pytest.raises(RolloutError) as taken:
            app.commands.next("shadow-write")
    assert taken.value.exit_code is Exit.PHASE_FAILED
    assert f"stands on {here.schema}._orders_del" in taken.value.seen
    here.sql(f"DROP TABLE `{here.schema}`.`_orders_del`")
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        app.commands.next("shadow-write", "old_wins")
    assert wrong(here) == 0


def stopped(here: Small) -> None:
    """Somebody at another terminal types ``pause``."""
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        app.commands.pause()


def dropped(here: Small, *events: str) -> None:
    """Triggers for these events, and then a row is changed."""
    for name, event in [row[:2] for row in here.sql(f"SHOW TRIGGERS FROM `{here.schema}`")]:
        if event in events:
            here.sql(f"DROP TRIGGER `{here.schema}`.`{name}`")
    here.sql(f"UPDATE {here.table} SET status = IF(status = 'new', 'done', 'new') WHERE id = 7")


def test_b58_a_sweep_whose_triggers_somebody_drops_stops_at_the_next_beat_and_is_done_again(
    here: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case B58. Also when both go, which looks as if they had never been put up, and in a sweep that was paused, whose
    triggers this visit did not put up."""
    here.write()
    stages(here, "ddl", "backfill")
    monkeypatch.setattr(pulse, "LOOK_EVERY_S", 0.0)
    here.sql(f"UPDATE {here.table} SET status = 'new' WHERE id IN (2, 4, 6)")
    somebody = Somebody(lambda: stopped(here), during="fill:sweep", at_beat=1)
    with beside(here, somebody) as (_, commands), pytest.raises(Paused):
        commands.next("shadow-write")
    somebody = Somebody(lambda: dropped(here, "UPDATE", "INSERT"), during="fill:sweep", at_beat=1)
    error = ends(here, somebody, "shadow-write")
    assert error.exit_code is Exit.HELD, error.seen
    assert "UPDATE trigger missing, INSERT trigger missing" in error.seen
    assert somebody.beats == 2, "the beat after they were dropped"
    stages(here, "shadow-write")
    assert wrong(here) == 0


@pytest.mark.slow
@pytest.mark.parametrize("step", ["fill:sweep", "soak"])
def test_b58_one_trigger_that_is_dropped_under_a_sweep_or_a_soak_ends_it(
    here: Small, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Case B58."""
    here.write(("shadow_write: {soak: 200ms}", "shadow_write: {soak: 3s}"))
    stages(here, "ddl", "backfill")
    monkeypatch.setattr(pulse, "LOOK_EVERY_S", 0.0)
    here.sql(f"UPDATE {here.table} SET status = 'new' WHERE id IN (2, 4, 6)")
    error = ends(here, Somebody(lambda: dropped(here, "UPDATE"), during=step, at_beat=1), "shadow-write")
    assert error.exit_code is Exit.HELD, error.seen
    assert "UPDATE trigger missing, INSERT trigger in place" in error.seen
    stages(here, "shadow-write")
    assert wrong(here) == 0


@pytest.mark.parametrize("done", [2, pytest.param(4, marks=LONG)])
def test_a_copy_from_before_ddl_that_takes_the_tables_place_makes_ddl_the_next_stage(here: Small, done: int) -> None:
    """Another tool's copy was begun before our columns were there. With a mirror, readers go back first."""
    ghost, old = f"`{here.schema}`.`_orders_gho`", f"`{here.schema}`.`_orders_del`"
    script(here.pair.primary, f"CREATE TABLE {ghost} LIKE {here.table}; INSERT INTO {ghost} SELECT * FROM {here.table}")
    stages(here, *FORWARD[:done])
    script(here.pair.primary, f"RENAME TABLE {here.table} TO {old}, {ghost} TO {here.table}")
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        if done > 2:
            with pytest.raises(RolloutError) as refused:
                app.commands.next(None)
            assert refused.value.exit_code is Exit.RUNBOOK
            assert "lacks state, which ddl added" in refused.value.seen
            app.commands.rollback("", ())
            here.sql(f"DROP TABLE {old}")
        for phase in FORWARD[:3]:
            app.commands.next(phase)
    assert (rows(here), wrong(here)) == (40, 0)
