"""Several workers on one pass: whoever dies, no two ranges overlap, none is left out, and each row is written once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.drivers.rows.listening import Listening
from orchestrator.drivers.rows.passes import FillPass, Halt
from orchestrator.drivers.rows.tuning import Tuning
from orchestrator.drivers.rows.workers import Ranges, Workers
from orchestrator.model.contract import TableName
from orchestrator.model.outcome import GO, Signal, SignalKind
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.keyset import BatchSize
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import positions
from orchestrator.mysql.sql.positions import PassName
from orchestrator.sandbox.server import Server
from tests.support.edges import EDGES, Edge, EdgySession, die, killed_child
from tests.support.keys import KINDS
from tests.support.rows import ROLLOUT, VISIT, ToldBeat, begin_rollout, reader_of, work_over
from tests.support.servers import connect, script, sql
from tests.support.state import settings_of

pytestmark = [pytest.mark.crash, pytest.mark.integration]
OF = PassName("_rollout", ROLLOUT, 1, "backfill")
TABLE = TableName("walked", "t")


@pytest.fixture(scope="module")
def walked(primary: Server) -> Iterator[Server]:
    script(primary, "DROP DATABASE IF EXISTS walked; CREATE DATABASE walked DEFAULT CHARACTER SET utf8mb4")
    begin_rollout(primary)
    yield primary
    script(primary, "DROP DATABASE IF EXISTS walked; DROP DATABASE IF EXISTS _rollout")


def visit(
    server: Server,
    beat: ToldBeat,
    *,
    workers: int,
    rows: int,
    connect: object = None,
    ranges: type[Ranges] = Ranges,
) -> None:
    """The pass that counts visits, by so many workers in batches of so many rows."""
    with closing(Session(settings_of(server))) as session:
        work = work_over(reader_of(session, TABLE, VISIT.counted), beat)
        size = BatchSize(1000.0, rows, rows)
        FillPass(work, OF, size).begin()
        found = [positions.position_of(row) for row in session.query(positions.read_like(OF, OF.name))]
        opened = connect or partial(Session, settings_of(server))
        Workers(work, Listening(beat, SystemClock()), opened, workers).run(ranges(OF, found), size)  # type: ignore[arg-type]  # a factory of sessions


def ranges(server: Server) -> list[tuple[object, ...]]:
    return sql(server, "SELECT range_no, done FROM _rollout.position ORDER BY range_no")


@pytest.mark.parametrize("name", ["bigint-unsigned", "mixed-directions", "binary-16"])
@given(data=st.data())
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_row_is_written_once_by_however_many_workers_and_however_it_is_cut(
    name: str, walked: Server, data: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.drivers.rows.workers._LEAST_STRETCH_ROWS", 1)
    monkeypatch.setattr("orchestrator.drivers.rows.workers._STRETCH_BATCHES", data.draw(st.integers(1, 3)))
    sql(walked, "DELETE FROM _rollout.position")
    rows = KINDS[name].make(walked, "walked.t", data.draw(st.lists(KINDS[name].key, max_size=25)))
    for workers in data.draw(st.lists(st.integers(2, 4), min_size=1, max_size=3)):
        cut = data.draw(st.integers(1, 6))
        beat = ToldBeat(answer=lambda n, _, cut=cut: GO if n < cut else Signal(SignalKind.PAUSE))  # type: ignore[misc]  # the cut of this turn
        try:
            visit(walked, beat, workers=workers, rows=1)
        except Halt:
            continue
    visit(walked, ToldBeat(), workers=3, rows=2)
    counted = "SELECT COUNT(*), COALESCE(MIN(v), 1), COALESCE(MAX(v), 1) FROM walked.t"
    assert sql(walked, counted) == [(rows, 1, 1)]
    assert all(done for _, done in ranges(walked))
    assert sql(walked, "SELECT SUM(rows_done), SUM(rows_changed) FROM _rollout.position") == [(rows, rows)]
    assert len(ranges(walked)) <= 5, "no more rows than workers"


def test_workers_that_come_and_go_leave_no_row_out_and_write_each_once(
    walked: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = list[bool]()

    class Restless(Tuning):
        def after(self, rate: float, *, held: bool) -> int:
            self.workers = 1 if self.workers > 1 else 4
            return self.workers

    class Counted(Ranges):
        def leave(self, slot: PassName) -> bool:
            left.append(super().leave(slot))
            return left[-1]

    monkeypatch.setattr("orchestrator.drivers.rows.workers.Tuning", Restless)
    monkeypatch.setattr("orchestrator.drivers.rows.workers.WINDOW_S", 0.2)
    monkeypatch.setattr("orchestrator.drivers.rows.workers._LEAST_STRETCH_ROWS", 20)
    monkeypatch.setattr("orchestrator.drivers.rows.workers._STRETCH_BATCHES", 20)
    sql(walked, "DELETE FROM _rollout.position")
    rows = KINDS["generated-invisible"].make(walked, "walked.t", [()] * 500)
    visit(walked, ToldBeat(), workers=0, rows=1, ranges=Counted)
    assert sql(walked, "SELECT COUNT(*), MIN(v), MAX(v) FROM walked.t") == [(rows, 1, 1)]
    assert all(done for _, done in ranges(walked))
    assert any(left), "nobody left in the middle of a range"


@pytest.mark.parametrize("edge", EDGES)
def test_three_workers_whose_process_is_killed_at_an_edge_write_each_row_once(
    walked: Server, edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.drivers.rows.workers._LEAST_STRETCH_ROWS", 3)
    monkeypatch.setattr("orchestrator.drivers.rows.workers._STRETCH_BATCHES", 3)
    sql(walked, "DELETE FROM _rollout.position")
    rows = KINDS["generated-invisible"].make(walked, "walked.t", [()] * 40)
    kills = 0
    for after in (1, 4, 7, 2, 5, 9):

        def work(after: int = after) -> None:
            met = iter(range(after - 1, -1, -1))
            at = threading.Lock()

            def dies(edge: Edge) -> None:
                with at:
                    if next(met) == 0:
                        die(edge)

            visit(
                walked, ToldBeat(), workers=3, rows=1, connect=lambda: EdgySession(settings_of(walked), dies, (edge,))
            )

        kills += killed_child(work)
    visit(walked, ToldBeat(), workers=3, rows=1)
    assert sql(walked, "SELECT COUNT(*), MIN(v), MAX(v) FROM walked.t") == [(rows, 1, 1)]
    assert kills >= 4


def test_three_workers_whose_sessions_are_killed_at_every_edge_write_each_row_once(
    walked: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.drivers.rows.workers._LEAST_STRETCH_ROWS", 5)
    sql(walked, "DELETE FROM _rollout.position")
    rows = KINDS["generated-invisible"].make(walked, "walked.t", [()] * 60)

    def opened() -> Session:
        def kill(_: Edge) -> None:
            with closing(connect(walked)) as killer, killer.cursor() as cursor:
                cursor.execute(f"KILL {session.connection_id}")

        session = EdgySession(settings_of(walked), kill)
        return session

    visit(walked, ToldBeat(), workers=3, rows=2, connect=opened)
    assert sql(walked, "SELECT COUNT(*), MIN(v), MAX(v) FROM walked.t") == [(rows, 1, 1)]
