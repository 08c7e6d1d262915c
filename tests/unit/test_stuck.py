"""A rollout that does not move is told in one word, and once an episode: not on every beat, not at every new try."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.app.watch import sum_of_figure
from orchestrator.checks.reading import holds, passes
from orchestrator.engine import Commands
from orchestrator.errors import Held
from orchestrator.model.facts import Facts, Need
from orchestrator.model.outcome import Outcome, Progress, Result
from orchestrator.model.runbook import Limits
from orchestrator.model.state import Event, EventKind, Holder, PhaseRecord, Record, State, move
from orchestrator.model.step import AddColumns, StepClass
from orchestrator.model.stuck import Stuck, StuckBy, stuck
from orchestrator.model.verdict import Verdict
from orchestrator.telemetry.metrics import RolloutCollector
from orchestrator.telemetry.notify import Notifier
from orchestrator.telemetry.snapshot import Snapshot
from tests.support.state import begin
from tests.support.world import Stage

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
MAX_WAIT_S = 600.0


def minutes(count: float) -> datetime:
    return NOON + timedelta(minutes=count)


def record(state: State = State.RUNNING, began: float = 0, held: float | None = None) -> Record:
    line = PhaseRecord("backfill", state, minutes(began))
    since = None if held is None else minutes(held)
    return replace(begin()[0], state=state, phase="backfill", phases=(line,), held_since=since)


def running(held: float) -> Record:
    """Its step was recorded: it waits for no check any more."""
    return replace(record(held=held), intent=AddColumns(table=begin()[0].table, columns=(), family=()))


def holder(since: float) -> Holder:
    return Holder("kim", "ops-1", 7, minutes(since), 1, 1)


@pytest.mark.parametrize(
    ("seen", "told", "by_whom", "at", "wanted"),
    [
        pytest.param(record(), (Progress(5, 9), 30), holder(0), 31, None, id="it is heard of"),
        pytest.param(
            record(), (Progress(5, 9, still_s=590), 30), holder(0), 30, None, id="it stands still for a while"
        ),
        pytest.param(record(), (Progress(5, 9, still_s=601), 30), holder(0), 30, StuckBy.STILL, id="for too long"),
        pytest.param(record(), (Progress(5, 9, still_s=400), 30), holder(0), 34, StuckBy.STILL, id="and goes on so"),
        pytest.param(record(), (Progress(5, 9), 30), holder(0), 41, StuckBy.SILENT, id="it fell silent"),
        pytest.param(record(), (Progress(5, 9), 30), None, 41, StuckBy.SILENT, id="its process is gone"),
        pytest.param(record(), None, holder(0), 11, StuckBy.SILENT, id="it was never heard of"),
        pytest.param(record(), (Progress(5, 9, still_s=900), 30), holder(40), 41, None, id="another one took over"),
        pytest.param(record(State.HELD, held=0), None, None, 9, None, id="it is held"),
        pytest.param(record(State.HELD, held=0), None, None, 11, StuckBy.HELD, id="too long"),
        pytest.param(record(held=0), (Progress(), 11), holder(10), 11, StuckBy.HELD, id="the next try holds too"),
        pytest.param(running(held=0), (Progress(5, 9), 11), holder(10), 11, None, id="the next try runs"),
        pytest.param(running(held=0), (Progress(5, 9), 11), holder(10), 22, StuckBy.SILENT, id="and falls silent"),
        pytest.param(record(State.PAUSED), None, None, 900, None, id="somebody wanted it to rest"),
        pytest.param(record(State.DONE), None, None, 900, None, id="a stage is done"),
        pytest.param(record(State.NEEDS_HUMAN), None, None, 900, None, id="that is a word of its own"),
    ],
)
def test_what_is_stuck_and_why(
    seen: Record, told: tuple[Progress, float] | None, by_whom: Holder | None, at: float, wanted: StuckBy | None
) -> None:
    heard = None if told is None else (told[0], minutes(told[1]))
    found = stuck(seen, heard, by_whom, minutes(at), MAX_WAIT_S)
    assert (found and found.by) == wanted


def test_a_hold_lasts_until_a_step_takes_effect() -> None:
    seen = record()

    def comes(kind: EventKind, at: float) -> None:
        nonlocal seen
        step = "fill:backfill" if kind in (EventKind.HELD, EventKind.STEP_DONE) else ""
        seen = move(seen, Event(kind, minutes(at), "kim", "backfill", step=step))

    comes(EventKind.HELD, 1)
    comes(EventKind.STARTED, 2)
    comes(EventKind.INTENDED, 3)
    seen = move(seen, Event(EventKind.STEP_DONE, minutes(3), "kim", "backfill", step="what comes before it"))
    comes(EventKind.HELD, 12)
    assert seen.held_since == minutes(1)
    comes(EventKind.STUCK, 12)
    assert seen.state is State.HELD
    assert seen.stuck_told
    comes(EventKind.STARTED, 13)
    assert seen.stuck_told
    comes(EventKind.STEP_DONE, 14)
    assert seen.held_since is None
    assert not seen.stuck_told


def test_past_its_total_a_step_does_not_move() -> None:
    assert Progress(300, 300, "s").moved_to == Progress(900, 300, "s").moved_to
    assert Progress(300).moved_to != Progress(301).moved_to


class Busy:
    """A check that holds for as long as somebody wants."""

    name = "long-transactions"
    needs = frozenset({Need.SERVER})
    before = frozenset({StepClass.ROWS})
    during = frozenset({StepClass.ROWS})
    holds = True

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        if self.holds:
            return holds(self.name, "41s > 30s", "41 s", "30 s")
        return passes(self.name, "none", "30 s")


def called(notes: Path) -> list[str]:
    """The events for which somebody was called."""
    text, decoder, found = notes.read_text() if notes.exists() else "", json.JSONDecoder(), []
    while text:
        event, end = decoder.raw_decode(text)
        found.append(event["event"])
        text = text[end:].lstrip()
    return found


def staged(tmp_path: Path, busy: Busy) -> tuple[Stage, Commands, Callable[[], list[str]]]:
    """ddl is done; whoever is called writes it down."""
    stage = Stage(checks=(busy,))
    notes = tmp_path / "notes"
    parts = replace(stage.parts, listeners=(stage, Notifier(("tee", "-a", str(notes)))))
    stage.commands.next("ddl")
    return stage, Commands(parts), lambda: called(notes)


def test_a_supervisor_that_tries_all_night_calls_once_for_the_hold_and_once_because_it_lasts(tmp_path: Path) -> None:
    busy = Busy()
    stage, commands, calls = staged(tmp_path, busy)
    for wanted in (["held"], ["held", "stuck"], ["held", "stuck"], ["held", "stuck"]):
        with pytest.raises(Held):
            commands.next("backfill")
        assert calls() == wanted
        stage.clock.sleep(60)
    assert "41s > 30s" in stage.record.note
    busy.holds = False
    commands.next("backfill")
    busy.holds = True
    with pytest.raises(Held):
        commands.next("shadow-write")
    assert calls() == ["held", "stuck", "held"], "that is another episode"


def test_a_step_that_stands_still_calls_once_and_goes_on(tmp_path: Path) -> None:
    busy = Busy()
    busy.holds = False
    stage, commands, calls = staged(tmp_path, busy)
    apply = stage.driver.apply

    def stands(step: object, beat: Callable[[Progress], object]) -> Outcome:
        for second in range(2_000):
            beat(Progress(7 if second > 100 else second // 20, 90, still_s=0.0))
            stage.clock.sleep(1.0)
        return apply(step, beat)  # type: ignore[arg-type]

    stage.driver.apply = stands  # type: ignore[method-assign]
    ended = commands.next("backfill")
    assert not isinstance(ended, str)
    assert (ended.record.state, ended.record.stuck_told) == (State.DONE, False)
    assert calls() == ["stuck"]
    told = [e for e in stage.store.history("orders") if e.kind is EventKind.STUCK]
    assert [(e.note, e.step) for e in told] == [("the step that runs does not move for 10 min", "fill:backfill")]


def test_what_another_terminal_sees_of_a_step_says_how_long_it_has_stood(tmp_path: Path) -> None:
    busy = Busy()
    busy.holds = False
    stage, commands, _ = staged(tmp_path, busy)

    def stands(step: object, beat: Callable[[Progress], object]) -> Outcome:
        for _ in range(30):
            beat(Progress(7, 90))
            stage.clock.sleep(1.0)
        return Outcome(Result.DONE)

    stage.driver.apply = stands  # type: ignore[method-assign]
    commands.next("backfill")
    told = stage.store.read_progress("orders")
    assert told is not None
    assert (told[0].done, told[0].still_s) == (7, 29.0)


def test_b82_batches_that_were_sent_again_are_a_metric_and_count_over_every_try_of_a_step() -> None:
    """Case B82. As the state's events hold them: a step that ended early, the same one done, and one without any."""
    stage = Stage()
    stage.commands.next("ddl")
    stage.driver.fail["fill:backfill"] = Outcome(Result.HELD, "locked", figures={"retries": 3.0})
    with pytest.raises(Held):
        stage.commands.next("backfill")
    stage.driver.fail["fill:backfill"] = Outcome(Result.DONE, figures={"retries": 2.0})
    stage.commands.next("backfill")
    retries = sum_of_figure(stage.store.history("orders"), "retries")
    seen = Snapshot(record(), None, retries=retries)
    samples = [s for metric in RolloutCollector(lambda: [seen]).collect() for s in metric.samples]
    assert [s.value for s in samples if s.name == "rollout_batch_retries"] == [5.0]


def test_the_metric_says_why_and_only_of_the_rollout_whose_bounds_we_know() -> None:
    ours = Snapshot(record(), None, drift=4, ours=True, stuck=Stuck(StuckBy.SILENT, 700.0))
    others = replace(ours, record=replace(record(), id="another"), ours=False, stuck=None, drift=None)
    samples = [s for metric in RolloutCollector(lambda: [ours, others]).collect() for s in metric.samples]
    told = {(s.labels["rollout"], s.labels["reason"]): s.value for s in samples if s.name == "rollout_stuck"}
    assert told == {(ours.record.id, by.value): float(by is StuckBy.SILENT) for by in StuckBy}
    assert [(s.labels["rollout"], s.value) for s in samples if s.name == "rollout_drift_rows"] == [
        (ours.record.id, 4.0)
    ]
