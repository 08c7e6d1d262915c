"""After the last stage: whoever watches readers takes them back by himself, is fenced, and stands in nobody's way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from orchestrator.checks.flag_alive import FlagAlive
from orchestrator.checks.mirror_intact import MirrorIntact
from orchestrator.checks.reading import unseen
from orchestrator.engine import Commands
from orchestrator.errors import Held, PhaseFailed
from orchestrator.model.facts import Facts, Need
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.runbook import Limits
from orchestrator.model.state import FORWARD, Ask, State
from orchestrator.model.step import Step, StepClass
from orchestrator.model.verdict import Verdict
from orchestrator.ports import Beat, Check
from tests.support.world import RUNBOOK, Stage


def at_the_end(*checks: Check, stages: tuple[str, ...] = FORWARD) -> Stage:
    """Those stages are done, readers are at 100 %."""
    stage = Stage(checks=(FlagAlive(), *checks))
    for phase in stages:
        stage.commands.next(phase)
    return stage


def after(stage: Stage, seconds: float, act: Callable[[], object]) -> None:
    """``act`` happens once, when so much time has passed in a command."""
    at, over = stage.world.now_s + seconds, [False]

    def now() -> None:
        if stage.world.now_s >= at and not over[0]:
            over[0] = True
            act()

    stage.world.interfere = now


def a_signal(stage: Stage) -> None:
    stage.ask = Ask.PAUSE


def test_a_gate_that_fails_after_the_last_stage_takes_readers_back() -> None:
    stage = at_the_end()
    stage.driver.fail["watch-readers"] = Outcome(Result.BACK, "gate app-errors: fail (9)")
    with pytest.raises(PhaseFailed, match=r"verify rolled back by itself: .*gate app-errors: fail"):
        stage.commands.watch()
    assert (stage.record.state, stage.record.done) == (State.ROLLED_BACK, FORWARD[:3])
    assert (stage.world.effective(), stage.world.new_writes) == (0, False)
    assert stage.world.mirror == {"update", "insert"}
    assert stage.events[-1] == "went-back"
    stage.driver.fail.clear()
    for phase in FORWARD[3:]:
        stage.commands.next(phase)
    assert stage.record.done == FORWARD


def test_flags_that_somebody_lowered_without_a_word_are_seen_and_recorded() -> None:
    stage = at_the_end()

    def lowered() -> None:
        stage.flags.lower(None)
        after(stage, 100, lambda: a_signal(stage))

    after(stage, 30, lowered)
    with pytest.raises(PhaseFailed, match="somebody lowered the flags: readers are at 0 %, new_writes is closed"):
        stage.commands.watch()
    assert stage.record.state is State.ROLLED_BACK


@pytest.mark.parametrize("when", ["before", "after before-verify", "while it soaks", "while it compares"])
def test_verify_does_not_pass_while_readers_are_back(when: str) -> None:
    """Whoever lowered the flags died before the record was written: it still says that readers are at 100 %."""
    stage = at_the_end(stages=FORWARD[:4])

    def lowered() -> None:
        stage.flags.lower(None)

    if when == "before":
        lowered()
    elif when == "while it soaks":
        after(stage, 1, lowered)
    else:
        point = "before compare:verify" if when == "after before-verify" else "before compare:newest"
        stage.dies = lambda where: lowered() if where == point else None
    with pytest.raises(PhaseFailed, match="somebody lowered the flags"):
        stage.commands.next("verify")
    assert (stage.record.state, stage.record.done) == (State.ROLLED_BACK, FORWARD[:3])
    stage.dies, stage.world.interfere = lambda where: None, lambda: None
    for phase in FORWARD[3:]:
        stage.commands.next(phase)
    assert (stage.record.done, stage.world.effective()) == (FORWARD, 100)


def test_watching_changes_no_record_and_a_signal_ends_it_with_readers_where_they_are() -> None:
    stage = at_the_end()
    before = stage.record
    after(stage, 600, lambda: a_signal(stage))
    assert "nobody watches them any more" in stage.commands.watch()
    assert stage.record == before
    assert stage.world.effective() == 100


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda s: s.commands.finish(True, ()), "this rollout is finished"),
        (lambda s: s.commands.rollback("shadow-write", ()), "readers are not on the new column any more: the old appl"),
        (lambda s: s.store.purge("orders", s.record.epoch), "nothing of this rollout is left"),
    ],
    ids=["finish", "rollback", "purge"],
)
def test_who_acts_beside_a_watch_is_not_in_its_way_and_ends_it(act: Callable[[Stage], object], said: str) -> None:
    """A finish takes the mirror away on purpose: that is no failure."""
    stage = at_the_end()
    after(stage, 7, lambda: act(stage))
    assert stage.commands.watch().startswith(said)
    assert stage.world.ever_unsafe == [] or stage.record.state is State.FINISHED


def test_a_finish_that_was_held_is_watched_on() -> None:
    stage = at_the_end()
    stage.driver.fail["quiet"] = Outcome(Result.HELD, "a statement still names status")
    with pytest.raises(Held):
        stage.commands.finish(False, ())
    stage.driver.fail["watch-readers"] = Outcome(Result.BACK, "gate app-errors: fail")
    with pytest.raises(PhaseFailed, match="verify rolled back by itself"):
        stage.commands.watch()
    assert (stage.record.state, stage.world.effective()) == (State.ROLLED_BACK, 0)


def test_a_rollback_to_verify_leaves_readers_that_are_watched_on() -> None:
    """It undoes nothing, and what fails afterwards takes readers back, in the record too."""
    stage = at_the_end()
    stage.commands.rollback("verify", ())
    assert (stage.record.state, stage.record.done, stage.world.effective()) == (State.ROLLED_BACK, FORWARD, 100)
    stage.driver.fail["watch-readers"] = Outcome(Result.BACK, "gate app-errors: fail")
    with pytest.raises(PhaseFailed, match="verify rolled back by itself"):
        stage.commands.watch()
    assert (stage.record.state, stage.record.done) == (State.ROLLED_BACK, FORWARD[:3])
    assert (stage.world.effective(), stage.events[-1]) == (0, "went-back")


def finish_is_cut(stage: Stage, result: Result, gone: set[str]) -> None:
    """It meant to take the mirror away, and took so much of it."""
    apply = stage.driver.apply

    def cut(step: Step, beat: Beat) -> Outcome:
        if step.kind != "remove-mirror":
            return apply(step, beat)
        stage.world.mirror -= gone
        return Outcome(result, "it waits for a lock")

    stage.driver.apply = cut  # type: ignore[method-assign]
    with pytest.raises((Held, PhaseFailed)):
        stage.commands.finish(False, ())
    stage.driver.apply = apply  # type: ignore[method-assign]
    assert stage.record.mirror_goes


@pytest.mark.parametrize("result", [Result.HELD, Result.FAILED])
def test_a_finish_that_was_held_before_the_mirror_went_is_watched_on(result: Result) -> None:
    """Nobody acts any more, and the mirror stands: whatever the record says was meant."""
    stage = at_the_end()
    finish_is_cut(stage, result, set())
    after(stage, 60, lambda: a_signal(stage))
    stage.driver.fail["watch-readers"] = Outcome(Result.BACK, "gate app-errors: fail")
    with pytest.raises(PhaseFailed, match="verify rolled back by itself"):
        stage.commands.watch()
    assert (stage.record.state, stage.world.effective()) == (State.ROLLED_BACK, 0)


def test_a_mirror_that_is_lost_after_a_finish_was_held_takes_readers_back() -> None:
    stage = at_the_end(MirrorIntact(RUNBOOK))
    finish_is_cut(stage, Result.HELD, set())
    after(stage, 30, stage.world.mirror.clear)
    with pytest.raises(PhaseFailed, match="the mirror is gone, and no finish runs"):
        stage.commands.watch()
    assert (stage.record.state, stage.world.effective()) == (State.ROLLED_BACK, 0)


def test_a_finish_that_was_cut_when_a_part_of_the_mirror_was_gone_moves_nobody_and_is_told() -> None:
    """The old column is behind by then. Exit 75: whoever supervises it calls somebody."""
    stage = at_the_end(MirrorIntact(RUNBOOK))
    finish_is_cut(stage, Result.FAILED, {"insert"})
    before = stage.record
    with pytest.raises(Held, match="nobody ends it") as held:
        stage.commands.watch()
    assert held.value.next == "rollout finish"
    assert (stage.record, stage.world.effective()) == (before, 100)
    after(stage, 30, lambda: stage.commands.finish(False, ()))
    assert stage.commands.watch() == "this rollout is finished"


def test_a_watch_that_was_overtaken_is_fenced_and_moves_no_reader() -> None:
    """It slept through a whole rollback and a new ramp; what its gate says is about another world."""
    stage = at_the_end()
    apply = stage.driver.apply
    slept = [False]

    def overtaken(step: object, beat: object) -> Outcome:
        if getattr(step, "kind", "") != "watch-readers" or getattr(step, "seconds", 0) is not None:
            return apply(step, beat)  # type: ignore[arg-type]
        if slept[0]:
            a_signal(stage)
            return Outcome(Result.PAUSED)
        slept[0] = True
        stage.commands.rollback("shadow-write", ())
        for phase in FORWARD[3:]:
            stage.commands.next(phase)
        return Outcome(Result.BACK, "a gate failed long ago")

    stage.driver.apply = overtaken  # type: ignore[method-assign]
    lower = stage.flags.lower

    def fenced(epoch: int | None) -> None:
        if epoch is not None:
            stage.flags._fence(epoch)
        lower(epoch)

    stage.flags.lower = fenced  # type: ignore[method-assign]
    assert "nobody watches" in stage.commands.watch()
    assert (stage.record.state, stage.world.effective()) == (State.DONE, 100)


class Blind:
    """A check that cannot see."""

    name = "replica-health"
    needs = frozenset({Need.SERVER})
    before: frozenset[StepClass] = frozenset()
    during = frozenset({StepClass.READS})

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        return unseen(self.name, "replica-2 is out of reach", "both threads run")


def test_what_cannot_be_seen_for_longer_than_max_wait_ends_the_watch_and_moves_nobody() -> None:
    """A hold never rolls back. Exit 75: whoever supervises it starts it again."""
    stage = at_the_end()
    before = stage.record
    blind = Commands(replace(stage.parts, judge=replace(stage.parts.judge, checks=(Blind(),))))
    with pytest.raises(Held, match="replica-2 is out of reach"):
        blind.watch()
    assert (stage.record, stage.world.effective()) == (before, 100)
