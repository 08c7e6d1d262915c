"""A batch reads its own rows and no others: counted by the server's own handlers, for keys of every shape."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import pytest

from orchestrator.model.contract import TableName
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import packets, rows
from orchestrator.mysql.sql.bounds import Span, among, read_key, within
from orchestrator.sandbox.server import Server
from tests.support.rows import VISIT, reader_of
from tests.support.servers import script
from tests.support.state import settings_of

ROWS = 3000
BATCH = 100


@dataclass(frozen=True, slots=True)
class Kind:
    definition: str
    columns: str
    values: str


KINDS = {
    "text": Kind("k0 VARCHAR(40) COLLATE utf8mb4_unicode_ci, PRIMARY KEY (k0)", "k0", "CONCAT('k', i)"),
    "two-parts": Kind("k0 INT, k1 VARCHAR(40), PRIMARY KEY (k0, k1)", "k0, k1", "i DIV 700, CONCAT('k', i)"),
    "mixed-directions": Kind(
        "k0 INT, k1 VARCHAR(40), k2 BIGINT UNSIGNED, PRIMARY KEY (k0, k1 DESC, k2)",
        "k0, k1, k2",
        "i DIV 700, CONCAT('k', i DIV 2), i",
    ),
    "enum-first": Kind(
        "k0 ENUM('c','a','b'), k1 VARCHAR(40), PRIMARY KEY (k0, k1)", "k0, k1", "1 + i % 3, CONCAT('k', i)"
    ),
    "moment": Kind(
        "k0 DATETIME(6), k1 BINARY(8), PRIMARY KEY (k0, k1)",
        "k0, k1",
        "TIMESTAMP'2026-01-01 00:00:00' + INTERVAL i DIV 300 MICROSECOND, LPAD(i, 8, '0')",
    ),
    "unique-without-primary": Kind("a INT NULL, k0 BIGINT NOT NULL, UNIQUE KEY u (k0), KEY other (a)", "k0", "i * 3"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_batch_in_the_middle_reads_only_its_own_rows(name: str, primary: Server, schema: str) -> None:
    kind = KINDS[name]
    script(
        primary,
        f"CREATE TABLE t (v INT NOT NULL DEFAULT 0, {kind.definition}); SET SESSION cte_max_recursion_depth = 100000;"
        f" INSERT INTO t ({kind.columns}) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {ROWS}) SELECT {kind.values} FROM n; ANALYZE TABLE t",
        schema,
    )
    with closing(Session(settings_of(primary))) as session:
        reader = reader_of(session, TableName(schema, "t"), VISIT.counted)
        space = reader.space
        middle = reader.next(Span(None, reader.last()), ROWS // 2).span.hi
        ahead = Span(middle, reader.last())

        assert _reads(session, rows.nth_key(space, ahead, BATCH)) <= BATCH + 5
        end = session.one(rows.nth_key(space, ahead, BATCH))
        assert end is not None
        span = Span(middle, read_key(space, end))
        assert _reads(session, rows.counts(space, span, reader.counted)) <= BATCH + 8
        session.execute("SET @ours = 1")
        update = packets.write_rows(space, within(space, span, rows.inner_ref), VISIT.write, "/* t */")
        plan = [(row[2], row[4], row[6]) for row in session.query(f"EXPLAIN {update}")]
        assert plan == [("<derived2>", "ALL", None), ("t", "eq_ref", space.index), ("s", "range", space.index)]
        # Locked, kept aside, joined, written: a few reads for each row of the batch, none for any other.
        assert _reads(session, update) <= 7 * BATCH

        found = session.query(rows.listed(space, span, "t.v >= 0", (), BATCH))
        few = [read_key(space, row) for row in found[::10]]
        here = f"{within(space, span, rows.inner_ref)} AND {among(space, few, rows.inner_ref)}"
        # Rows by key, of which there are few, lock no other row: in the worst case those between them are read.
        assert _reads(session, packets.write_rows(space, here, VISIT.write, "/* t */")) <= 2 * BATCH


def _reads(session: Session, statement: str) -> int:
    """Rows and index entries that the storage engine was asked for."""
    session.execute("FLUSH STATUS")
    session.execute(statement)
    counts = session.query("SHOW SESSION STATUS LIKE 'Handler_read%'")
    return sum(int(value) for _, value in counts)
