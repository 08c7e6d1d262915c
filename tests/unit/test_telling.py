"""The port's promise: a driver raises what an operator can read, also where a room did not expect the server's no."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from orchestrator.drivers.telling import Telling
from orchestrator.errors import Exit, RolloutError
from orchestrator.model.outcome import Outcome, Seen
from orchestrator.model.step import Soak
from orchestrator.mysql.errno import ServerError

STEP = Soak(seconds=1.0)


class Surprised:
    """Each of its verbs meets ``number``."""

    def __init__(self, number: int) -> None:
        self._error = ServerError(number, "as the server says it")

    def describe(self, step: Soak) -> Sequence[str]:
        raise self._error

    def apply(self, step: Soak, beat: Any) -> Outcome:
        raise self._error

    def observe(self, step: Soak, beat: Any) -> Seen:
        raise self._error

    def abandon(self, step: Soak, beat: Any) -> Outcome:
        raise self._error


VERBS: dict[str, Callable[[Telling[Soak]], object]] = {
    "describe": lambda driver: driver.describe(STEP),
    "apply": lambda driver: driver.apply(STEP, None),  # type: ignore[arg-type]
    "observe": lambda driver: driver.observe(STEP, None),  # type: ignore[arg-type]
    "abandon": lambda driver: driver.abandon(STEP, None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (2006, Exit.UNREACHABLE),
        (2013, Exit.UNREACHABLE),
        (1290, Exit.CONFIGURATION),
        (1205, Exit.HELD),
        (1142, Exit.PRIVILEGE),
    ],
)
def test_what_no_room_expected_of_the_server_is_told_and_is_no_bug_of_ours(verb: str, number: int, code: Exit) -> None:
    with pytest.raises(RolloutError, match=rf"in soak.*: the server says {number} as the server says it") as told:
        VERBS[verb](Telling(Surprised(number)))
    assert told.value.exit_code is code
