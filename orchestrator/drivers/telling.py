"""The promise of the port, whatever a room forgot: what a server says that nobody expected there is an error with three
parts, and no bug of ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from orchestrator.model.outcome import Outcome, Seen
from orchestrator.model.step import Step, step_key
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.told import told
from orchestrator.ports import Beat, Driver

StepT = TypeVar("StepT", bound=Step)


class Telling(Generic[StepT]):
    """A driver that raises only RolloutError. What ``driver`` tells by itself, in better words, passes as it is."""

    def __init__(self, driver: Driver[StepT]) -> None:
        self._driver = driver

    def describe(self, step: StepT) -> Sequence[str]:
        with _told(step):
            return self._driver.describe(step)

    def apply(self, step: StepT, beat: Beat) -> Outcome:
        with _told(step):
            return self._driver.apply(step, beat)

    def observe(self, step: StepT, beat: Beat) -> Seen:
        with _told(step):
            return self._driver.observe(step, beat)

    def abandon(self, step: StepT, beat: Beat) -> Outcome:
        with _told(step):
            return self._driver.abandon(step, beat)


@contextmanager
def _told(step: Step) -> Iterator[None]:
    try:
        yield
    except ServerError as error:
        raise told(error, f"in {step_key(step)}") from error
