"""The ramp on a real server: a gate that takes its time stops neither the watch nor the dead man's switch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.model.state import State
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from tests.support.small import Small, small
from tests.support.within import opened


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


def test_a_gate_that_takes_longer_than_the_flag_lives_is_waited_for(here: Small) -> None:
    here.write(
        ("percent: [50, 100], hold: 200ms, ttl: 4s", "percent: [100], hold: 200ms, ttl: 3s"),
        ("gates: [drift]", "gates: [drift, slow]"),
        ("checks:", "gates:\n  - {name: slow, command: sleep 4, max: 0, timeout: 20s}\nchecks:"),
    )
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        for phase in ("ddl", "backfill", "shadow-write", "read-switch"):
            app.commands.next(phase)
        record = app.store.load(app.parts.runbook.id)
    assert record is not None
    assert (record.state, "read-switch" in record.done) == (State.DONE, True)
    assert here.sql("SELECT new_writes, read_percent, YEAR(expires_at) FROM _rollout.flag") == [(1, 100, 9999)]


def test_a_watch_that_ends_leaves_no_sample_behind(here: Small) -> None:
    """The scan of a gate is told to end, and the sessions of the gates are closed with the rest."""
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        for phase in ("ddl", "backfill", "shadow-write"):
            app.commands.next(phase)
        sampling = app.gates.begin(app.parts.runbook.gate("drift"))
    assert sampling() is not None
