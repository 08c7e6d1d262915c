"""Each shipped runbook goes forward, all the way back, and forward again, while two applications write all the time."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import FORWARD
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.traffic import Traffic
from tests.support.command import Ground, ground
from tests.support.ghost import needs_real
from tests.support.state import settings_of

pytestmark = [pytest.mark.walk, pytest.mark.timeout(300)]


def walk(here: Ground, phases: tuple[str, ...]) -> None:
    for phase in phases:
        here.terminal.run("next", "--phase", phase, "-y")


@pytest.mark.parametrize(
    ("name", "shadow"),
    [
        ("aijob", "triggers"),
        ("orders", "triggers"),
        pytest.param("documents", "triggers", marks=pytest.mark.slow),
        pytest.param("orders", "flag", marks=pytest.mark.slow),
        pytest.param("readings", "triggers", marks=[needs_real, pytest.mark.slow]),
        pytest.param("aijob", "flag", marks=pytest.mark.slow),
        pytest.param("documents", "flag", marks=pytest.mark.slow),
    ],
)
def test_forward_back_and_forward_again_loses_no_acknowledged_write(
    name: str, shadow: str, pair: Pair, tmp_path: Path
) -> None:
    with ground(pair, name, tmp_path, rows=400) as plain:
        here = plain if shadow == "triggers" else plain.mirrored_by(shadow)
        traffic = Traffic(settings_of(pair.primary), here.runbook, here.shape, seed=7, pace=60)
        try:
            traffic.start_old()
            traffic.start_new()
            walk(here, FORWARD)
            assert here.terminal.run("verify", "--json").json["mismatches"] == 0
            meter = here.terminal.run("status", "--meter", "--json").json["meter"]
            accept = [f"--accept-loss={c['class']}={c['rows'] + 500}" for c in meter["classes"]]
            here.terminal.run("rollback", "-y", *accept)
            traffic.ledger.old_is_truth(dropped=here.runbook.phases.rollback_ddl is RollbackDdl.DROP)
            assert here.triggers() == []
            left = here.terminal.run("status", "--json").json["done"]
            walk(here, FORWARD[len(left) :])
            traffic.stop()
            differences = here.lost(traffic)
            stats = traffic.stats()
        finally:
            traffic.stop()
        assert differences == []
        assert stats.errors == 0, stats.error_texts
        assert stats.writes > 100
        status = here.terminal.run("status", "--json").json
        assert (status["state"], status["read_percent"], status["drift"]) == ("done", 100, 0)
