"""One suite for whatever is called as gh-ost: the real program, and the player of kept transcripts that stands in for
it where none can be had."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.drivers.ddl.copying import CopyDriver
from orchestrator.model.outcome import GO, Progress, Result, Seen, Signal, SignalKind
from orchestrator.model.step import GhostAlter
from orchestrator.sandbox.pair import Pair
from tests.support.ddl import Application, Beats, held
from tests.support.ghost import (
    as_before,
    done,
    driver_for,
    once,
    orders,
    own_folder,
    pid_of_run,
    player,
    ready,
    real,
    site_for,
    wider,
)
from tests.support.servers import wait_for

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    with own_folder(monkeypatch) as here:
        yield here


# Where the real one is to be had it is what counts; the player is then held to it in the long profile.
PLAYED = pytest.param("played", marks=[pytest.mark.slow] if real() is not None else [])


@pytest.fixture(params=["real", PLAYED])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "played":
        return player(tmp_path)
    found = real()
    if found is None:
        pytest.skip("no gh-ost to be had here (make gh-ost says why)")
    return found.path


@contextmanager
def applying(driver: CopyDriver, step: GhostAlter, beats: Beats) -> Iterator[list[object]]:
    """The step runs in a thread of its own; what it gave, or raised, is in the list afterwards."""
    got: list[object] = []

    def run() -> None:
        try:
            got.append(driver.apply(step, beats))
        except BaseException as error:
            got.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield got
    finally:
        thread.join(60)
        assert not thread.is_alive()


def test_the_table_is_swapped_and_only_the_old_one_stays(program: Path, pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)
    driver, beats = driver_for(site_for(pair.primary, table), program), Beats()
    outcome = driver.apply(wider(table), beats)
    assert outcome.result is Result.DONE, outcome
    assert any(p.total for p in beats.heard)
    assert beats.longest_silence_s < 2
    done(pair, table)
    assert driver.observe(wider(table), Beats()) is Seen.PRESENT
    assert driver.apply(wider(table), beats).note == "was there already"


def test_the_cut_over_waits_for_a_holder_without_costing_the_application_anything(
    program: Path, pair: Pair, schema: str
) -> None:
    """B79, B84: a transaction that idles holds the table; it is named, and nobody queues behind us."""
    table = orders(pair.primary, schema)
    site = site_for(pair.primary, table, max_wait_s=4.0)
    beats = Beats()
    with (
        held(pair.primary, "BEGIN", f"SELECT a FROM {table} LIMIT 1"),
        Application(pair.primary, table, writes=False) as application,
    ):
        outcome = driver_for(site, program).apply(wider(table), beats)
    assert outcome.result is Result.HELD, outcome
    assert "holds" in outcome.note
    assert "open transaction" in outcome.note
    assert application.longest_wait_s < 0.5
    assert outcome.figures["cut_over_tries"] == 0
    as_before(pair, table)


@pytest.mark.parametrize(
    ("kind", "moment"),
    [(SignalKind.PAUSE, "postponed"), (SignalKind.ABORT, "copying"), (SignalKind.STOP, "postponed")],
)
def test_whoever_asks_for_the_end_gets_it_and_nothing_is_left(
    kind: SignalKind, moment: str, program: Path, pair: Pair, schema: str
) -> None:
    table = orders(pair.primary, schema, 500)
    when = ready if moment == "postponed" else lambda progress: progress.elapsed_s > 0.8
    driver = driver_for(site_for(pair.primary, table), program)
    with held(pair.primary, "BEGIN", f"SELECT a FROM {table} LIMIT 1"):
        outcome = driver.apply(wider(table), Beats(once(kind, when)))
    assert outcome.result in (Result.PAUSED, Result.HELD), outcome
    as_before(pair, table)
    assert driver.abandon(wider(table), Beats()).result is Result.DONE
    again = driver.apply(wider(table), Beats())
    assert again.result is Result.DONE, again


def test_hold_makes_it_wait_and_go_lets_it_on(program: Path, pair: Pair, schema: str) -> None:
    """Held from the start, so that not one row is copied; the word of the beat reaches gh-ost by its socket."""
    table = orders(pair.primary, schema, 20_000)
    holding = threading.Event()
    holding.set()
    notes: list[str] = []

    def says(progress: Progress) -> Signal:
        notes.append(progress.note)
        return Signal(SignalKind.HOLD, "lag") if holding.is_set() else GO

    driver = driver_for(site_for(pair.primary, table, chunk_rows=50), program)
    with applying(driver, wider(table), Beats(says)) as got:
        wait_for(lambda: any("commanded by user" in n for n in notes), 30, "gh-ost was told to wait")
        holding.clear()
    assert [getattr(o, "result", o) for o in got] == [Result.DONE], got
    done(pair, table, 20_000)


def test_a_gh_ost_that_is_killed_is_told_with_its_reason_and_cleared(program: Path, pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)

    def kills(progress: Progress) -> Signal:
        if progress.elapsed_s > 1.0 and (pid := pid_of_run()):
            os.kill(pid, signal.SIGKILL)
        return GO

    outcome = driver_for(site_for(pair.primary, table), program).apply(wider(table), Beats(kills))
    assert outcome.result is Result.FAILED, outcome
    assert "-9" in outcome.note
    as_before(pair, table)


def test_a_gh_ost_that_stands_still_is_seen_within_fifteen_seconds(program: Path, pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)
    at: list[float] = []

    def stops(progress: Progress) -> Signal:
        if not at and progress.elapsed_s > 1.0 and (pid := pid_of_run()):
            os.kill(pid, signal.SIGSTOP)
            at.append(progress.elapsed_s)
        return GO

    beats = Beats(stops)
    with held(pair.primary, "BEGIN", f"SELECT a FROM {table} LIMIT 1"):
        outcome = driver_for(site_for(pair.primary, table), program).apply(wider(table), beats)
    assert outcome.result is Result.FAILED, outcome
    assert "said nothing" in outcome.note
    assert outcome.figures["seconds"] - at[0] < 15
    as_before(pair, table)
