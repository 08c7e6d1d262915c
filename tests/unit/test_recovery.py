"""Law 4: what a command that died had begun is asked of the driver, and only what the driver says is believed."""

from __future__ import annotations

import pytest

from orchestrator.errors import CannotSay
from orchestrator.model.outcome import Outcome, Result, Seen
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import State
from orchestrator.model.step import Step, step_key
from tests.support.world import Died, Stage


def died_at(stage: Stage, where: str, phase: str) -> None:
    """The command for that stage is killed there."""

    def dies(now: str) -> None:
        if now == where:
            raise Died(where)

    stage.dies = dies
    with pytest.raises(Died):
        stage.commands.next(phase)
    stage.dies = lambda _: None


def test_what_a_dead_command_added_is_remembered_as_ours() -> None:
    """Else the way back would leave the columns there: nobody knew that they are ours."""
    stage = Stage()
    stage.with_runbook(rollback_ddl=RollbackDdl.DROP)
    died_at(stage, "after add-columns", "ddl")
    stage.commands.next("ddl")
    assert stage.record.columns_added == ("state",)
    assert stage.driver.applied.count("add-columns") == 1, "found done, not done twice"
    stage.commands.rollback("", ())
    assert stage.world.columns == set()


def test_a_step_whose_fate_nobody_can_say_stops_for_a_human() -> None:
    stage = Stage()
    died_at(stage, "before add-columns", "ddl")
    stage.driver.observe = lambda step: Seen.UNKNOWN  # type: ignore[method-assign]
    with pytest.raises(CannotSay, match="nobody can say what became of add-columns"):
        stage.commands.next("ddl")
    assert stage.record.state is State.NEEDS_HUMAN
    assert stage.driver.applied == []


def test_half_a_step_that_is_no_longer_wanted_is_cleared() -> None:
    """A trigger was half installed when the command died, and the next command is the way back."""
    stage = Stage()
    for phase in ("ddl", "backfill"):
        stage.commands.next(phase)
    died_at(stage, "before install-trigger:update", "shadow-write")
    cleared: list[str] = []

    def abandon(step: Step) -> Outcome:
        cleared.append(step_key(step))
        return Outcome(Result.DONE)

    stage.driver.abandon = abandon  # type: ignore[method-assign]
    stage.commands.rollback("", ())
    assert cleared == ["install-trigger:update"]
    assert stage.record.intent is None
