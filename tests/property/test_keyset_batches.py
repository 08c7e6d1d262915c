"""The keyed walk meets every row exactly once, whatever the key, the batch sizes, and the moments it is stopped at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

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
from tests.support.rows import BACKOFF, VISIT, begin_rollout, reader_of, run_in_pieces
from tests.support.servers import connect, script, sql
from tests.support.state import settings_of

TEXT = st.text(st.sampled_from(list("aAbBßsSéeÉ ñ\0'\\%_😀\t")), max_size=6)
EDGES = st.sampled_from([0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1])
DECIMALS = st.decimals(min_value=-(10**19), max_value=10**19, places=10, allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes().map(lambda d: d.replace(year=2026, month=1, day=1, hour=0, minute=0, second=d.second % 2))
LONGEST = timedelta(hours=838)
LABELS = ["zz", "aa", "", "mm", "b'b"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A key: the columns, the index over them, and values for one key."""

    columns: str
    index: str
    key: st.SearchStrategy[tuple[Any, ...]]


KINDS = {
    "bigint-unsigned": Kind("k0 BIGINT UNSIGNED", "k0", st.tuples(EDGES | st.integers(0, 2**64 - 1))),
    "int-signed": Kind("k0 INT", "k0", st.tuples(st.integers(-(2**31), 2**31 - 1))),
    "varchar-unicode": Kind("k0 VARCHAR(10) COLLATE utf8mb4_unicode_ci", "k0", st.tuples(TEXT)),
    "varchar-0900-as-cs": Kind("k0 VARCHAR(10) COLLATE utf8mb4_0900_as_cs", "k0", st.tuples(TEXT)),
    "varchar-bin": Kind("k0 VARCHAR(10) COLLATE utf8mb4_bin", "k0", st.tuples(TEXT)),
    "char-latin1": Kind(
        "k0 CHAR(8) CHARACTER SET latin1", "k0", st.tuples(st.text(st.sampled_from(list("aAbéß ñ")), max_size=6))
    ),
    "binary-16": Kind("k0 BINARY(16)", "k0", st.tuples(st.binary(min_size=0, max_size=16))),
    "varbinary": Kind("k0 VARBINARY(8)", "k0", st.tuples(st.binary(max_size=4))),
    "decimal": Kind("k0 DECIMAL(30,10)", "k0", st.tuples(DECIMALS)),
    "datetime-6": Kind("k0 DATETIME(6)", "k0", st.tuples(MOMENTS)),
    "timestamp-3": Kind("k0 TIMESTAMP(3)", "k0", st.tuples(MOMENTS)),
    "time-6": Kind("k0 TIME(6)", "k0", st.tuples(st.timedeltas(min_value=-LONGEST, max_value=LONGEST))),
    "date": Kind("k0 DATE", "k0", st.tuples(st.dates() | st.just("0000-00-00"))),
    "year": Kind("k0 YEAR", "k0", st.tuples(st.integers(1901, 2155) | st.just(0))),
    "enum": Kind(f"k0 ENUM({','.join(repr(x) for x in LABELS[:4])},'b''b')", "k0", st.tuples(st.sampled_from(LABELS))),
    "mixed-directions": Kind(
        "k0 ENUM('zz','aa','mm'), k1 VARCHAR(6) COLLATE utf8mb4_unicode_ci, k2 BIGINT UNSIGNED",
        "k0 DESC, k1, k2 DESC",
        st.tuples(st.sampled_from(["zz", "aa", "mm"]), TEXT, EDGES),
    ),
    "number-and-text": Kind(
        "k0 BIGINT UNSIGNED, k1 VARCHAR(20) COLLATE utf8mb4_0900_ai_ci",
        "k0, k1",
        st.tuples(EDGES, TEXT | EDGES.map(str)),
    ),
    "moment-and-bytes": Kind("k0 DATETIME(6), k1 BINARY(4)", "k0, k1 DESC", st.tuples(MOMENTS, st.binary(max_size=4))),
}


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
    rows = _filled(walked, kind, keys)
    with closing(Session(settings_of(walked))) as session:
        position = run_in_pieces(reader_of(session, TableName("walked", "t"), VISIT.counted), sizes)
        assert sql(walked, "SELECT COUNT(*), COALESCE(MIN(v), 1), COALESCE(MAX(v), 1) FROM walked.t") == [(rows, 1, 1)]
        assert (position.rows_done, position.rows_changed, position.rows_skipped) == (rows, rows, 0)
        assert _tiled(session, sizes[0]) == rows


def _filled(server: Server, kind: Kind, keys: list[tuple[Any, ...]]) -> int:
    """A table of that kind with these keys (those that the server takes for equal once); how many rows it has."""
    holes = ", ".join(["%s"] * kind.columns.count("k"))
    names = ", ".join(f"k{n}" for n in range(kind.columns.count("k")))
    with closing(connect(server, sql_mode="")) as session, session.cursor() as cursor:
        cursor.execute("DELETE FROM _rollout.position")
        cursor.execute("DROP TABLE IF EXISTS walked.t")
        cursor.execute(f"CREATE TABLE walked.t ({kind.columns}, v INT NOT NULL DEFAULT 0, PRIMARY KEY ({kind.index}))")
        for key in keys:
            cursor.execute(f"INSERT IGNORE INTO walked.t ({names}) VALUES ({holes})", key)
        cursor.execute("SELECT COUNT(*) FROM walked.t")
        ((rows,),) = cursor.fetchall()
    return int(rows)


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
