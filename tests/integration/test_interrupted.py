"""What a command leaves that dies between two steps, on a real server: the next command finds it and goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from orchestrator.app.wiring import App
from orchestrator.errors import Held
from orchestrator.model.outcome import Outcome
from orchestrator.model.state import State
from orchestrator.model.step import Step, step_key
from orchestrator.ports import Beat, Driver
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from tests.support.small import Small, small
from tests.support.within import commands_with, forward, opened
from tests.support.world import Died


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


@pytest.fixture
def app(here: Small) -> Iterator[App]:
    with opened(load(here.terminal.runbook), here.pair.primary) as opened_app:
        yield opened_app


@dataclass
class Mortal:
    """The real driver; the process dies when the named step is about to be applied."""

    inner: Driver[Any]
    at: str

    def describe(self, step: Step) -> Any:
        return self.inner.describe(step)

    def apply(self, step: Step, beat: Beat) -> Outcome:
        if step_key(step) == self.at:
            raise Died(self.at)
        return self.inner.apply(step, beat)

    def observe(self, step: Step, beat: Beat) -> Any:
        return self.inner.observe(step, beat)

    def abandon(self, step: Step, beat: Beat) -> Outcome:
        return self.inner.abandon(step, beat)


def dies_before(app: App, step: str, command: Callable[[Any], object]) -> None:
    with pytest.raises(Died):
        command(commands_with(app, lambda driver: Mortal(driver, step)))


def triggers(here: Small) -> int:
    return len(here.sql("SELECT 1 FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s", here.schema))


def test_a_finish_that_dies_behind_its_mirror_is_finished_by_the_same_command(here: Small, app: App) -> None:
    forward(app.commands)
    dies_before(app, "close-rollout", lambda c: c.finish(False, ()))
    assert triggers(here) == 0
    app.commands.finish(False, ())
    assert here.sql("SELECT state FROM _rollout.rollout") == [("finished",)]


def test_the_way_back_from_the_middle_of_shadow_write_is_open(here: Small, app: App) -> None:
    """The mirror stands, and a row that came before it is not filled yet: the old column is the truth, all is there."""
    for phase in ("ddl", "backfill"):
        app.commands.next(phase)
    here.sql(f"INSERT INTO {here.table} (id, status) VALUES (4, 'new')")
    dies_before(app, "fill:sweep", lambda c: c.next("shadow-write"))
    assert triggers(here) == 2
    app.commands.rollback("", ())
    assert triggers(here) == 0
    record = app.store.load(app.parts.runbook.id)
    assert record is not None
    assert record.state is State.ROLLED_BACK


@pytest.mark.parametrize("mapped", [True, False], ids=["derived", "without any mapping"])
def test_what_only_a_dropped_column_holds_is_on_the_meter(here: Small, mapped: bool) -> None:
    """Law 1: a column that goes takes with it what the new application wrote, and no mapping gives that again."""
    text = here.text(
        (
            "- {name: state, type: varchar(32)}",
            "- {name: state, type: varchar(32)}\n    - {name: kind, type: varchar(9)}",
        ),
        ("rollback: {quiet", "rollback: {ddl: drop, quiet"),
        ("phases:", "  - {new: kind, forward: {sql: \"'order'\"}}\nphases:"),
    )
    if not mapped:
        text = text[: text.index("mappings:")] + text[text.index("phases:") :]
    here.terminal.runbook.write_text(text)
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        for phase in ("ddl", "backfill"):
            app.commands.next(phase)
        regained = "'order'" if mapped else "NULL"
        here.sql(f"UPDATE {here.table} SET kind = IF(id = 2, 'refund', {regained})")
        with pytest.raises(Held, match="1 rows hold dropped"):
            app.commands.rollback("", ())
        assert here.sql(f"SELECT id FROM {here.table} WHERE kind = 'refund'") == [(2,)]
        assert "orders_state_idx" in here.seen()["create orders"], "nothing is dropped before all is accepted"
        app.commands.rollback("", (("dropped", 1),))
    assert "kind" not in here.seen()["create orders"]


def test_a_trigger_of_the_application_that_came_behind_ours_is_followed_by_a_new_one(here: Small, app: App) -> None:
    """Ours must run last; what shadow-write reports done must be so, or it would be the next stage for ever."""
    for phase in ("ddl", "backfill", "shadow-write"):
        app.commands.next(phase)
    here.sql(
        f"CREATE TRIGGER {here.schema}.theirs BEFORE UPDATE ON {here.table} FOR EACH ROW SET NEW.note = NEW.status"
    )
    assert app.planner.present().next_phase == "shadow-write"
    app.commands.next("shadow-write")
    assert app.planner.present().next_phase == "read-switch"
    order = "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s AND"
    names = here.sql(f"{order} EVENT_MANIPULATION = 'UPDATE' ORDER BY ACTION_ORDER", here.schema)
    assert [name for (name,) in names] == ["theirs", "_rollout_orders-state_bu"]
