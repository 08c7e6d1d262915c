"""The engine's own laws: order of stages, dying anywhere, going back, and who may be where when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr

from orchestrator.engine import Ended, Paused
from orchestrator.errors import ConfigurationError, Held, PhaseFailed, RolloutError, UsageError
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.runbook import ReaderSettings, RollbackDdl
from orchestrator.model.state import FORWARD, Ask, State
from tests.support.world import RUNBOOK, Died, Stage


def forward(stage: Stage) -> None:
    while not isinstance(stage.commands.ready(None), str):
        stage.commands.next(None)


def test_the_stages_come_in_their_order_and_no_other() -> None:
    stage = Stage()
    for phase in FORWARD[1:]:
        with pytest.raises(UsageError, match="not the next stage"):
            stage.commands.next(phase)
    for phase in FORWARD:
        ended = stage.commands.next(phase)
        assert isinstance(ended, Ended)
        assert ended.record.state is State.DONE
        assert stage.commands.next(phase) == f"{phase} is already done"
    assert "nothing is left" in str(stage.commands.next(None))
    assert stage.world.ever_unsafe == []


def test_finish_closes_and_nothing_moves_afterwards() -> None:
    stage = Stage()
    with pytest.raises(Held, match="ddl is not done"):
        stage.commands.finish(False, ())
    forward(stage)
    stage.commands.finish(False, ())
    assert stage.record.state is State.FINISHED
    assert stage.world.mirror == set()
    with pytest.raises(UsageError, match="finished"):
        stage.commands.rollback("", ())
    assert stage.commands.next(None) == "this rollout is finished"


class DiesAt:
    """Dies at one moment, counted over all that ``dies`` is asked; later never."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, where: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise Died(where)


def insisting(stage: Stage, act: Callable[[], object]) -> None:
    """Type the same command again until it is through; a killed process leaves its flag to expire."""
    for _ in range(6):
        try:
            act()
            return
        except Died:
            stage.world.now_s += 100.0
            stage.world.look()
        except (Held, PhaseFailed):
            stage.world.now_s += 1.0
    raise AssertionError("the command never gets through")


@given(st.integers(1, 60), st.integers(1, 40))
def test_a_killed_command_typed_again_ends_the_same(first: int, second: int) -> None:
    stage = Stage()
    for dies_at in (first, second):
        stage.dies = DiesAt(dies_at)
        insisting(stage, lambda: forward(stage))
        assert stage.record.done == FORWARD
        assert stage.world.mirror == {"update", "insert"}
        assert stage.world.percent == 100
        insisting(stage, lambda: stage.commands.rollback("", ()))
        assert stage.record.done == ("ddl",)
        assert stage.world.mirror == set()
        assert stage.world.effective() == 0
    assert stage.world.ever_unsafe == []


@given(st.sampled_from(["set-percent:25", "set-percent:100", "compare:verify", "watch-readers", "compare:newest"]))
def test_a_failure_while_readers_may_be_on_the_new_column_takes_them_back(key: str) -> None:
    stage = Stage()
    for phase in FORWARD[:3]:
        stage.commands.next(phase)
    stage.driver.fail[key] = Outcome(Result.BACK, "a gate failed")
    with pytest.raises(PhaseFailed, match="rolled back by itself"):
        forward(stage)
    assert stage.record.state is State.ROLLED_BACK
    assert stage.world.effective() == 0
    assert stage.world.new_writes is False
    assert stage.world.mirror == {"update", "insert"}
    assert stage.record.done == FORWARD[:3]
    stage.driver.fail.clear()
    forward(stage)
    assert stage.record.done == FORWARD


def test_a_leap_goes_to_the_last_percent_and_only_when_it_is_said() -> None:
    stage = Stage()
    with pytest.raises(UsageError, match="--to 100, and the next stage is ddl"):
        stage.commands.next(None, leap=True)
    for phase in FORWARD[:3]:
        stage.commands.next(phase)
    stage.driver.fail["keep-flags"] = Outcome(Result.HELD, "not now")
    stage.driver.applied.clear()
    with pytest.raises(Held):
        stage.commands.next(None, leap=True)
    assert [k for k in stage.driver.applied if k.startswith("set-percent")] == ["set-percent:100"]
    assert stage.record.leap
    stage.commands.rollback("shadow-write", ())
    stage.driver.fail.clear()
    stage.driver.applied.clear()
    stage.commands.next(None)
    assert [k for k in stage.driver.applied if k.startswith("set-percent")] == ["set-percent:25", "set-percent:100"]


def test_why_a_command_was_typed_is_in_every_event_of_it() -> None:
    stage = Stage()
    force_setattr(stage.parts, "reason", "ticket 4711")
    stage.commands.next("ddl")
    assert {e.reason for e in stage.store.history("orders") if e.kind.value != "created"} == {"ticket 4711"}


def test_after_a_way_back_the_ramp_begins_at_its_first_step() -> None:
    stage = Stage()
    for phase in FORWARD[:3]:
        stage.commands.next(phase)
    stage.driver.fail["set-percent:100"] = Outcome(Result.BACK, "a gate failed")
    with pytest.raises(PhaseFailed):
        stage.commands.next(None)
    stage.driver.fail.clear()
    stage.driver.applied.clear()
    stage.commands.next(None)
    assert [k for k in stage.driver.applied if k.startswith("set-percent")] == ["set-percent:25", "set-percent:100"]


def test_a_lost_watcher_starts_at_zero_through_the_gate_and_goes_on_at_the_recorded_step() -> None:
    stage = Stage()
    for phase in FORWARD[:3]:
        stage.commands.next(phase)

    def dies(where: str) -> None:
        if where == "before set-percent:100":
            raise Died(where)

    stage.dies = dies
    with pytest.raises(Died):
        stage.commands.next(None)
    stage.dies = lambda where: None
    stage.driver.applied.clear()
    stage.commands.next(None)
    gate = ["lower-flags", "compare:drift", "catch-up", "measure-baselines", "open-writes"]
    assert stage.driver.applied == [*gate, "set-percent:100", "keep-flags"]


def test_a_flag_that_stays_is_lowered_first_by_whoever_takes_over() -> None:
    """``on_watcher_loss: stay``: the dead watcher's readers stay; the next command begins at 0 % all the same."""
    stage = Stage()
    stage.with_runbook(stays=True)
    for phase in FORWARD[:3]:
        stage.commands.next(phase)

    def dies(where: str) -> None:
        if where == "before set-percent:100":
            raise Died(where)

    stage.dies = dies
    with pytest.raises(Died):
        stage.commands.next(None)
    stage.world.now_s += 1e6
    assert stage.world.effective() == 25
    stage.dies = lambda where: None
    stage.driver.applied.clear()
    stage.commands.next(None)
    assert stage.driver.applied[0] == "lower-flags"
    assert stage.world.ever_unsafe == []


@pytest.mark.parametrize("ask", list(Ask))
def test_a_pause_or_abort_in_the_ramp_takes_readers_back_first(ask: Ask) -> None:
    stage = Stage()
    for phase in FORWARD[:3]:
        stage.commands.next(phase)

    def asks(where: str) -> None:
        if where == "before set-percent:100":
            stage.ask = ask

    stage.dies = asks
    with pytest.raises(Paused if ask is Ask.PAUSE else PhaseFailed):
        stage.commands.next(None)
    assert stage.world.effective() == 0
    assert stage.world.new_writes is False
    assert stage.record.state is State.PAUSED
    stage.ask, stage.dies = None, lambda where: None
    forward(stage)
    assert stage.record.done == FORWARD


@pytest.mark.parametrize("target", [*FORWARD[:4], ""])
def test_a_rollback_leaves_done_what_it_says_and_forward_again_works(target: str) -> None:
    stage = Stage()
    forward(stage)
    stage.commands.rollback(target, ())
    assert stage.world.effective() == (100 if target == "read-switch" else 0)
    assert stage.record.done == (FORWARD[: FORWARD.index(target) + 1] if target else ("ddl",))
    assert stage.world.mirror == (set() if target in ("ddl", "backfill", "") else {"update", "insert"})
    forward(stage)
    assert stage.record.done == FORWARD
    assert stage.world.ever_unsafe == []


def test_a_rollback_to_a_stage_that_is_not_done_changes_nothing() -> None:
    stage = Stage()
    for phase in FORWARD[:4]:
        stage.commands.next(phase)
    with pytest.raises(Held, match="verify is not done"):
        stage.commands.rollback("verify", ())
    assert stage.world.effective() == 100


def test_finish_wants_somebody_to_vouch_where_readers_of_the_flag_cannot_be_seen() -> None:
    stage = Stage()
    stage.with_runbook(reader=ReaderSettings("flagd", "/flags.json"), stays=True)
    forward(stage)
    with pytest.raises(Held, match="whether applications still ask flagd for the flags cannot be seen"):
        stage.commands.finish(False, ())
    stage.commands.finish(True, ())
    assert stage.record.state is State.FINISHED


def test_with_drop_the_way_back_takes_the_columns_too() -> None:
    stage = Stage()
    stage.with_runbook(rollback_ddl=RollbackDdl.DROP)
    forward(stage)
    stage.commands.rollback("", ())
    assert stage.world.columns == set()
    assert stage.record.done == ()
    forward(stage)
    assert stage.world.columns == {"state"}


def test_what_would_be_lost_must_be_accepted_before_the_mirror_goes() -> None:
    stage = Stage()
    forward(stage)
    stage.world.lost_rows = 3
    for accepted in ((), (("cancelled", 2),)):
        with pytest.raises(Held, match="3 rows hold cancelled"):
            stage.commands.rollback("", accepted)
        assert stage.world.mirror == {"update", "insert"}
        assert stage.world.effective() == 0
    stage.commands.rollback("", (("cancelled", 3),))
    assert stage.world.mirror == set()


def test_a_mirror_that_somebody_took_down_makes_shadow_write_not_done() -> None:
    stage = Stage()
    forward(stage)
    stage.commands.rollback("shadow-write", ())
    stage.world.mirror.discard("insert")
    ready = stage.commands.ready(None)
    assert not isinstance(ready, str)
    assert ready.name == "shadow-write"


def test_a_failed_step_leaves_the_stage_paused_and_the_same_command_goes_on() -> None:
    stage = Stage()
    stage.driver.fail["add-columns"] = Outcome(Result.FAILED, "1118 row size too large")
    with pytest.raises(PhaseFailed, match="1118"):
        stage.commands.next("ddl")
    assert stage.record.state is State.PAUSED
    assert stage.record.done == ()
    stage.driver.fail.clear()
    stage.commands.next("ddl")


@pytest.mark.parametrize("phase", FORWARD)
def test_a_driver_that_refuses_leaves_the_stage_paused_and_no_ramp_open(phase: str) -> None:
    stage = Stage()
    for before in FORWARD[: FORWARD.index(phase)]:
        stage.commands.next(before)
    kept = stage.world.effective()
    fake = stage.driver.apply

    def refuses(step: Any, beat: Any) -> Outcome:
        if step.kind in ("add-columns", "fill", "install-trigger", "set-percent", "compare"):
            raise ConfigurationError("the server says 1267", "a server that takes it", "mend it")
        return fake(step, beat)

    stage.driver.apply = refuses  # type: ignore[method-assign]
    with pytest.raises(ConfigurationError):
        stage.commands.next(phase)
    assert stage.record.state is State.PAUSED
    assert stage.record.intent is None
    assert stage.world.effective() == (kept if phase == "verify" else 0)
    stage.driver.apply = fake  # type: ignore[method-assign]
    forward(stage)
    assert stage.record.done == FORWARD


def test_a_step_that_nobody_can_judge_stops_for_a_human() -> None:
    stage = Stage()
    stage.driver.fail["add-columns"] = Outcome(Result.UNKNOWN, "the connection died and the table is locked")
    with pytest.raises(RolloutError) as caught:
        stage.commands.next("ddl")
    assert int(caught.value.exit_code) == 80
    assert stage.record.state is State.NEEDS_HUMAN
    stage.driver.fail.clear()
    stage.commands.next("ddl")


def test_a_changed_contract_is_refused_and_a_changed_setting_is_noted() -> None:
    stage = Stage()
    stage.commands.next("ddl")
    other = Stage(stage.world)
    other.store = stage.store
    force_setattr(other.parts, "store", stage.store)
    force_setattr(other.parts, "runbook", RUNBOOK.__class__(**{**_fields(RUNBOOK), "digest": "e" * 64}))
    with pytest.raises(RolloutError, match="differs"):
        other.commands.next(None)
    force_setattr(other.parts, "runbook", RUNBOOK.__class__(**{**_fields(RUNBOOK), "text": "other hold"}))
    other.commands.next("backfill")
    assert "settings-changed" in other.events


def _fields(runbook: object) -> dict[str, object]:
    return {name: getattr(runbook, name) for name in runbook.__struct_fields__}  # type: ignore[attr-defined]
