"""The table of edges: what each event does, and that nothing else can happen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from orchestrator.model.state import EDGES, FORWARD, Event, EventKind, ForbiddenTransition, State, move
from tests.support.state import begin

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
# Written out once more by hand: the table may not grow an edge without somebody changing this too.
LISTED = {
    "new": {"started": "running", "settings-changed": "new"},
    "held": {
        "started": "running",
        "settings-changed": "held",
        "aborted": "paused",
        "went-back": "rolled-back",
        "stuck": "held",
    },
    "paused": {"started": "running", "settings-changed": "paused", "aborted": "paused", "went-back": "rolled-back"},
    "rolled-back": {
        "started": "running",
        "settings-changed": "rolled-back",
        "aborted": "paused",
        "went-back": "rolled-back",
    },
    "needs-human": {
        "started": "running",
        "settings-changed": "needs-human",
        "aborted": "paused",
        "went-back": "rolled-back",
    },
    "done": {"started": "running", "settings-changed": "done", "aborted": "paused", "went-back": "rolled-back"},
    "running": {
        "started": "running",
        "intended": "running",
        "step-done": "running",
        "phase-done": "done",
        "held": "held",
        "paused": "paused",
        "aborted": "paused",
        "failed": "paused",
        "went-back": "rolled-back",
        "rolled-back": "rolled-back",
        "needs-human": "needs-human",
        "finished": "finished",
        "settings-changed": "running",
        "stuck": "running",
    },
    "finished": {},
}


def _event(kind: EventKind, phase: str = "ddl", note: str = "", at: datetime = NOON) -> Event:
    return Event(kind=kind, at=at, who="kim", phase=phase, note=note)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", EventKind)
def test_only_listed_edges_pass(state: State, kind: EventKind) -> None:
    record = replace(begin()[0], state=state, phase="ddl")
    wanted = LISTED[state.value].get(kind.value)
    if wanted is None:
        with pytest.raises(ForbiddenTransition):
            move(record, _event(kind))
    else:
        assert move(record, _event(kind)).state.value == wanted


def test_every_edge_has_a_sentence_of_its_own_and_no_pair_has_two() -> None:
    pairs = [(edge.before, edge.kind) for edge in EDGES]
    assert len(pairs) == len(set(pairs))
    assert all(edge.sentence.endswith(".") and len(edge.sentence.split()) > 3 for edge in EDGES)


def test_every_state_but_new_is_reached_and_only_finished_is_final() -> None:
    assert {edge.after for edge in EDGES} == set(State)
    assert set(State) - {edge.before for edge in EDGES} == {State.FINISHED}


def test_readers_can_be_taken_back_in_every_state_that_leaves_them_on_the_new_column() -> None:
    """All but the one before anything began, and the one after which there is no way back."""
    back = {edge.before: edge.after for edge in EDGES if edge.kind is EventKind.WENT_BACK}
    assert back == dict.fromkeys(set(State) - {State.NEW, State.FINISHED}, State.ROLLED_BACK)


def test_intents_and_holds_do_not_make_a_plan_stale() -> None:
    running = replace(begin()[0], state=State.RUNNING)
    for kind in EventKind:
        try:
            after = move(running, _event(kind))
        except ForbiddenTransition:
            continue
        quiet = kind in (EventKind.INTENDED, EventKind.HELD, EventKind.STUCK)
        assert after.transitions == running.transitions + (0 if quiet else 1), kind
        assert after.revision == running.revision + 1, kind


def test_an_event_without_a_phase_or_note_keeps_what_was_there() -> None:
    running = replace(begin()[0], state=State.RUNNING, phase="backfill", note="half way")
    after = move(running, _event(EventKind.HELD, phase=""))
    assert (after.phase, after.note, after.phases) == ("backfill", "half way", ())


def test_the_line_of_a_phase_spans_its_interruptions_and_begins_anew_when_it_is_done_again() -> None:
    record = begin()[0]
    times = [NOON + timedelta(minutes=n) for n in range(6)]
    record = move(record, _event(EventKind.STARTED, at=times[0]))
    record = move(record, _event(EventKind.PAUSED, at=times[1], note="paused by lee"))
    line = record.phase_record("ddl")
    assert line is not None
    assert (line.began, line.ended, line.state, line.note) == (times[0], times[1], State.PAUSED, "paused by lee")
    record = move(record, _event(EventKind.STARTED, at=times[2]))
    line = record.phase_record("ddl")
    assert line is not None
    assert (line.began, line.ended) == (times[0], None)
    record = move(record, _event(EventKind.PHASE_DONE, at=times[3]))
    record = move(record, _event(EventKind.STARTED, at=times[4]))
    line = record.phase_record("ddl")
    assert line is not None
    assert (line.began, line.ended, line.note) == (times[4], None, "")


def test_changed_settings_leave_the_lines_of_the_phases_alone() -> None:
    record = move(begin()[0], _event(EventKind.STARTED))
    assert move(record, _event(EventKind.SETTINGS_CHANGED)).phases == record.phases


@pytest.mark.parametrize("number", range(len(FORWARD) + 1))
def test_the_next_phase_is_the_first_that_is_not_done(number: int) -> None:
    record = replace(begin()[0], done=FORWARD[:number])
    assert record.next_phase == (FORWARD[number] if number < len(FORWARD) else None)
