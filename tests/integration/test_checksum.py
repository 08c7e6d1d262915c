"""The digest of a table: equal for equal rows, different for every other difference, and it finds the row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.drivers.rows import FillDriver
from orchestrator.errors import ConfigurationError
from orchestrator.model.contract import TableName
from orchestrator.mysql.checksum import Digest, Side, checksum, differing, digests, side
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.scan import patience
from orchestrator.mysql.session import Session
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from tests.integration.test_exactness import APART
from tests.support.orders import fill, make_orders, site
from tests.support.rows import ToldBeat, begin_rollout
from tests.support.servers import script, wait_caught_up
from tests.support.shapes import live_shape
from tests.support.small import small
from tests.support.state import settings_of

OLD = ("id", "status", "timeout_s", "note", "made_at", "changed_at")


@contextmanager
def looking(server: Server, schema: str, name: str, columns: tuple[str, ...] = ()) -> Iterator[Side]:
    with closing(Session(settings_of(server))) as session:
        shape = live_shape(session, TableName(schema, name))
        yield side(session, shape, patience(SystemClock()), columns)


def digest(server: Server, schema: str, name: str, columns: tuple[str, ...] = ()) -> Digest:
    with looking(server, schema, name, columns) as of:
        return checksum(of)


# The text of a JSON value does not say that it is a date.
NOT_BY_TEXT = {"json-string-and-date"}


def test_a_column_of_every_kind_with_another_value_is_another_digest(primary: Server, schema: str) -> None:
    kinds = {name: case for name, case in APART.items() if name not in NOT_BY_TEXT}
    ddl = ", ".join(f"c{n} {kind}" for n, (kind, _, _) in enumerate(kinds.values()))
    script(primary, f"CREATE TABLE one (id INT PRIMARY KEY, {ddl}, g POINT, w VECTOR(2))", schema)
    values = ", ".join(f"({old})" for _, old, _ in kinds.values())
    script(
        primary,
        f"SET NAMES utf8mb4; SET sql_mode = ''; INSERT INTO one VALUES (1, {values}, POINT(1, 2),"
        " STRING_TO_VECTOR('[1,2]'))",
        schema,
    )
    changes = [(name, f"c{n} = ({new})") for n, (name, (_, _, new)) in enumerate(kinds.items())]
    changes += [("point", "g = POINT(2, 1)"), ("vector", "w = STRING_TO_VECTOR('[2,1]')"), ("key", "id = 2")]
    seen = {digest(primary, schema, "one"): "as it was"}
    for name, change in changes:
        # JSON in another form is not stored over itself: from NULL it is.
        empty = change.split(" = ")[0] + (" = NULL" if name != "key" else " = 3")
        script(
            primary,
            f"SET NAMES utf8mb4; SET sql_mode = ''; CREATE TABLE other LIKE one; INSERT INTO other SELECT * FROM one;"
            f" UPDATE other SET {empty}; UPDATE other SET {change}",
            schema,
        )
        got = digest(primary, schema, "other")
        script(primary, "DROP TABLE other", schema)
        assert got not in seen, f"{name} looks as {seen[got]}"
        seen[got] = name


def test_what_moves_between_columns_or_rows_is_seen(primary: Server, schema: str) -> None:
    """What CONCAT_WS and CRC32 are blind for: NULL that moves, a border that moves, values of two rows that swap."""
    rows = [
        "(1, 'a', NULL, 'b', 'x', 'y')",
        "(1, 'a', 'b', NULL, 'x', 'y')",
        "(1, NULL, 'a', 'b', 'x', 'y')",
        "(1, 'ab', '', '', 'x', 'y')",
        "(1, 'a', 'b', '', 'x', 'y')",
        "(1, '', 'ab', '', 'x', 'y')",
        "(1, 'a', '~', 'b', 'x', 'y')",
        "(1, 'a:1', '', 'b', 'x', 'y')",
        "(1, 'a', ':1', 'b', 'x', 'y')",
        "(1, 'a', '1:b', 'b', 'x', 'y')",
        "(1, 'a', NULL, 'b', 'x', 'y'), (2, 'c', NULL, 'd', 'x', 'y')",
        "(1, 'c', NULL, 'b', 'x', 'y'), (2, 'a', NULL, 'd', 'x', 'y')",
        "(1, 'c', NULL, 'd', 'x', 'y'), (2, 'a', NULL, 'b', 'x', 'y')",
        "(2, 'a', NULL, 'b', 'x', 'y'), (1, 'c', NULL, 'd', 'x', 'y')",
        "(3, 'a', NULL, 'b', 'x', 'y'), (1, 'c', NULL, 'd', 'x', 'y')",
        "(1, 'a', NULL, 'b', 'y', 'x')",
    ]  # fmt: skip
    columns = "a VARCHAR(9), b VARCHAR(9), c VARCHAR(9) CHARACTER SET latin1, t TEXT, n VARCHAR(9) NOT NULL"
    script(primary, f"CREATE TABLE many (id INT PRIMARY KEY, {columns})", schema)
    seen: dict[Digest, str] = {digest(primary, schema, "many"): "an empty table"}
    for values in rows:
        script(primary, f"DELETE FROM many; INSERT INTO many VALUES {values}", schema)
        got = digest(primary, schema, "many")
        assert seen.setdefault(got, values) == values or sorted(seen[got]) == sorted(values)
        assert got.rows == values.count("(")
    assert len(seen) == len(rows)


def test_the_cut_into_spans_does_not_matter_and_the_spans_tile_the_key_space(primary: Server, schema: str) -> None:
    make_orders(primary, schema, 700)
    with looking(primary, schema, "orders") as of:
        found = list(digests(of, target_s=0.001))
        assert len(found) > 2
        assert found[0][0].lo is None
        assert found[-1][0].hi is None
        assert all(a.hi == b.lo for (a, _), (b, _) in pairwise(found))
        parts = Digest(0, 0)
        for _, part in found:
            parts += part
        assert parts == checksum(of)
        assert parts.rows == 700


@pytest.mark.parametrize("others", [0, 1])
def test_a_row_that_cannot_be_hashed_is_an_error_and_never_passed_by(primary: Server, schema: str, others: int) -> None:
    rows = ", ".join(("(1, REPEAT('x', 15000))", "(2, 'y')")[: 1 + others])
    script(
        primary,
        f"CREATE TABLE long_rows (id INT PRIMARY KEY, a VARCHAR(15000)); INSERT INTO long_rows VALUES {rows}",
        schema,
    )
    script(primary, "SET GLOBAL max_allowed_packet = 8192")
    try:
        with pytest.raises(ConfigurationError):
            digest(primary, schema, "long_rows")
    finally:
        script(primary, "SET GLOBAL max_allowed_packet = DEFAULT")


def test_filling_changes_nothing_but_the_new_columns(primary: Server, schema: str) -> None:
    make_orders(primary, schema, 500)
    begin_rollout(primary)
    before, whole = digest(primary, schema, "orders", OLD), digest(primary, schema, "orders")
    FillDriver(site(primary, schema)).apply(fill(schema), ToldBeat())
    script(primary, "UPDATE orders SET state = 'failed', changed_at = changed_at WHERE id IN (3, 4)", schema)
    FillDriver(site(primary, schema)).apply(fill(schema, "sweep"), ToldBeat())
    assert digest(primary, schema, "orders", OLD) == before
    assert digest(primary, schema, "orders") != whole


@pytest.mark.parametrize(
    ("change", "key", "here", "there"),
    [
        ("DELETE FROM orders WHERE id = 250", 250, True, False),
        ("INSERT INTO orders (id, status) VALUES (9000, 'new')", 9000, False, True),
        ("UPDATE orders SET note = CONCAT(note, ' '), changed_at = changed_at WHERE id = 300", 300, True, True),
        ("UPDATE orders SET note = '', changed_at = changed_at WHERE id = 50", 50, True, True),
    ],
    ids=["missing", "too-many", "blank", "emptied"],
)
def test_a_row_that_a_replica_has_otherwise_is_found(
    pair: Pair, schema: str, change: str, key: int, here: bool, there: bool
) -> None:
    make_orders(pair.primary, schema, 300)
    script(pair.primary, "UPDATE orders SET note = NULL WHERE id = 50", schema)
    wait_caught_up(pair)
    script(pair.replica, f"SET SESSION sql_log_bin = 0; SET GLOBAL super_read_only = 0; {change};"
           " SET GLOBAL super_read_only = 1", schema)  # fmt: skip
    with looking(pair.primary, schema, "orders") as mine, looking(pair.replica, schema, "orders") as theirs:
        found = [
            (d.key, d.here, d.there)
            for span, known in digests(mine)
            for d in differing(mine, theirs, lambda: wait_caught_up(pair), span, known)
        ]
    assert found == [((key,), here, there)]


def test_a_rollout_that_went_all_the_way_back_left_every_byte_as_it_was(pair: Pair, tmp_path: Path) -> None:
    """ddl, backfill, mirror, sweep and rollback, without traffic: on the primary and on the replica."""
    with small(pair, tmp_path) as here:
        before = digest(pair.primary, here.schema, "orders")
        here.write(("rollback: {quiet: 200ms}", "rollback: {ddl: drop, quiet: 200ms}"))
        here.terminal.run("run", "--until", "shadow-write", "-y")
        assert digest(pair.primary, here.schema, "orders") != before
        assert digest(pair.primary, here.schema, "orders", ("id", "status", "note")) == before
        here.terminal.run("rollback", "-y")
        assert digest(pair.primary, here.schema, "orders") == before
        wait_caught_up(pair)
        assert digest(pair.replica, here.schema, "orders") == before
