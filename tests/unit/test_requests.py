"""Whom a pause or an abort is for: the command that runs when it is asked for, and none that is typed later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from orchestrator.cli.connect import ServerFlags
from orchestrator.cli.shared import Shared
from orchestrator.cli.walking import run
from orchestrator.engine import Paused
from orchestrator.model.outcome import Outcome
from orchestrator.model.state import FORWARD, Ask, EventKind, Record, Request, State
from orchestrator.model.step import Quiet
from orchestrator.ports import Lease
from tests.support.world import Stage

COMMANDS: dict[str, tuple[int, Callable[[Stage], object]]] = {
    "next": (2, lambda s: s.commands.next("shadow-write")),
    "rollback": (4, lambda s: s.commands.rollback("", ())),
    "repair": (3, lambda s: s.commands.repair()),
    "finish": (5, lambda s: s.commands.finish(True, ())),
}


def done(number: int) -> Stage:
    stage = Stage()
    for phase in FORWARD[:number]:
        stage.commands.next(phase)
    return stage


def asks(stage: Stage, ask: Ask = Ask.PAUSE) -> None:
    stage.store.ask("orders", Request(ask, "lee", stage.clock.now(), "deploy"))


@pytest.mark.parametrize("ask", Ask)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_was_asked_of_a_command_that_never_answered_does_not_stop_the_next_one(command: str, ask: Ask) -> None:
    """It hung, or the request came after its last beat."""
    number, types = COMMANDS[command]
    stage = done(number)
    asks(stage, ask)
    types(stage)
    assert stage.record.state in (State.DONE, State.ROLLED_BACK, State.FINISHED)
    assert stage.store.asked("orders") is None


def test_what_was_asked_of_a_command_that_never_answered_does_not_stop_a_purge() -> None:
    stage = done(1)
    stage.commands.rollback("", ())
    asks(stage)
    apply, asked = stage.driver.apply, list[Request | None]()

    def quiet(step: Any, beat: Any) -> Outcome:
        asked.append(stage.store.asked("orders") if isinstance(step, Quiet) else None)
        return apply(step, beat)

    stage.driver.apply = quiet  # type: ignore[method-assign]
    stage.commands.purge()
    assert (asked, stage.store.load("orders")) == ([None], None)


def test_what_is_asked_once_the_lease_is_taken_is_answered() -> None:
    stage = done(2)
    asks(stage)
    lease = stage.store.lease

    def taken(id: str, who: str, reason: str = "") -> AbstractContextManager[Lease]:
        stage.world.now_s += 1
        asks(stage)
        return lease(id, who, reason)

    stage.store.lease = taken  # type: ignore[method-assign,assignment]
    with pytest.raises(Paused):
        stage.commands.next("shadow-write")
    assert stage.record.state is State.PAUSED


def test_a_pause_that_comes_when_a_stage_has_had_its_last_beat_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that was asked is the run, and it goes on with the next stage."""
    stage = Stage()
    of = Shared("orders.yaml", json=True, flags=ServerFlags(), interrupts=SimpleNamespace(install=lambda: None))  # type: ignore[arg-type]

    @contextmanager
    def opened(self: Shared, **_: object) -> Iterator[Stage]:
        yield stage

    monkeypatch.setattr(Shared, "opened", opened)
    tell = stage.event

    def at_its_end(record: Record, event: Any) -> None:
        tell(record, event)
        if event.kind is EventKind.PHASE_DONE:
            asks(stage)

    stage.event = at_its_end  # type: ignore[method-assign]
    context: Any = SimpleNamespace(find_root=lambda: SimpleNamespace(obj=of))
    with pytest.raises(typer.Exit) as ended:
        run(context, until=None, watch=False, reason="", yes=True)
    assert ended.value.exit_code == 0
    assert (stage.record.state, stage.record.done) == (State.PAUSED, ("ddl",))
