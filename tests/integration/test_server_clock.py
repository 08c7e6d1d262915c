"""The clock of the primary jumps by an hour, either way, under each thing that has a time: a filling, the lease, the
heartbeat, and readers whose flag expires."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import Exit
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from tests.support.meanwhile import ROW_BY_ROW, Somebody, beside, ends
from tests.support.server_clock import Clock, clock_of
from tests.support.servers import guarded_pair, wait_for
from tests.support.small import Small, small
from tests.support.within import opened

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(300)]
HOUR_S = 3600
ROWS = ", ".join(f"({n}, IF({n} % 2, 'new', 'done'), NULL)" for n in range(1, 41))
SEEN = "SELECT IF(expires_at > UTC_TIMESTAMP(6), read_percent, 0) FROM _rollout.flag"


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Pair, Clock]]:
    with guarded_pair() as pair, clock_of(pair.primary, tmp_path_factory.mktemp("clock")) as clock:
        yield pair, clock


@pytest.fixture
def here(turned: tuple[Pair, Clock], tmp_path: Path) -> Iterator[Small]:
    pair, _ = turned
    with small(pair, tmp_path, rows=ROWS) as at:
        at.write(ROW_BY_ROW)
        yield at


def now_s(here: Small) -> int:
    return int(here.sql("SELECT UNIX_TIMESTAMP()")[0][0])


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_of_the_primary_that_jumps_an_hour_stops_no_filling_and_moves_readers_back_at_most(
    here: Small, turned: tuple[Pair, Clock], hours: int
) -> None:
    """Forward, what expires has expired: readers go back, and the command ends and says so. Back, nothing is noticed,
    because whoever renews counts from the server's new clock. No lag is invented, no lease is lost."""
    _, clock = turned
    before = now_s(here)
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        app.commands.next("ddl")
    somebody = Somebody(lambda: clock.jump(hours * HOUR_S), during="fill:backfill")
    with beside(here, somebody) as (_, commands):
        commands.next("backfill")
    assert somebody.acted
    assert abs(now_s(here) - before - hours * HOUR_S) < 120, "the server's clock was turned"
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        app.commands.next("shadow-write")
    somebody = Somebody(lambda: clock.jump(hours * HOUR_S), during="set-percent:50", at_beat=1)
    if hours > 0:
        error = ends(here, somebody, "read-switch")
        assert error.exit_code in (Exit.HELD, Exit.PHASE_FAILED), error.seen
        assert here.sql(SEEN) == [(0,)]
    else:
        with beside(here, somebody) as (_, commands):
            commands.next("read-switch")
        assert somebody.acted
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        for phase in ("read-switch", "verify")[hours < 0 :]:
            app.commands.next(phase)
        revisions = [e.revision for e in app.parts.store.history(here.name)]
    assert here.sql(SEEN) == [(100,)]
    assert revisions == list(range(1, len(revisions) + 1)), "the history has its order by itself"
    wrong = f"SELECT COUNT(*) FROM {here.table} WHERE NOT (state <=> IF(status = 'new', 'pending', 'succeeded'))"
    assert here.sql(wrong) == [(0,)]


def test_a_clock_that_jumps_back_keeps_the_readers_of_a_dead_watcher_for_the_jump_and_the_ttl(
    here: Small, turned: tuple[Pair, Clock]
) -> None:
    """What the flag cannot do, as docs/reliability.md says it: it expires by the server's clock, and nothing else."""
    _, clock = turned
    here.write(("hold: 200ms", "hold: 5m"))
    here.terminal.run("run", "--until", "shadow-write", "-y")
    watcher = here.terminal.start("next", "--phase", "read-switch", "-y")
    try:
        wait_for(lambda: here.sql(SEEN) == [(50,)], 60, "readers are at 50 %")
    finally:
        watcher.kill()
        watcher.communicate()
    clock.jump(-HOUR_S)
    left = "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), expires_at) FROM _rollout.flag"
    assert HOUR_S - 60 < here.sql(left)[0][0] <= HOUR_S + 4
    assert here.sql(SEEN) == [(50,)]
    here.terminal.run("rollback", "--to", "shadow-write", "-y")
    assert here.sql(SEEN) == [(0,)]
