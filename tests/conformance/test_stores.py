"""One suite for both stores: what the engine may rely on, whichever it was given."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from orchestrator.errors import Fenced, Held, LeaseTaken, RolloutError
from orchestrator.model.outcome import Progress
from orchestrator.model.state import Ask, EventKind, Record, Request, State
from orchestrator.ports import Store
from orchestrator.store.place import LeaseTimes
from tests.conformance.conftest import TIMES, World
from tests.support.servers import wait_for
from tests.support.state import begin, moved

ID = "orders-state"


def test_what_was_never_begun_is_nothing(store: Store) -> None:
    assert store.load(ID) is None
    assert not store.rollouts()
    assert not store.history(ID)
    assert store.read_progress(ID) is None
    assert store.asked(ID) is None
    assert store.holder(ID) is None


def test_what_was_created_is_loaded_unchanged_by_another(world: World) -> None:
    with world.actor().lease(ID, "kim") as lease:
        record, event = begin(epoch=lease.epoch)
        world.actor().create(record, event)
    assert world.actor().load(ID) == record
    assert list(world.actor().rollouts()) == [record]


def test_a_saved_move_is_loaded_and_its_event_is_the_last_line(store: Store) -> None:
    record = _running(store)
    assert store.load(ID) == record
    last = store.history(ID)[-1]
    assert (last.kind, last.revision, last.state) == (EventKind.STARTED, record.revision, "running")
    assert [e.revision for e in store.history(ID)] == [0, 1]


def test_a_second_open_rollout_on_the_table_is_held_and_named(store: Store) -> None:
    _running(store)
    with store.lease("other", "kim") as lease, pytest.raises(Held) as held:
        store.create(*begin(id="other", epoch=lease.epoch))
    assert ID in held.value.seen
    assert store.load("other") is None
    assert not store.history("other")


def test_another_table_and_a_finished_rollout_are_not_in_the_way(store: Store) -> None:
    record = _running(store)
    with store.lease("lines", "kim") as lease:
        store.create(*begin(id="lines", table="lines", epoch=lease.epoch))
    store.save(*moved(record, EventKind.FINISHED, "finish"))
    with store.lease("again", "kim") as lease:
        store.create(*begin(id="again", epoch=lease.epoch))
    assert [r.id for r in store.rollouts()] == ["again", "lines", ID]


def test_the_same_rollout_cannot_begin_twice(store: Store) -> None:
    _running(store)
    with store.lease(ID, "kim") as lease, pytest.raises(Held):
        store.create(*begin(table="elsewhere", epoch=lease.epoch))


def test_a_save_under_an_old_epoch_writes_nothing(store: Store) -> None:
    record = _running(store)
    store.bump_epoch(ID)
    with pytest.raises(Fenced):
        store.save(*moved(record, EventKind.HELD))
    loaded = store.load(ID)
    assert loaded == replace(record, epoch=record.epoch + 1)
    assert len(store.history(ID)) == 2


def test_a_save_from_an_old_revision_writes_nothing(store: Store) -> None:
    record = _running(store)
    store.save(*moved(record, EventKind.INTENDED))
    with pytest.raises(RolloutError) as error:
        store.save(*moved(record, EventKind.HELD))
    assert not isinstance(error.value, Held)
    loaded = store.load(ID)
    assert loaded is not None
    assert loaded.state is State.RUNNING
    assert len(store.history(ID)) == 3


def test_a_create_under_an_old_epoch_writes_nothing(store: Store) -> None:
    with store.lease(ID, "kim") as lease:
        store.bump_epoch(ID)
        with pytest.raises(Fenced):
            store.create(*begin(epoch=lease.epoch))
    assert store.load(ID) is None


def test_a_create_by_who_slept_through_another_life_and_its_purge_writes_nothing(world: World) -> None:
    late, other = world.actor(), world.actor()
    with late.lease(ID, "kim") as lease:
        other.bump_epoch(ID)
        with other.lease(ID, "lee") as taken:
            other.create(*begin(epoch=taken.epoch))
            other.purge(ID, taken.epoch)
        with pytest.raises(Fenced):
            late.create(*begin(epoch=lease.epoch))
    assert world.actor().load(ID) is None


def test_progress_is_shown_to_others_and_fenced(world: World) -> None:
    store = world.actor()
    record = _running(store)
    store.progress(ID, record.epoch, Progress(done=3, total=9, note="größer"))
    shown = world.actor().read_progress(ID)
    assert shown is not None
    assert shown[0] == Progress(done=3, total=9, note="größer")
    assert abs((datetime.now(UTC) - shown[1]).total_seconds()) < 60
    store.bump_epoch(ID)
    store.progress(ID, record.epoch, Progress(done=4))
    still = world.actor().read_progress(ID)
    assert still is not None
    assert still[0].done == 3


def test_a_request_is_read_by_the_running_command_until_it_is_cleared(world: World) -> None:
    request = Request(Ask.PAUSE, "lee", datetime(2026, 11, 30, 1, 2, 3, 456789, tzinfo=UTC), "deploy")
    world.actor().ask(ID, request)
    assert world.actor().asked(ID) == request
    world.actor().ask(ID, replace(request, ask=Ask.ABORT))
    found = world.actor().asked(ID)
    assert found is not None
    assert found.ask is Ask.ABORT
    world.actor().ask(ID, None)
    assert world.actor().asked(ID) is None


def test_an_answer_clears_the_request_that_it_answers_and_no_later_one(world: World) -> None:
    first = Request(Ask.PAUSE, "lee", datetime(2026, 11, 30, 1, 2, 3, 456789, tzinfo=UTC), "deploy")
    later = replace(first, at=first.at.replace(microsecond=456790))
    store = world.actor()
    store.answered(ID, first)
    store.ask(ID, first)
    store.ask(ID, later)
    store.answered(ID, first)
    assert world.actor().asked(ID) == later
    store.answered(ID, later)
    assert world.actor().asked(ID) is None


def test_a_second_actor_is_told_who_holds_the_lease(world: World) -> None:
    with world.actor().lease(ID, "kim", "rollout next"):
        with pytest.raises(LeaseTaken) as taken, world.actor().lease(ID, "lee"):
            pytest.fail("two actors at a time")
        assert "kim" in taken.value.seen
        assert "rollout status" in taken.value.next
        holder = world.actor().holder(ID)
        assert holder is not None
        assert holder.who == "kim"
        assert holder.since.tzinfo is not None
    assert world.actor().holder(ID) is None


def test_leases_of_different_rollouts_do_not_meet(world: World) -> None:
    with world.actor().lease(ID, "kim") as one, world.actor().lease(ID.upper(), "lee") as other:
        one.alive()
        other.alive()


def test_every_lease_has_a_greater_epoch_and_the_record_follows(store: Store) -> None:
    record = _running(store)
    epochs = [record.epoch]
    for _ in range(3):
        with store.lease(ID, "kim") as lease:
            epochs.append(lease.epoch)
            loaded = store.load(ID)
            assert loaded is not None
            assert loaded.epoch == lease.epoch
    assert epochs == sorted(set(epochs))


def test_a_bump_fences_the_holder_without_taking_its_place(world: World) -> None:
    with world.actor().lease(ID, "kim") as lease:
        raised = world.actor().bump_epoch(ID)
        assert raised == lease.epoch + 1
        with pytest.raises(Fenced):
            wait_for(lambda: lease.alive() or False, 5, "the holder to be fenced")
        with world.actor().lease(ID, "lee") as other:
            assert other.epoch > raised
            other.alive()


def test_a_silent_holder_loses_the_lease_and_learns_it(world: World) -> None:
    with world.actor().lease(ID, "kim") as silent:
        taken = wait_for(lambda: _taken(world.actor()), TIMES.silence_s + 5, "the lease to be taken over")
        assert taken > silent.epoch
        with pytest.raises(Fenced):
            silent.alive()


def test_a_holder_that_gives_signs_keeps_the_lease_past_the_bound(world: World) -> None:
    with world.actor().lease(ID, "kim") as lease:
        since = RealTime()
        while since.seconds < TIMES.silence_s * 1.5:
            lease.alive()
            with pytest.raises(LeaseTaken), world.actor().lease(ID, "lee"):
                pytest.fail("two actors at a time")


def test_an_error_inside_lets_the_lease_go(world: World) -> None:
    with pytest.raises(KeyError), world.actor().lease(ID, "kim"):
        raise KeyError("anything")
    assert world.actor().holder(ID) is None
    with world.actor().lease(ID, "lee") as lease:
        lease.alive()


def test_a_purge_leaves_nothing_and_no_old_epoch_ever_comes_again(world: World) -> None:
    store = world.actor()
    record = _running(store)
    store.progress(ID, record.epoch, Progress(done=3))
    store.ask(ID, Request(Ask.PAUSE, "lee", datetime.now(UTC)))
    with store.lease(ID, "kim") as lease:
        store.purge(ID, lease.epoch)
    assert world.actor().load(ID) is None
    assert not world.actor().rollouts()
    assert not world.actor().history(ID)
    assert world.actor().read_progress(ID) is None
    assert world.actor().asked(ID) is None
    with store.lease(ID, "kim") as later:
        assert later.epoch > lease.epoch
        store.create(*begin(epoch=later.epoch))


def test_a_purge_under_an_old_epoch_removes_nothing(world: World) -> None:
    store = world.actor()
    record = _running(store)
    store.ask(ID, Request(Ask.PAUSE, "lee", datetime.now(UTC)))
    store.bump_epoch(ID)
    with pytest.raises(Fenced):
        store.purge(ID, record.epoch)
    assert world.actor().load(ID) == replace(record, epoch=record.epoch + 1)
    assert len(store.history(ID)) == 2
    assert store.asked(ID) is not None


def test_a_purger_that_comes_late_removes_nothing_of_what_began_since(world: World) -> None:
    """It froze before its deletes; another one purged, and the same rollout began anew."""
    late, other = world.actor(), world.actor()
    _running(late)
    with late.lease(ID, "kim") as lease:
        other.bump_epoch(ID)
        with other.lease(ID, "lee") as taken:
            other.purge(ID, taken.epoch)
        record = _running(other)
        with pytest.raises(Fenced):
            late.purge(ID, lease.epoch)
    assert world.actor().load(ID) == record


def test_a_purge_whose_answer_was_lost_may_be_sent_again(store: Store) -> None:
    _running(store)
    with store.lease(ID, "kim") as lease:
        store.purge(ID, lease.epoch)
        store.purge(ID, lease.epoch)
    assert store.load(ID) is None


def test_installing_twice_changes_nothing(store: Store) -> None:
    record = _running(store)
    store.install()
    assert store.load(ID) == record


def test_the_bounds_keep_a_takeover_within_a_minute() -> None:
    times = LeaseTimes()
    assert times.dead_s + 2 * times.heartbeat_s + times.answer_s < 60
    assert times.silence_s < times.dead_s
    assert times.idle_s < times.dead_s


class RealTime:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = datetime.now(UTC)

    @property
    def seconds(self) -> float:
        return (datetime.now(UTC) - self._began).total_seconds()


def _running(store: Store) -> Record:
    with store.lease(ID, "kim") as lease:
        record, event = begin(epoch=lease.epoch)
        store.create(record, event)
        return store.save(*moved(record, EventKind.STARTED))


def _taken(store: Store) -> int:
    """The epoch with which the lease was taken, or 0 when it was not to be had."""
    try:
        with store.lease(ID, "lee") as lease:
            return lease.epoch
    except LeaseTaken:
        return 0
