"""Whoever holds the lease gives a sign of life in all that takes long, also where only the observer or a driver's
looking and clearing up works: else the lease is let go under work that goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from orchestrator.checks.flag_alive import FlagAlive
from orchestrator.engine.walk import Paused
from orchestrator.errors import Fenced, PhaseFailed
from orchestrator.model.facts import Facts, Need, Reading
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Seen
from orchestrator.model.state import FORWARD, Ask, State
from orchestrator.model.step import Step
from orchestrator.ports import Beat, KeepGoing
from tests.support.world import Stage
from tests.unit.test_recovery import died_at

# Longer than the main loop of a holder may be silent, by far.
LONG_S = 120


def walked(*phases: str) -> Stage:
    stage = Stage(checks=(FlagAlive(),))
    for phase in phases:
        stage.commands.next(phase)
    return stage


def metered_slowly(stage: Stage, at: dict[int, Callable[[], object]] | None = None) -> list[int]:
    """The meter's scan takes LONG_S from here on, and things happen in some of its seconds. The list: how many rows
    each scan saw."""
    look, seen = stage.observer.look, list[int]()

    def slow(needs: frozenset[Need], keep_going: KeepGoing = lambda _: True) -> Facts:
        if Need.METER not in needs:
            return look(needs)
        seen.append(0)
        for second in range(1, LONG_S + 1):
            stage.clock.sleep(1.0)
            (at or {}).get(second, lambda: None)()
            seen[-1] = second
            if not keep_going(Progress(done=second)):
                return replace(look(needs), meter=Reading(stage.world.now_s, unseen="the scan was stopped"))
        return look(needs)

    stage.observer.look = slow  # type: ignore[method-assign]
    return seen


def asks(stage: Stage, ask: Ask | None) -> Callable[[], None]:
    def sets() -> None:
        stage.ask = ask

    return sets


def test_a_meter_that_is_scanned_for_long_loses_no_lease() -> None:
    """Neither after the comparison of verify, nor before the way back takes the mirror away."""
    stage = walked(*FORWARD[:4])
    seen = metered_slowly(stage)
    stage.commands.next("verify")
    assert stage.record.done == FORWARD
    assert seen
    before = len(seen)
    stage.commands.rollback("", ())
    assert stage.record.state is State.ROLLED_BACK
    assert len(seen) > before
    assert set(seen) == {LONG_S}


def test_a_pause_in_the_meters_scan_is_had_at_once() -> None:
    stage = walked(*FORWARD)
    seen = metered_slowly(stage, {5: asks(stage, Ask.PAUSE)})
    with pytest.raises(Paused):
        stage.commands.rollback("", ())
    assert seen == [5]
    assert stage.record.state is State.PAUSED
    assert stage.world.mirror == {"update", "insert"}


def test_what_takes_readers_back_does_so_in_the_meters_scan() -> None:
    stage = walked(*FORWARD[:4])
    seen = metered_slowly(stage, {5: lambda: stage.flags.lower(None)})
    with pytest.raises(PhaseFailed, match="somebody lowered the flags"):
        stage.commands.next("verify")
    assert seen == [5]
    assert stage.record.state is State.ROLLED_BACK


def test_looking_for_a_dead_commands_step_for_long_loses_no_lease() -> None:
    stage = Stage()
    died_at(stage, "after add-columns", stage.commands.next, "ddl")
    observe = stage.driver.observe

    def slow(step: Step, beat: Beat) -> Seen:
        for _ in range(LONG_S):
            stage.clock.sleep(1.0)
            beat(Progress())
        return observe(step, beat)

    stage.driver.observe = slow  # type: ignore[method-assign]
    stage.commands.next("ddl")
    assert stage.record.done == ("ddl",)


def half_a_mirror() -> Stage:
    stage = walked("ddl", "backfill")
    died_at(stage, "after install-trigger:update", stage.commands.next, "shadow-write")
    return stage


def test_clearing_up_for_long_loses_no_lease_and_is_stopped_by_nobody() -> None:
    stage, answers = half_a_mirror(), list[object]()

    def slow(step: Step, beat: Beat) -> Outcome:
        for _ in range(LONG_S):
            stage.clock.sleep(1.0)
            stage.ask = Ask.PAUSE
            answers.append(beat(Progress()))
        return Outcome(Result.DONE, "the trigger is gone")

    stage.driver.abandon = slow  # type: ignore[method-assign]
    assert "the trigger is gone" in stage.commands.abort()
    assert answers == [GO] * LONG_S
    assert stage.record.intent is None


def test_clearing_up_ends_where_somebody_else_has_the_lease() -> None:
    stage, dropped = half_a_mirror(), list[bool]()

    def waits(step: Step, beat: Beat) -> Outcome:
        stage.store.bump_epoch(stage.runbook.id)
        beat(Progress())
        dropped.append(True)
        return Outcome(Result.DONE)

    stage.driver.abandon = waits  # type: ignore[method-assign]
    with pytest.raises(Fenced):
        stage.commands.abort()
    assert dropped == []
    assert stage.record.intent is not None, "whoever has the lease now clears it"
