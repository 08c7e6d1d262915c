"""What only looks: a comparison that did not come to its end proves nothing, and nobody has to watch."""

from __future__ import annotations

from io import StringIO

import pytest

from orchestrator.cli.screen import Drawn, Plain, progress_line
from orchestrator.engine.looking import compare_now
from orchestrator.errors import Held
from orchestrator.model.outcome import GO, Outcome, Progress, Result
from orchestrator.model.step import Soak
from tests.support.world import Stage


@pytest.mark.parametrize("result", [Result.PAUSED, Result.HELD, Result.UNKNOWN])
def test_a_comparison_that_ended_early_is_no_answer(result: Result) -> None:
    stage = Stage()
    stage.commands.next("ddl")
    stage.driver.fail["compare:verify"] = Outcome(result, "interrupted")
    with pytest.raises(Held, match=r"did not reach the end of .*: interrupted"):
        compare_now(stage.parts, stage.record, stage.driver)


@pytest.mark.parametrize(
    ("progress", "says", "not_said"),
    [
        (
            Progress(250, 1000, rate_per_s=50.0, estimated=True),
            "~25.0%  250 / ~1,000 rows  50 rows/s  ETA ~15 s",
            "100",
        ),
        (Progress(999, 1000, rate_per_s=50.0, estimated=True), "~99.0%  999 / ~1,000 rows", "99.9%"),
        (Progress(5000, 5000, rate_per_s=50.0, estimated=True), "~99.0%  5,000 / ~5,000 rows  50 rows/s", "ETA"),
        (Progress(30, 30, "s"), "100.0%  30 / 30 s", "~"),
    ],
    ids=["under way", "nearly", "beyond", "known"],
)
def test_b131_an_estimate_is_marked_as_one_and_never_says_that_all_is_done(
    progress: Progress, says: str, not_said: str
) -> None:
    """Case B131. On the line, and in the bar."""
    stage, stream = Stage(), StringIO()
    stage.commands.next("ddl")
    line = progress_line(stage.record, Soak(seconds=1), progress, GO)
    assert says in line
    assert not_said not in line
    Drawn(stream).progress(stage.record, Soak(seconds=1), progress, GO)
    assert ("░" in stream.getvalue()) == progress.estimated


class Gone(StringIO):
    """A terminal that went away."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("watcher", [Drawn(Gone()), Plain(Gone())], ids=["drawn", "plain"])
def test_a_terminal_that_went_away_stops_nothing(watcher: Drawn | Plain) -> None:
    stage = Stage()
    stage.commands.next("ddl")
    soak = Soak(seconds=1)
    for tell in (
        lambda: watcher.progress(stage.record, soak, Progress(), GO),
        lambda: watcher.waiting(stage.record, (), 1.0),
    ):
        assert tell() is None, "it raised nothing"
