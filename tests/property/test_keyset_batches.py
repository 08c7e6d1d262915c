"""The keyed walk meets every row exactly once, whatever the key, the batch sizes, and the moments it is stopped at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.model.contract import TableName
from orchestrator.model.keys import Key
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.keyset import BatchSize, Patience, stretches
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.bounds import Span
from orchestrator.sandbox.server import Server
from tests.support.keys import KINDS
from tests.support.rows import BACKOFF, VISIT, begin_rollout, reader_of, run_in_pieces
from tests.support.servers import script, sql
from tests.support.state import settings_of


@pytest.fixture(scope="module")
def walked(primary: Server) -> Iterator[Server]:
    script(primary, "DROP DATABASE IF EXISTS walked; CREATE DATABASE walked DEFAULT CHARACTER SET utf8mb4")
    begin_rollout(primary)
    yield primary
    script(primary, "DROP DATABASE IF EXISTS walked; DROP DATABASE IF EXISTS _rollout")


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
@settings(
    max_examples=max(6, settings().max_examples // 12), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_each_row_is_written_exactly_once_however_the_pass_is_cut(
    name: str, walked: Server, data: st.DataObject
) -> None:
    kind = KINDS[name]
    keys = data.draw(st.lists(kind.key, max_size=25), label="keys")
    sizes = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4), label="sizes")
    sql(walked, "DELETE FROM _rollout.position")
    rows = kind.make(walked, "walked.t", keys)
    with closing(Session(settings_of(walked))) as session:
        position = run_in_pieces(reader_of(session, TableName("walked", "t"), VISIT.counted), sizes)
        assert sql(walked, "SELECT COUNT(*), COALESCE(MIN(v), 1), COALESCE(MAX(v), 1) FROM walked.t") == [(rows, 1, 1)]
        assert (position.rows_done, position.rows_changed, position.rows_skipped) == (rows, rows, 0)
        assert _tiled(session, sizes[0]) == rows


def _tiled(session: Session, rows: int) -> int:
    """Rows that a reading walk meets; its stretches begin and end open, and each begins where the one before ended."""

    def never(seconds: float, reason: str) -> None:
        raise AssertionError(reason)

    reader = reader_of(session, TableName("walked", "t"), ("t.v = 1",))
    at: Key | None = None
    met = 0
    size = BatchSize(1000.0, rows, rows)
    for stretch in stretches(reader, Span(), size, Patience(SystemClock(), BACKOFF, never)):
        assert stretch.span.lo == at
        assert stretch.counts == (stretch.rows,)
        met, at = met + stretch.rows, stretch.span.hi
    assert at is None
    return met
