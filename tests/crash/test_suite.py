"""A first piece of ``make crash`` and ``make zombies``: some deaths and some sleepers on the way of every run."""

from __future__ import annotations

from itertools import count

import pytest

from orchestrator.sandbox.pair import Pair
from tests.crash.suite.lives import Life
from tests.crash.suite.tally import Tally
from tests.crash.suite.zombies import Race

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(300)]
DEATHS, SLEEPERS, TWICE = 20, 4, 8


def test_a_command_that_dies_around_any_statement_is_typed_again_and_nothing_is_left(pair: Pair) -> None:
    tally = Tally()
    for seed in count(1):
        Life(pair, seed, tally).live()
        if tally.total >= DEATHS:
            break
    assert tally.findings == []


def test_a_life_that_is_lived_again_strikes_the_same_statements(pair: Pair) -> None:
    """Another life before it, on the same worker, changes nothing. What is sent by the clock, or while it waits, need
    not be the same."""
    lived = [Tally(), Tally(), Tally()]
    for seed, tally in zip((TWICE, TWICE + 1, TWICE), lived, strict=True):
        Life(pair, seed, tally).live()
    first, again = dict(lived[0].blows), dict(lived[2].blows)
    met = [moment for moment in first if moment in again]
    same = [moment for moment in met if first[moment] == again[moment]]
    assert len(met) > 0.8 * len(first), (lived[0].blows, lived[2].blows)
    assert len(same) > 0.6 * len(met), [(moment, first[moment], again[moment]) for moment in met]


def test_whoever_slept_while_another_did_the_work_commits_nothing_when_it_wakes(pair: Pair) -> None:
    tally = Tally()
    for seed in count(1):
        Race(pair, seed, tally).live()
        if tally.total >= SLEEPERS:
            break
    assert tally.findings == []
