"""When gh-ost wakes, from the length of its queue."""

from __future__ import annotations

import pytest

from orchestrator.drivers.ddl.ghost.sleep import Sleep


def seen(*looks: tuple[float, int]) -> Sleep:
    sleep = Sleep()
    for at_s, waiting_rows in looks:
        sleep.see(at_s, waiting_rows)
    return sleep


def test_nothing_is_said_before_a_queue_was_seen_to_be_emptied() -> None:
    assert Sleep().takes_up_after(5.0) is None
    assert seen((0.0, 1), (0.1, 2), (0.2, 3)).takes_up_after(0.2) is None


def test_it_wakes_a_second_after_its_queue_was_emptied_and_every_second_from_then_on() -> None:
    sleep = seen((0.0, 7), (0.1, 8), (0.15, 0), (0.25, 1))
    assert sleep.takes_up_after(0.2) == pytest.approx(1.1)
    assert sleep.takes_up_after(1.1) == pytest.approx(2.1)
    assert sleep.takes_up_after(4.5) == pytest.approx(5.1)


def test_a_long_queue_is_met_while_it_is_worked_off() -> None:
    """Woken at 1.0, at work until 1.4: it sleeps until 2.4, and in the later part of its work nobody waits for all of
    it."""
    sleep = seen((1.0, 300), (1.1, 220), (1.2, 140), (1.4, 60), (1.5, 2), (1.6, 9))
    moment = sleep.takes_up_after(1.6)
    assert moment is not None
    assert 2.4 < moment < 2.8
