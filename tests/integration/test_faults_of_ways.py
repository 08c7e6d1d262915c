"""An address that leads to another server than before, or to a proxy that shares sessions: noticed, and refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.errors import ConfigurationError, Exit
from orchestrator.model.state import FORWARD
from orchestrator.mysql.session import Session
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.settings import ServerSettings
from tests.support.meanwhile import ROW_BY_ROW, Somebody, ends
from tests.support.servers import guarded_pair, script, sql, wait_caught_up
from tests.support.small import Small, small
from tests.support.state import settings_of
from tests.support.ways import Spreading, as_its_own, spreading
from tests.support.within import opened

ROWS = ", ".join(f"({n}, 'new', NULL)" for n in range(1, 41))


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path, rows=ROWS) as at:
        at.write(ROW_BY_ROW)
        yield at


@pytest.fixture
def way(pair: Pair) -> Iterator[Spreading]:
    with spreading(pair.primary, pair.replica) as made:
        yield made


def through(way: Spreading, pair: Pair) -> ServerSettings:
    return replace(settings_of(pair.primary), port=way.port)


def test_a_proxy_that_shares_connections_is_refused_by_the_first_session(pair: Pair) -> None:
    """Named locks, the watch over an ALTER and its KILL would meet somebody else's connection."""
    with spreading(pair.primary, pair.replica, as_its_own) as way, pytest.raises(ConfigurationError) as refused:
        Session(through(way, pair))
    assert "shares connections" in refused.value.seen
    assert "the primary itself" in refused.value.next


@pytest.mark.parametrize(("phase", "step"), [("ddl", "add-index:orders_state_idx"), ("backfill", "fill:backfill")])
def test_a_proxy_that_sends_later_sessions_to_a_replica_is_noticed_before_anything_is_written_there(
    here: Small, way: Spreading, phase: str, step: str
) -> None:
    pair, settings = here.pair, through(way, here.pair)
    if phase == "backfill":
        with opened(load(here.terminal.runbook), pair.primary) as app:
            app.commands.next("ddl")
    error = ends(here, Somebody(way.turn, before=step), phase, settings)
    assert error.exit_code is Exit.CONFIGURATION, error.seen
    ((uuid,),) = sql(pair.replica, "SELECT @@server_uuid")
    assert uuid in error.seen
    assert "another server answers" in error.seen
    wait_caught_up(pair)
    assert sql(pair.replica, f"SELECT @@GLOBAL.gtid_executed LIKE '%%{uuid}%%'") == [(0,)], "the replica was written to"
    with opened(load(here.terminal.runbook), pair.primary) as app:
        app.commands.next(phase)


def promote(pair: Pair) -> None:
    """The replica has all, and is the primary from here on."""
    wait_caught_up(pair)
    script(pair.replica, "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = 0; SET GLOBAL read_only = 0")


@pytest.mark.faults
@pytest.mark.slow
@pytest.mark.parametrize(("phase", "step"), [("backfill", "fill:backfill"), ("shadow-write", "install-trigger:insert")])
def test_after_a_failover_behind_the_address_no_row_and_no_trigger_is_written_to_the_new_primary(
    tmp_path: Path, phase: str, step: str
) -> None:
    """The old primary is cut off in the middle of a step, and its replica is made writable under the same address. The
    state went over with the data; a human decides how the rollout goes on."""
    with guarded_pair() as pair, small(pair, tmp_path, rows=ROWS) as here, spreading(pair.primary, pair.replica) as way:
        here.write(ROW_BY_ROW)
        with opened(load(here.terminal.runbook), pair.primary) as app:
            for done in ("ddl", "backfill")[: 1 if phase == "backfill" else 2]:
                app.commands.next(done)
        seen: list[object] = []

        def table() -> object:
            triggers = "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s"
            return sql(pair.replica, f"CHECKSUM TABLE {here.table}"), sql(pair.replica, triggers, (here.schema,))

        def fail_over() -> None:
            promote(pair)
            seen.append(table())
            way.turn(cut=True)

        somebody = Somebody(fail_over, during=step) if phase == "backfill" else Somebody(fail_over, before=step)
        error = ends(here, somebody, phase, through(way, pair))
        assert error.exit_code in (Exit.CONFIGURATION, Exit.HELD), error.seen
        assert "another server" in error.seen
        assert table() == seen[0]
        with opened(load(here.terminal.runbook), pair.replica) as app, pytest.raises(ConfigurationError) as refused:
            app.commands.next(phase)
        assert "began on" in refused.value.seen
        assert table() == seen[0]


@pytest.mark.parametrize(
    "step", ["compare:verify", *(pytest.param(s, marks=pytest.mark.slow) for s in ("watch-readers", "compare:newest"))]
)
def test_after_a_failover_in_verify_readers_are_back_on_the_old_column(tmp_path: Path, step: str) -> None:
    """They stood at 100 % for good, and nobody would watch them on the new primary."""
    fails_over_before(tmp_path, "verify", step, [(1, 100)])


@pytest.mark.faults
@pytest.mark.slow  # a pair of its own
def test_after_a_failover_inside_a_ramp_readers_are_back_on_the_old_column(tmp_path: Path) -> None:
    """Half of them had gone over, and the next half was about to."""
    fails_over_before(tmp_path, "read-switch", "set-percent:100", [(1, 50)])


def fails_over_before(tmp_path: Path, phase: str, step: str, then: list[tuple[int, int]]) -> None:
    """``then``: new writes, and percent of the readers, as they went over to the new primary."""
    with guarded_pair() as pair, small(pair, tmp_path, rows=ROWS) as here, spreading(pair.primary, pair.replica) as way:
        with opened(load(here.terminal.runbook), pair.primary) as app:
            for done in FORWARD[: FORWARD.index(phase)]:
                app.commands.next(done)
        flag = "SELECT new_writes, read_percent FROM _rollout.flag"

        def fail_over() -> None:
            assert sql(pair.primary, flag) == then
            promote(pair)
            way.turn(cut=True)

        error = ends(here, Somebody(fail_over, before=step), phase, through(way, pair))
        assert error.exit_code is Exit.PHASE_FAILED, error.seen
        assert sql(pair.replica, flag) == [(0, 0)]
