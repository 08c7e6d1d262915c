"""What somebody else does while a rollout is on its way: between two of its steps, or in the middle of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from orchestrator.app.wiring import App, Surroundings, build
from orchestrator.engine import Commands
from orchestrator.errors import RolloutError
from orchestrator.model.outcome import Outcome, Progress, Signal
from orchestrator.model.state import Record
from orchestrator.model.step import Step, step_key
from orchestrator.model.verdict import Verdict
from orchestrator.ports import Beat, Driver
from orchestrator.runbook.load import load
from orchestrator.settings import ServerSettings
from tests.support.small import Small
from tests.support.state import settings_of
from tests.support.within import commands_with

Act = Callable[[], object]
# So that a filling of some dozen rows has as many beats.
ROW_BY_ROW = ("phases:", "phases:\n  backfill: {max_batch: 1}")


@dataclass
class Somebody:
    """Implements ports.Watcher, and wraps drivers. ``act`` happens once: before step ``before``, or at beat number
    ``at_beat`` of step ``during``."""

    act: Act
    before: str = ""
    during: str = ""
    at_beat: int = 5
    acted: bool = False
    beats: int = 0
    seen: list[str] = field(default_factory=list)

    def progress(self, record: Record, step: Step, progress: Progress, signal: Signal) -> None:
        if step_key(step) != self.during:
            return
        self.beats += 1
        if self.beats >= self.at_beat:
            self.once()

    def waiting(self, record: Record, verdicts: Sequence[Verdict], waited_s: float) -> None:
        """The gate before a step."""

    def once(self) -> None:
        if not self.acted:
            self.acted = True
            self.act()

    def beside(self, driver: Driver[Any]) -> Driver[Any]:
        return _Beside(driver, self)


@dataclass
class _Beside:
    """The real driver; somebody acts when the named step is about to be applied."""

    inner: Driver[Any]
    somebody: Somebody

    def describe(self, step: Step) -> Any:
        return self.inner.describe(step)

    def apply(self, step: Step, beat: Beat) -> Outcome:
        self.somebody.seen.append(step_key(step))
        if step_key(step) == self.somebody.before:
            self.somebody.once()
        return self.inner.apply(step, beat)

    def observe(self, step: Step, beat: Beat) -> Any:
        return self.inner.observe(step, beat)

    def abandon(self, step: Step, beat: Beat) -> Outcome:
        return self.inner.abandon(step, beat)


@contextmanager
def beside(here: Small, somebody: Somebody, settings: ServerSettings | None = None) -> Iterator[tuple[App, Commands]]:
    """The product as the command line wires it, with somebody about; closed afterwards."""
    app = build(load(here.terminal.runbook), settings or settings_of(here.pair.primary), Surroundings(somebody))
    try:
        yield app, commands_with(app, somebody.beside)
    finally:
        app.close()


def ends(here: Small, somebody: Somebody, phase: str, settings: ServerSettings | None = None) -> RolloutError:
    """The error with which that stage ends, with somebody about who has acted."""
    with beside(here, somebody, settings) as (_, commands), pytest.raises(RolloutError) as ended:
        commands.next(phase)
    assert somebody.acted, f"nobody acted before {ended.value.seen}; steps: {somebody.seen}"
    return ended.value
