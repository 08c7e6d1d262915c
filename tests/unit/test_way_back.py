"""Law 11, the way back: readers go to 0 % before anything is waited for, and stay there until it is through."""

from __future__ import annotations

import pytest

from orchestrator.errors import LeaseTaken
from tests.support.world import Stage


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
