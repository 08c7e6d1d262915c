"""By what a statement looks up its rows is read from its own words, and no index is said to serve what it does not."""

from __future__ import annotations

import pytest

from orchestrator.model.contract import Index, IndexPart
from orchestrator.mysql.lookups import Lookup, lookup_of, serving


def index(name: str, *columns: str, unique: bool = False, visible: bool = True) -> Index:
    return Index(name, tuple(IndexPart(c) for c in columns), unique=unique, visible=visible)


PRIMARY = index("PRIMARY", "id", unique=True)
BY_STATE = index("by_state", "state", "made")
BY_QUEUE = index("by_queue", "queue", "state", "made")
ONCE = index("once", "tenant", "wanted", unique=True)
BY_TENANT = index("by_tenant", "tenant", "made")
ALL = (PRIMARY, BY_STATE, BY_QUEUE, ONCE, BY_TENANT)


@pytest.mark.parametrize(
    ("sql", "equal", "ranged", "ordered"),
    [
        ("SELECT a FROM t WHERE b = ? AND `C` <=> 1 ORDER BY d DESC, e LIMIT 1", "bc", "", "de"),
        ("UPDATE t SET a = 1 WHERE b IN (1, 2) AND c > 3 LIMIT 5", "b", "c", ""),
        ("DELETE FROM t WHERE b BETWEEN 1 AND 2 AND c = 1", "c", "b", ""),
        ("SELECT a FROM t WHERE b = 1 OR c = 2", "", "", ""),
        ("SELECT a FROM t WHERE (b = 1 OR c = 2) AND d = 3", "d", "", ""),
        ("SELECT a FROM t WHERE x.b = 1 AND c IS NULL AND d IS NOT NULL AND NOT e = 1", "bc", "", ""),
        ("SELECT a FROM t WHERE b IN (SELECT c FROM u WHERE d = 1) FOR UPDATE", "b", "", ""),
        ("SELECT a, COUNT(*) FROM t GROUP BY a", "", "", ""),
        ("SELECT a FROM t WHERE f(b) = 1 AND 1 = c", "", "", ""),
        ("SELECT 'WHERE b = 1' FROM t /* WHERE c = 1 */", "", "", ""),
        ("SELECT a FROM t WHERE b = 'never ends", "", "", ""),
    ],
)
def test_what_holds_the_rows_is_read(sql: str, equal: str, ranged: str, ordered: str) -> None:
    assert lookup_of(sql) == Lookup(frozenset(equal), frozenset(ranged), tuple(ordered))


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT 1 FROM t WHERE id = ? AND state = 'x'", "PRIMARY"),
        ("SELECT 1 FROM t WHERE state = ? AND queue = ? ORDER BY made", "by_queue"),
        ("SELECT 1 FROM t WHERE queue = ? AND state = ? AND id = ?", "PRIMARY"),
        ("SELECT 1 FROM t WHERE tenant = ? ORDER BY made DESC LIMIT 1", "by_tenant"),
        ("SELECT 1 FROM t WHERE state = ? AND made < ?", "by_state"),
        ("SELECT 1 FROM t WHERE made < ?", None),
        ("SELECT 1 FROM t WHERE tenant = ? AND wanted = ? AND state = ?", "once"),
        ("SELECT 1 FROM t WHERE tenant > ?", "once"),
        ("SELECT 1 FROM t", None),
    ],
)
def test_an_index_serves_what_its_leading_columns_hold(sql: str, name: str | None) -> None:
    found = serving(lookup_of(sql), ALL)
    assert (found.name if found is not None else None) == name


def test_an_index_that_nobody_sees_serves_nothing() -> None:
    assert serving(lookup_of("SELECT 1 FROM t WHERE a = 1"), (index("hidden", "a", visible=False),)) is None
