"""How many workers there are, judged by what each window of time brought."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.drivers.rows.tuning import Tuning


def settled(rate: Callable[[int], float], windows: int = 40) -> list[int]:
    """The workers of each window on a server whose rate with n workers is ``rate(n)``."""
    tuning = Tuning(4)
    return [tuning.after(rate(tuning.workers), held=False) for _ in range(windows)]


@pytest.mark.parametrize(
    ("rates", "best"),
    [
        ((1000, 1010, 1000, 900), 1),
        ((1000, 1400, 1420, 1000), 2),
        ((1000, 1400, 1900, 2000), 4),
        ((1000, 1900, 2700, 3400), 4),
        ((1000, 700, 600, 500), 1),
    ],
)
def test_a_worker_stays_only_where_it_raises_the_rate(rates: tuple[float, ...], best: int) -> None:
    had = settled(lambda n: rates[n - 1])
    assert had.count(best) > 0.8 * len(had)


def test_what_brings_nothing_is_tried_more_and_more_rarely() -> None:
    had = settled(lambda n: 1000.0, 200)
    tries = [at for at in range(1, len(had)) if had[at] > had[at - 1]]
    assert had[3:6] == [1, 1, 1]
    assert len(tries) < 6
    assert tries[-1] - tries[-2] > tries[1] - tries[0]


def test_a_check_that_holds_takes_a_worker_away() -> None:
    tuning = Tuning(4, workers=3)
    assert [tuning.after(5000.0, held=True) for _ in range(4)] == [2, 1, 1, 1]


def test_four_workers_are_at_work_after_four_windows_where_that_pays() -> None:
    assert settled(lambda n: 1000.0 * n, 6) == [1, 2, 2, 4, 4, 4]


def test_what_the_first_window_of_a_try_brings_is_not_believed() -> None:
    burst = iter([1000.0, 1000.0, 9000.0, 1000.0, 1000.0, 1000.0])
    tuning = Tuning(4)
    assert [tuning.after(rate, held=False) for rate in burst] == [1, 2, 2, 1, 1, 1]


def test_workers_that_bring_nothing_any_more_go_again() -> None:
    tuning = Tuning(4)
    had = [tuning.after(1000.0 * tuning.workers if n < 10 else 4000.0, held=False) for n in range(150)]
    assert had[9] == 4
    assert had[-1] == 1


def test_a_hold_does_not_make_the_next_try_rarer() -> None:
    tuning = Tuning(4)
    for _ in range(20):
        tuning.after(1000.0, held=True)
    had = [tuning.after(1000.0, held=False) for _ in range(20)]
    assert 2 in had
