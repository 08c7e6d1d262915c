"""Whatever order events come in: counters grow, what is finished stays finished, phases are done in their order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.engine.entry import resumed
from orchestrator.model.state import (
    FINISH,
    FORWARD,
    ROLLBACK,
    Event,
    EventKind,
    ForbiddenTransition,
    Record,
    State,
    move,
)
from tests.support.state import begin

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
PHASES = ("", *FORWARD, ROLLBACK, FINISH)
orders = st.lists(st.tuples(st.sampled_from(EventKind), st.sampled_from(PHASES), st.text(max_size=5)), max_size=40)


def _walk(order: list[tuple[EventKind, str, str]]) -> list[Record]:
    """The records that an order of events makes; what is forbidden is left out, as the engine would."""
    records = [begin()[0]]
    for minute, (kind, phase, note) in enumerate(order):
        # Only a start changes the phase; every other event is about the one that runs or ran last.
        named = phase if kind is EventKind.STARTED else records[-1].phase
        event = Event(kind, NOON + timedelta(minutes=minute), "kim", named, note)
        try:
            records.append(move(records[-1], event))
        except ForbiddenTransition:
            continue
    return records


@given(orders)
def test_revisions_count_events_and_transitions_never_overtake_them(order: list[tuple[EventKind, str, str]]) -> None:
    records = _walk(order)
    assert [r.revision for r in records] == list(range(len(records)))
    for before, after in pairwise(records):
        assert 0 <= after.transitions - before.transitions <= 1
        assert after.transitions <= after.revision


@given(orders)
def test_what_is_finished_stays_finished(order: list[tuple[EventKind, str, str]]) -> None:
    states = [r.state for r in _walk(order)]
    if State.FINISHED in states:
        assert states.index(State.FINISHED) == len(states) - 1


@given(orders)
def test_nothing_runs_before_it_started(order: list[tuple[EventKind, str, str]]) -> None:
    states = [r.state for r in _walk(order)]
    changed = [s for s in states if s is not State.NEW]
    assert not changed or changed[0] is State.RUNNING
    assert State.NEW not in states[len(states) - len(changed) :]


@given(orders)
def test_each_phase_has_one_line_that_ends_after_it_began(order: list[tuple[EventKind, str, str]]) -> None:
    for record in _walk(order):
        names = [line.name for line in record.phases]
        assert len(names) == len(set(names))
        assert all(line.ended is None or line.began <= line.ended for line in record.phases)
        running = [line for line in record.phases if line.name == record.phase and line.ended is None]
        assert not running or record.state is State.RUNNING


@given(orders)
def test_a_move_touches_nothing_but_state_and_counters(order: list[tuple[EventKind, str, str]]) -> None:
    first, *rest = _walk(order)
    for record in rest:
        same = replace(
            record,
            state=first.state,
            phase=first.phase,
            revision=0,
            transitions=0,
            note=first.note,
            phases=first.phases,
            held_since=None,
            held_step="",
            stuck_told=False,
        )
        assert same == first


@given(
    st.integers(0, len(FORWARD)),
    st.sampled_from((*FORWARD, ROLLBACK)),
    st.sampled_from(State),
    st.sampled_from(PHASES),
    st.lists(
        st.sampled_from(["fill:sweep", "set-percent:5", "set-percent:100", "open-writes", "fill:backfill"]), unique=True
    ),
)
def test_phases_that_are_done_are_always_the_first_ones(
    number: int, phase: str, state: State, before: str, steps: list[str]
) -> None:
    record = replace(begin()[0], done=FORWARD[:number], state=state, phase=before, done_steps=tuple(steps))
    after = resumed(record, phase, 100)
    assert after.done == FORWARD[: len(after.done)]
    assert len(after.done) <= number
    assert after.walk - record.walk in (0, 1)
    assert set(after.done_steps) <= set(steps)
    assert not {"open-writes", "set-percent:100"} & set(after.done_steps)
