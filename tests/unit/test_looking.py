"""What only looks: a comparison that did not come to its end proves nothing, and nobody has to watch."""

from __future__ import annotations

from io import StringIO

import pytest

from orchestrator.cli.screen import Drawn, Plain
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
