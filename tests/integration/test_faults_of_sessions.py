"""The server ends every session of ours at once, as a human with KILL does: in each stage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest

from orchestrator.errors import Exit, RolloutError
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from tests.support.meanwhile import ROW_BY_ROW, Somebody, beside
from tests.support.servers import script, wait_caught_up
from tests.support.small import Small, small
from tests.support.within import opened

ROWS = ", ".join(f"({n}, IF({n} % 2, 'new', 'done'), NULL)" for n in range(1, 41))
OURS = (
    "SELECT PROCESSLIST_ID FROM performance_schema.session_connect_attrs"
    " WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE LIKE 'rollout%%'"
)
MOMENTS = (
    ("ddl", Somebody(lambda: None, before="add-index:orders_state_idx")),
    ("backfill", Somebody(lambda: None, during="fill:backfill")),
    ("shadow-write", Somebody(lambda: None, before="install-trigger:insert")),
    ("shadow-write", Somebody(lambda: None, during="fill:sweep", at_beat=1)),
    ("read-switch", Somebody(lambda: None, before="set-percent:50")),
    ("read-switch", Somebody(lambda: None, during="set-percent:100", at_beat=1)),
    ("verify", Somebody(lambda: None, during="compare:verify", at_beat=1)),
)


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path, rows=ROWS) as at:
        at.write(ROW_BY_ROW)
        yield at


def end_sessions(here: Small) -> int:
    """How many of ours there were; all of them are killed."""
    found = here.sql(OURS)
    for (id,) in found:
        with suppress(pymysql.err.OperationalError):  # gone meanwhile
            script(here.pair.primary, f"KILL {id}")
    return len(found)


@pytest.mark.faults
@pytest.mark.slow  # six stages with deaths in them; single statements are in make crash
def test_sessions_that_the_server_ends_in_any_stage_end_the_command_or_nothing_and_it_goes_on(here: Small) -> None:
    """Also those that hold the lease and look: the command goes on by itself, or ends with 69, 75 or 80."""
    before = here.sql(f"SELECT id, status, note FROM {here.table} ORDER BY id")
    for phase, somebody in MOMENTS:
        ended: list[int] = []
        somebody.act = lambda ended=ended: ended.append(end_sessions(here))  # type: ignore[misc]
        said = None
        with beside(here, somebody) as (_, commands):
            try:
                commands.next(phase)
            except RolloutError as error:
                said = error
        assert ended, f"{phase}: nobody acted; steps: {somebody.seen}"
        assert ended[0] >= 2, f"{phase}: the lease, and who works"
        if said is not None:
            codes = (Exit.UNREACHABLE, Exit.HELD, Exit.CANNOT_SAY)
            assert said.exit_code in codes, f"{phase}: {said.exit_code} {said.seen}"
        if phase == "shadow-write" and somebody.before:
            with opened(load(here.terminal.runbook), here.pair.primary) as app:
                app.commands.rollback("backfill", ())
            continue
        with opened(load(here.terminal.runbook), here.pair.primary) as app:
            if app.parts.store.load(here.name).done[-1] != phase:  # type: ignore[union-attr]
                app.commands.next(phase)
            if phase == "read-switch" and somebody.before:
                app.commands.rollback("shadow-write", ())
    assert here.sql(f"SELECT id, status, note FROM {here.table} ORDER BY id") == before
    wrong = f"SELECT COUNT(*) FROM {here.table} WHERE NOT (state <=> IF(status = 'new', 'pending', 'succeeded'))"
    assert here.sql(wrong) == [(0,)]
    assert here.sql("SELECT new_writes, read_percent, YEAR(expires_at) FROM _rollout.flag") == [(1, 100, 9999)]
    revisions = [row[0] for row in here.sql("SELECT revision FROM _rollout.event ORDER BY revision")]
    assert revisions == list(range(1, len(revisions) + 1))
    wait_caught_up(here.pair)
