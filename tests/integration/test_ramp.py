"""The ramp on a real server: a gate that takes its time stops neither the watch nor the dead man's switch."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.engine import Paused
from orchestrator.model.runbook import OWN_GATES
from orchestrator.model.state import Ask, State
from orchestrator.mysql.clock import SystemClock
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.store.mysql import MysqlStore
from tests.support.servers import wait_for
from tests.support.small import Small, small
from tests.support.state import settings_of
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
        samplings = [app.gates.begin(app.parts.runbook.gate(name)) for name in OWN_GATES]
    assert all(sampling() is not None for sampling in samplings)
    ours = (
        "SELECT COUNT(*) FROM performance_schema.session_connect_attrs WHERE ATTR_NAME = 'program_name'"
        " AND (ATTR_VALUE LIKE 'rollout observer %%' OR ATTR_VALUE LIKE 'rollout scan %%') AND ATTR_VALUE LIKE %s"
    )
    wait_for(lambda: here.sql(ours, f"% {os.getpid()}@%") == [(0,)], 10)


def test_a_percent_step_waits_for_its_window_under_watch_and_the_way_back_does_not(here: Small) -> None:
    """The window is closed all day but for one minute that is hours away; a pause takes readers back all the same."""
    hour = (datetime.now(UTC).hour + 12) % 24
    window = f"window: '{hour:02d}:00-{hour:02d}:01 UTC'"
    here.write(("percent: [50, 100], hold: 200ms, ttl: 4s", f"percent: [100], hold: 200ms, ttl: 4s, {window}"))
    asked: list[Ask] = []
    ended: list[str] = []
    with opened(load(here.terminal.runbook), here.pair.primary, lambda: asked[0] if asked else None) as app:
        for phase in ("ddl", "backfill", "shadow-write"):
            app.commands.next(phase)

        def walk() -> None:
            try:
                app.commands.next("read-switch")
            except Paused as paused:
                ended.append(paused.record.phase)

        walking = threading.Thread(target=walk)
        walking.start()
        with closing(MysqlStore(settings_of(here.pair.primary), SystemClock())) as store:
            wait_for(lambda: "100 % waits for" in getattr((store.read_progress(here.name) or [""])[0], "note", ""), 30)
        flag = "SELECT new_writes, read_percent, expires_at > UTC_TIMESTAMP(6) FROM _rollout.flag"
        assert here.sql(flag) == [(1, 0, 1)]
        asked.append(Ask.PAUSE)
        walking.join(20)
    assert ended == ["read-switch"]
    assert here.sql(flag) == [(0, 0, 0)]
