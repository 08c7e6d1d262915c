"""Law 10: after finish, and after a rollback all the way, nothing of ours is left, on servers or in the folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from tests.support.servers import sql, wait_for
from tests.support.small import Small, small
from tests.support.within import forward, opened

DROP = ("rollback: {quiet: 200ms}", "rollback: {quiet: 200ms, ddl: drop}")


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


def sessions(server: Server) -> list[str]:
    """The names under which sessions of ours are there now."""
    rows = sql(
        server,
        "SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs"
        " WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE LIKE 'rollout%'",
    )
    return [str(row[0]) for row in rows]


def locks(server: Server) -> list[str]:
    rows = sql(
        server,
        "SELECT OBJECT_NAME FROM performance_schema.metadata_locks"
        " WHERE OBJECT_TYPE = 'USER LEVEL LOCK' AND OBJECT_NAME LIKE 'rollout%'",
    )
    return [str(row[0]) for row in rows]


def statements(server: Server) -> list[str]:
    rows = sql(server, "SELECT INFO FROM performance_schema.processlist WHERE INFO LIKE '%/* rollout:%'")
    return [str(row[0]) for row in rows if "performance_schema.processlist" not in str(row[0])]


def triggers(here: Small) -> list[str]:
    rows = here.sql("SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s", here.schema)
    return [str(row[0]) for row in rows]


def tables(here: Small) -> list[str]:
    rows = here.sql("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", here.schema)
    return [str(row[0]) for row in rows]


def assert_nothing_is_left(here: Small, folder: set[Path]) -> None:
    assert triggers(here) == []
    assert tables(here) == ["orders"]
    for server in (here.pair.primary, here.pair.replica):
        wait_for(lambda server=server: not sessions(server), 5, "sessions of ours end")  # type: ignore[misc]
        assert (locks(server), statements(server)) == ([], [])
    assert set(here.terminal.runbook.parent.iterdir()) == folder


def test_after_a_rollback_all_the_way_nothing_of_ours_is_left(here: Small) -> None:
    here.write(DROP)
    runbook, folder = load(here.terminal.runbook), set(here.terminal.runbook.parent.iterdir())
    before = here.seen()
    with opened(runbook, here.pair.primary) as app:
        forward(app.commands)
        assert len(triggers(here)) == 2
        # While it is open nobody works, so nothing is held either: not the lease, and not the session that kept it.
        assert locks(here.pair.primary) == []
        assert "rollout lease" not in sessions(here.pair.primary)
        app.commands.rollback("", ())
    assert_nothing_is_left(here, folder)
    assert here.seen() | {"state": before["state"]} == before
    assert here.sql("SELECT new_writes, read_percent FROM _rollout.flag") == [(0, 0)]


def test_after_finish_nothing_of_ours_is_left_but_history_and_the_flag(here: Small) -> None:
    folder = set(here.terminal.runbook.parent.iterdir())
    here.terminal.run("run", "-y")
    here.terminal.run("finish", "-y")
    assert_nothing_is_left(here, folder)
    assert here.sql("SELECT new_writes, read_percent, YEAR(expires_at) FROM _rollout.flag") == [(1, 100, 9999)]
    here.terminal.run("purge", "-y")
    named = here.sql("SELECT id FROM _rollout.rollout UNION ALL SELECT rollout FROM _rollout.flag")
    assert named == []
