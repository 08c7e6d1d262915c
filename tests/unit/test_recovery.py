"""Law 4: what a command that died had begun is asked of the driver, and only what the driver says is believed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from msgspec.structs import replace

from orchestrator.checks.reading import refuses
from orchestrator.engine import Commands
from orchestrator.errors import CannotSay, Fenced, Held, PhaseFailed, RolloutError, ServerUnreachable
from orchestrator.model.advice import advise
from orchestrator.model.facts import Facts, Need
from orchestrator.model.outcome import Outcome, Result, Seen
from orchestrator.model.runbook import Limits, RollbackDdl
from orchestrator.model.state import FORWARD, State
from orchestrator.model.state import Holder as StateHolder
from orchestrator.model.step import Step, StepClass, step_key
from orchestrator.model.verdict import ProblemKind, Verdict
from orchestrator.ports import Beat
from tests.support.world import Died, Stage


def died_at(stage: Stage, where: str, command: Callable[..., object], *arguments: object) -> None:
    """The command is killed there."""

    def dies(now: str) -> None:
        if now == where:
            raise Died(where)

    stage.dies = dies
    with pytest.raises(Died):
        command(*arguments)
    stage.dies = lambda _: None


def test_what_a_dead_command_added_is_remembered_as_ours() -> None:
    """Else the way back would leave the columns there: nobody knew that they are ours."""
    stage = Stage()
    stage.with_runbook(rollback_ddl=RollbackDdl.DROP)
    died_at(stage, "after add-columns", stage.commands.next, "ddl")
    stage.commands.next("ddl")
    assert stage.record.columns_added == ("state",)
    assert stage.driver.applied.count("add-columns") == 1, "found done, not done twice"
    stage.commands.rollback("", ())
    assert stage.world.columns == set()


@pytest.mark.parametrize("begun_by", ["next", "rollback"])
def test_what_took_effect_and_stays_when_a_half_step_is_cleared_is_ours(begun_by: str) -> None:
    """Found by make zombies: aborted in an ADD INDEX that had taken effect, the way back held for somebody's index."""
    stage = Stage()
    stage.with_runbook(rollback_ddl=RollbackDdl.DROP)
    died_at(stage, "after add-columns", stage.commands.next, "ddl")
    stage.commands.abort()
    assert stage.record.columns_added == ("state",)
    if begun_by == "next":
        stage.commands.next("ddl")
    stage.commands.rollback("", ())
    assert stage.world.columns == set()


def test_a_step_whose_fate_nobody_can_say_stops_for_a_human() -> None:
    stage = Stage()
    died_at(stage, "before add-columns", stage.commands.next, "ddl")
    stage.driver.observe = lambda step, beat: Seen.UNKNOWN  # type: ignore[method-assign]
    with pytest.raises(CannotSay, match="nobody can say what became of add-columns"):
        stage.commands.next("ddl")
    assert stage.record.state is State.NEEDS_HUMAN
    assert stage.driver.applied == ["try-ddl"]


def test_half_a_step_that_is_no_longer_wanted_is_cleared() -> None:
    """A trigger was half installed when the command died, and the next command is the way back."""
    stage = Stage()
    for phase in ("ddl", "backfill"):
        stage.commands.next(phase)
    died_at(stage, "before install-trigger:update", stage.commands.next, "shadow-write")
    cleared: list[str] = []

    def abandon(step: Step, beat: Beat) -> Outcome:
        cleared.append(step_key(step))
        return Outcome(Result.DONE)

    stage.driver.abandon = abandon  # type: ignore[method-assign]
    stage.commands.rollback("", ())
    assert cleared == ["install-trigger:update"]
    assert stage.record.intent is None


@pytest.mark.parametrize(
    "deaths",
    [
        ("after remove-mirror",),
        ("before close-rollout", "before close-rollout"),
        ("after remove-mirror", "before close-rollout"),
    ],
)
def test_a_finish_that_died_when_the_mirror_was_gone_is_finished_by_the_same_command(deaths: tuple[str, ...]) -> None:
    """The mirror is gone because finish took it away: that is not a mirror that somebody lost."""
    stage = Stage()
    for phase in FORWARD:
        stage.commands.next(phase)
    for where in deaths:
        died_at(stage, where, stage.commands.finish, False, ())
    assert stage.world.mirror == set()
    assert "mirror" not in advise(stage.record, None, "UPDATE trigger absent").line
    stage.commands.finish(False, ())
    assert stage.record.state is State.FINISHED
    assert stage.driver.applied.count("remove-mirror") == 1


@pytest.mark.parametrize("gone", [set(), {"insert"}, {"insert", "update"}])
@pytest.mark.parametrize("verb", ["finish", "rollback"])
def test_what_was_cut_while_the_mirror_went_in_parts_is_ended_by_the_same_command(verb: str, gone: set[str]) -> None:
    """Also when the command lived on, and noted that it failed. What is left of the mirror keeps nothing in step, so
    nothing is proven anew; a mirror that still stands whole goes only with new proof."""
    stage = Stage()
    for phase in FORWARD:
        stage.commands.next(phase)
    command = (
        partial(stage.commands.finish, False, ()) if verb == "finish" else partial(stage.commands.rollback, "", ())
    )
    apply = stage.driver.apply

    def cut(step: Step, beat: Beat) -> Outcome:
        if step_key(step) != "remove-mirror":
            return apply(step, beat)
        stage.world.mirror -= gone
        return Outcome(Result.FAILED, "the session was cut")

    stage.driver.apply = cut  # type: ignore[method-assign]
    with pytest.raises(PhaseFailed):
        command()
    stage.driver.apply = apply  # type: ignore[method-assign]
    compared = stage.driver.applied.count("compare:drift")
    command()
    assert stage.record.state is (State.FINISHED if verb == "finish" else State.ROLLED_BACK)
    assert stage.world.mirror == set()
    assert stage.driver.applied.count("compare:drift") == compared + (0 if gone else 1)


@pytest.mark.parametrize("gone", [{"insert"}, {"insert", "update"}])
def test_a_finish_that_is_aborted_while_the_mirror_went_in_parts_goes_on(gone: set[str]) -> None:
    """Found by make zombies: the abort forgot that the mirror went, and shadow-write was to be done again."""
    stage = Stage()
    for phase in FORWARD:
        stage.commands.next(phase)
    died_at(stage, "before remove-mirror", stage.commands.finish, False, ())
    stage.world.mirror -= gone
    stage.commands.abort()
    stage.commands.finish(False, ())
    assert (stage.record.state, stage.world.mirror) == (State.FINISHED, set())


def test_a_mirror_that_somebody_took_down_during_finish_is_lost_all_the_same() -> None:
    stage = Stage()
    for phase in FORWARD:
        stage.commands.next(phase)
    died_at(stage, "before quiet", stage.commands.finish, False, ())
    stage.world.mirror.clear()
    with pytest.raises(Held, match="shadow-write is not done"):
        stage.commands.finish(False, ())


def test_a_mirror_that_is_installed_anew_is_swept_anew() -> None:
    """What moved while it was down is known to nobody: an earlier sweep of the same visit says nothing any more."""
    stage = Stage()
    for phase in ("ddl", "backfill"):
        stage.commands.next(phase)
    died_at(stage, "before soak", stage.commands.next, "shadow-write")
    assert stage.driver.applied.count("fill:sweep") == 1
    stage.commands.next("shadow-write")
    assert stage.driver.applied.count("fill:sweep") == 1, "a visit that goes on keeps its sweep"
    stage = Stage()
    for phase in ("ddl", "backfill"):
        stage.commands.next(phase)
    died_at(stage, "before soak", stage.commands.next, "shadow-write")
    stage.world.mirror.discard("insert")
    stage.world.filled = False
    stage.commands.next("shadow-write")
    assert stage.driver.applied.count("fill:sweep") == 2
    assert "shadow-write" in stage.record.done


def test_drift_after_the_sweep_is_swept_by_the_same_command() -> None:
    stage = Stage()
    for phase in ("ddl", "backfill"):
        stage.commands.next(phase)
    died_at(stage, "before soak", stage.commands.next, "shadow-write")
    stage.world.filled = False
    with pytest.raises(PhaseFailed, match="rows differ"):
        stage.commands.next("shadow-write")
    stage.commands.next("shadow-write")
    assert "shadow-write" in stage.record.done


class Refusing:
    """A check that refuses before rows are written, in the way that trying again may mend."""

    name = "mirror-intact"
    needs = frozenset({Need.MIRROR})
    before = frozenset({StepClass.ROWS})
    during: frozenset[StepClass] = frozenset()

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        return refuses(self.name, "it is gone", "both triggers", "rollout next", ProblemKind.HELD)


def test_what_a_check_refuses_is_in_the_record() -> None:
    """Else the rollout would seem to run while nobody runs it."""
    stage = Stage()
    stage.commands.next("ddl")
    judge = replace(stage.parts.judge, checks=(Refusing(),))
    with pytest.raises(Held, match="it is gone"):
        Commands(replace(stage.parts, judge=judge)).next("backfill")
    assert stage.record.state is State.HELD
    assert stage.record.intent is None


@pytest.mark.parametrize("phase", ["finish", "backfill"])
def test_an_abort_that_comes_too_late_leaves_what_was_done(phase: str) -> None:
    """The command ended by itself before it heard of the abort: nothing is half done."""
    stage = Stage()
    for name in FORWARD if phase == "finish" else ("ddl",):
        stage.commands.next(name)
    somebody = StateHolder("kim", "here", 1, stage.clock.now(), 1, 1)

    def holder(id: str) -> StateHolder | None:
        if stage.store.asked(id) is None:
            return somebody
        stage.store.ask(id, None)
        stage.commands.finish(False, ()) if phase == "finish" else stage.commands.next(phase)
        stage.store.holder = lambda _: None  # type: ignore[method-assign]
        return None

    stage.store.holder = holder  # type: ignore[method-assign]
    said = stage.commands.abort()
    assert stage.record.state is (State.FINISHED if phase == "finish" else State.DONE), said


@pytest.mark.parametrize("where", ["before keep-flags", "after set-percent:100"])
def test_a_ramp_that_died_before_its_flag_was_kept_holds_its_last_step_again(where: str) -> None:
    """The flag was lowered and opened anew at 0 %, so the last step must be made again, whatever the record says."""
    stage = Stage()
    for phase in FORWARD[:3]:
        stage.commands.next(phase)
    died_at(stage, where, stage.commands.next, "read-switch")
    stage.commands.next("read-switch")
    assert "read-switch" in stage.record.done
    assert stage.world.effective() == 100
    assert stage.driver.applied.count("set-percent:25") == 1, "a step that passed is not held again"


def test_a_purger_that_slept_while_the_flag_was_watched_removes_nothing_of_what_began_since() -> None:
    """Another one purged meanwhile and began the same rollout anew: neither its state nor its board is touched."""
    stage, cleared = Stage(), list[int]()
    stage.flags.clear = cleared.append  # type: ignore[method-assign]
    stage.commands.next("ddl")
    stage.commands.rollback("", ())
    apply = stage.driver.apply

    def slept(step: Step, beat: Beat) -> Outcome:
        outcome = apply(step, beat)
        stage.driver.apply = apply  # type: ignore[method-assign]
        stage.store.bump_epoch("orders")
        stage.commands.purge()
        stage.commands.next("ddl")
        return outcome

    stage.driver.apply = slept  # type: ignore[method-assign]
    with pytest.raises(Fenced):
        stage.commands.purge()
    assert (stage.record.state, stage.record.done) == (State.DONE, ("ddl",))
    assert len(cleared) == 1


@pytest.mark.parametrize("seen", [Held("the table cannot be seen", "", ""), ServerUnreachable("no answer", "", "")])
def test_who_cannot_see_because_another_took_over_and_ended_his_sessions_says_that(seen: RolloutError) -> None:
    """Found by make zombies: he woke, and went on about a table that cannot be seen."""
    stage = Stage()

    def taken_over(_: str) -> None:
        stage.store.bump_epoch(stage.runbook.id)
        raise seen

    stage.dies = taken_over
    with pytest.raises(Fenced, match="lost"):
        stage.commands.next("ddl")
