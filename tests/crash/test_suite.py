"""A first piece of ``make crash`` and ``make zombies``: some deaths and some sleepers on the way of every run."""

from __future__ import annotations

from itertools import count

import pytest

from orchestrator.sandbox.pair import Pair
from tests.crash.suite.lives import Life
from tests.crash.suite.tally import Tally
from tests.crash.suite.zombies import Race

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(300)]
DEATHS, SLEEPERS = 20, 4


def test_a_command_that_dies_around_any_statement_is_typed_again_and_nothing_is_left(pair: Pair) -> None:
    tally, longest = Tally(), dict[tuple[str, str], int]()
    for seed in count(1):
        Life(pair, seed, tally, longest).live()
        if tally.total >= DEATHS:
            break
    assert tally.findings == []


def test_whoever_slept_while_another_did_the_work_commits_nothing_when_it_wakes(pair: Pair) -> None:
    tally, longest = Tally(), dict[tuple[str, str], int]()
    for seed in count(1):
        Race(pair, seed, tally, longest).live()
        if tally.total >= SLEEPERS:
            break
    assert tally.findings == []
