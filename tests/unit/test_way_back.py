"""Law 11, the way back: readers go to 0 % before anything is waited for, and stay there until it is through."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest
from msgspec.structs import replace

from orchestrator.engine.effects import settled
from orchestrator.errors import Held, LeaseTaken, PhaseFailed, UsageError
from orchestrator.model.contract import ForeignKey, Index, IndexPart, TableName
from orchestrator.model.facts import MismatchClass, Reading, ServerFacts
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import State
from orchestrator.model.step import AddForeignKey, AddIndex, Step, step_key
from orchestrator.model.way_back import unaccepted
from orchestrator.ports import Lease
from phases.rollback import Rollback
from tests.support.shapes import plain_shape
from tests.support.world import CONTRACT, RUNBOOK, TABLE, Died, Stage


def at_the_top() -> Stage:
    """Readers are at 100 %."""
    stage = Stage()
    for phase in ("ddl", "backfill", "shadow-write", "read-switch"):
        stage.commands.next(phase)
    assert stage.world.effective() == 100
    return stage


def test_readers_are_back_before_a_rollback_asks_for_the_lease() -> None:
    stage = at_the_top()

    def taken(*_: object, **__: object) -> object:
        assert stage.world.effective() == 0
        raise LeaseTaken("somebody works", "one actor at a time", "rollout status")

    stage.store.lease = taken  # type: ignore[method-assign,assignment]
    with pytest.raises(LeaseTaken):
        stage.commands.rollback("", ())
    assert (stage.world.effective(), stage.world.new_writes) == (0, False)


def test_a_rollback_lowers_the_flags_also_under_its_own_lease() -> None:
    """Whoever acted until it was fenced may have raised them again after the first lowering."""
    stage = at_the_top()
    lower = stage.flags.lower

    def only_fenced(epoch: int | None) -> None:
        if epoch is not None:
            lower(epoch)

    stage.flags.lower = only_fenced  # type: ignore[method-assign]
    stage.commands.rollback("", ())
    assert (stage.world.effective(), stage.world.new_writes) == (0, False)
    assert stage.driver.applied.index("lower-flags") < stage.driver.applied.index("remove-mirror")
    assert stage.world.ever_unsafe == []


def test_a_rollback_that_lowers_too_late_does_nothing_to_a_rollout_that_is_finished() -> None:
    """Somebody finished it between the first look and the lease."""
    stage = at_the_top()
    stage.commands.next("verify")
    lower = stage.flags.lower

    def finished(epoch: int | None) -> None:
        stage.flags.lower = lower  # type: ignore[method-assign]
        stage.commands.finish(True, ())

    stage.flags.lower = finished  # type: ignore[method-assign]
    with pytest.raises(UsageError, match="this rollout is finished"):
        stage.commands.rollback("shadow-write", ())
    assert (stage.record.state, stage.world.effective()) == (State.FINISHED, 100)


@pytest.mark.parametrize("purged", [False, True])
def test_a_rollback_that_waited_for_a_longer_way_back_does_nothing(purged: bool) -> None:
    """Whoever had the lease before went back all the way, and purged; no record is made anew."""
    stage = at_the_top()
    lease = stage.store.lease

    def waits(id: str, who: str, reason: str = "") -> AbstractContextManager[Lease]:
        stage.store.lease = lease  # type: ignore[method-assign]
        stage.commands.rollback("", ())
        if purged:
            stage.commands.purge()
        return lease(id, who, reason)

    stage.store.lease = waits  # type: ignore[method-assign,assignment]
    with pytest.raises(Held):
        stage.commands.rollback("" if purged else "shadow-write", ())
    found = stage.store.load("orders")
    assert found is None if purged else (found is not None and found.done == ("ddl",))


INDEX = Index("by_status", (IndexPart("status"),))
KEY = ForeignKey("parent_fk", ("status",), TableName("shop", "parents"), ("id",))


def test_indexes_and_foreign_keys_go_only_when_ddl_added_them() -> None:
    dropping = replace(RUNBOOK.phases, rollback_ddl=RollbackDdl.DROP)
    contract = replace(CONTRACT, indexes=(INDEX,), foreign_keys=(KEY,))
    runbook = replace(RUNBOOK, contract=contract, phases=dropping)
    stage = Stage()
    stage.commands.next("ddl")
    live = plain_shape(TABLE, *CONTRACT.columns, indexes=(INDEX,), foreign_keys=(KEY,))
    facts = replace(stage.observer.look(Rollback().needs), shape=Reading(0.0, live))
    record = replace(stage.record, phase="rollback", columns_added=())

    def way_back() -> list[str]:
        return [step_key(s) for s in Rollback().steps(runbook, facts, record)][1:]

    assert way_back() == []
    added: list[Step] = [
        AddIndex(table=TABLE, index=INDEX, final_lock_budget_s=1, tries=1, family=()),
        AddForeignKey(table=TABLE, foreign_key=KEY, family=()),
    ]
    for step in added:
        record = settled(record, step, Outcome(Result.DONE))
    assert way_back() == ["drop-foreign-key:parent_fk", "drop-index:by_status"]
    for dropped in Rollback().steps(runbook, facts, record)[1:]:
        record = settled(record, dropped, Outcome(Result.DONE))
    assert (record.indexes_added, record.foreign_keys_added) == ((), ())


def test_a_rollback_from_the_middle_of_shadow_write_needs_no_proof() -> None:
    """The old column is still the truth: rows that nobody has filled yet are lost to nobody."""
    stage = Stage()
    for phase in ("ddl", "backfill"):
        stage.commands.next(phase)
    stage.driver.fail["fill:sweep"] = Outcome(Result.FAILED, "a value that the mapping does not know")
    with pytest.raises(PhaseFailed):
        stage.commands.next("shadow-write")
    stage.world.filled = False
    stage.commands.rollback("", ())
    assert (stage.world.mirror, stage.record.state) == (set(), State.ROLLED_BACK)


def test_a_rollback_without_the_mirror_looks_for_loss_all_the_same() -> None:
    """Somebody took the mirror down while both columns were written: what only the new one holds is on the meter."""
    stage = at_the_top()
    stage.world.mirror.clear()
    stage.world.lost_rows = 3
    with pytest.raises(Held, match="3 rows hold cancelled"):
        stage.commands.rollback("", ())
    stage.commands.rollback("", (("cancelled", 3),))
    assert stage.record.both_written is False
    assert stage.record.state is State.ROLLED_BACK


def test_writes_that_a_dead_command_may_have_opened_count_as_written() -> None:
    stage = Stage()
    for phase in ("ddl", "backfill", "shadow-write"):
        stage.commands.next(phase)

    def dies(where: str) -> None:
        if where == "after open-writes":
            raise Died(where)

    stage.dies = dies
    with pytest.raises(Died):
        stage.commands.next("read-switch")
    assert stage.record.both_written


def test_readers_go_back_before_a_lost_mirror_is_installed_again() -> None:
    """Law 11: nobody watched when the mirror went, so the next command that sees it takes them back first."""
    stage = at_the_top()
    stage.world.mirror.clear()
    done = len(stage.driver.applied)
    stage.commands.next("shadow-write")
    assert stage.driver.applied[done : done + 2] == ["lower-flags", "install-trigger:update"]
    assert (stage.world.effective(), stage.world.new_writes) == (0, False)


def test_a_class_of_loss_counts_over_all_its_mappings() -> None:
    """Two mappings may lose rows of the same class; each was shown, and both together are accepted."""
    classes = [MismatchClass("lossy", "a ↔ b", 7, ()), MismatchClass("lossy", "c ↔ d", 3, ())]
    assert unaccepted(classes, (("lossy", 7),)) == (("lossy", 10),)
    assert unaccepted(classes, (("lossy", 10),)) == ()
    assert unaccepted(classes, (("lossy", 7), ("lossy", 3))) == ()
    assert unaccepted(classes, ()) == (("lossy", 10),)


def test_a_rollout_is_bound_to_a_server_that_was_seen() -> None:
    stage = Stage()
    look = stage.observer.look
    blind: Reading[ServerFacts] = Reading(0.0, unseen="the session broke")
    stage.observer.look = lambda needs, keep_going=None: replace(look(needs), server=blind)  # type: ignore[method-assign]
    with pytest.raises(Held, match="the session broke"):
        stage.commands.next("ddl")
    assert stage.store.load(stage.runbook.id) is None


def test_what_is_to_be_typed_next_goes_no_further_than_what_was_typed() -> None:
    """Whoever wanted to go back to backfill must not be led all the way."""
    stage = at_the_top()
    stage.world.lost_rows = 3
    with pytest.raises(Held) as held:
        stage.commands.rollback("backfill", ())
    assert held.value.next == "rollout rollback --to backfill --accept-loss cancelled=3"
    stage.driver.fail["drain"] = Outcome(Result.HELD, "a transaction is open")
    with pytest.raises(Held) as held:
        stage.commands.rollback("backfill", ())
    assert held.value.next.endswith("rollout rollback --to backfill")


def test_the_mirror_comes_down_behind_all_that_must_be_over_and_before_its_columns() -> None:
    stage = Stage(runbook=replace(RUNBOOK, phases=replace(RUNBOOK.phases, rollback_ddl=RollbackDdl.DROP)))
    for phase in ("ddl", "backfill", "shadow-write", "read-switch"):
        stage.commands.next(phase)
    done = len(stage.driver.applied)
    stage.commands.rollback("", ())
    assert stage.driver.applied[done:] == [
        "lower-flags",
        "drain",
        "quiet",
        "compare:drift",
        "remove-mirror",
        "drop-columns",
    ]


@pytest.mark.parametrize(
    ("step", "result"),
    [("drain", Result.HELD), ("quiet", Result.HELD), ("compare:drift", Result.FAILED), ("remove-mirror", Result.HELD)],
)
def test_whatever_is_not_over_keeps_the_mirror_and_the_columns(step: str, result: Result) -> None:
    stage = Stage(runbook=replace(RUNBOOK, phases=replace(RUNBOOK.phases, rollback_ddl=RollbackDdl.DROP)))
    for phase in ("ddl", "backfill", "shadow-write", "read-switch"):
        stage.commands.next(phase)
    stage.driver.fail[step] = Outcome(result, "not over")
    with pytest.raises((Held, PhaseFailed)):
        stage.commands.rollback("", ())
    assert (stage.world.mirror, stage.world.columns) == ({"update", "insert"}, {"state"})
    assert (stage.world.effective(), stage.world.new_writes) == (0, False)
    del stage.driver.fail[step]
    stage.commands.rollback("", ())
    assert (stage.world.mirror, stage.world.columns) == (set(), set())
