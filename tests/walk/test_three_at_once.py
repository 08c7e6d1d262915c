"""Three rollouts of three tables on one server at the same time, each under its own two applications."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from orchestrator.mysql.session import Session
from orchestrator.runbook.shorten import write_short_copy
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.sandbox.seed import create_tables, seed_table
from orchestrator.sandbox.traffic import Traffic
from tests.support.command import Ground, Terminal, ground
from tests.support.servers import script, wait_caught_up
from tests.support.shapes import live_shape
from tests.support.state import settings_of

pytestmark = [pytest.mark.walk, pytest.mark.slow, pytest.mark.timeout(600)]


def test_none_of_three_hinders_another_and_no_acknowledged_write_is_lost(pair: Pair, tmp_path: Path) -> None:
    with ground(pair, "aijob", tmp_path, rows=400) as first, ExitStack() as stack:
        grounds = [first, beside(pair, "orders", tmp_path, stack), beside(pair, "documents", tmp_path, stack)]
        traffics = [Traffic(settings_of(pair.primary), g.runbook, g.shape, seed=7, pace=30, threads=2) for g in grounds]
        try:
            for traffic in traffics:
                traffic.start_old()
                traffic.start_new()
            with ThreadPoolExecutor(3) as pool:
                list(pool.map(lambda g: g.terminal.run("run", "-y", timeout_s=500), grounds))
            for traffic in traffics:
                traffic.stop()
            lost = [g.lost(t) for g, t in zip(grounds, traffics, strict=True)]
            stats = [t.stats() for t in traffics]
        finally:
            for traffic in traffics:
                traffic.stop()
        assert lost == [[], [], []]
        assert [s.error_texts for s in stats if s.errors] == []
        assert min(s.writes for s in stats) > 100
        states = [g.terminal.run("status", "--json").json for g in grounds]
        assert {(s["state"], s["read_percent"], s["drift"]) for s in states} == {("done", 100, 0)}


def beside(pair: Pair, name: str, folder: Path, stack: ExitStack) -> Ground:
    """Another shipped runbook's table on the same server; the state of the others stays."""
    runbook = write_short_copy(runbooks_folder() / f"{name}.yaml", folder / f"{name}.yaml", 1.0)
    stack.callback(script, pair.primary, f"DROP DATABASE IF EXISTS `{runbook.table.schema}`")
    with closing(Session(settings_of(pair.primary), role="test")) as session:
        create_tables(session, runbook)
        shape = live_shape(session, runbook.table)
        seed_table(session, runbook, shape, 400, 1)
    wait_caught_up(pair)
    return Ground(pair, runbook, shape, Terminal(pair.primary, Path(runbook.path)))
