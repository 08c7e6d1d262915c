"""The SQL that meets rows of the application's table: where a batch ends, what is in it, which of its rows are wrong.

Each statement is one range read of the walking key (the index is named, so that statistics never choose another one).
What the relation between old and new columns is, these texts do not know: they take conditions that are 0 or 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from orchestrator.model.contract import TableName
from orchestrator.model.facts import Shape
from orchestrator.model.keys import Key
from orchestrator.mysql import quote
from orchestrator.mysql.session import Row
from orchestrator.mysql.sql.bounds import KeySpace, Span, among, order, selected, within

ALIAS = "t"
INNER = "s"


def ref(column: str) -> str:
    """A column of the row that is looked at."""
    return f"{ALIAS}.{quote.name(column)}"


def inner_ref(column: str) -> str:
    """A column of the row that is being locked, inside the batch's UPDATE."""
    return f"{INNER}.{quote.name(column)}"


def bytes_of(column: str) -> str:
    """How many bytes a column's value has as text or bytes; NULL for NULL."""
    return f"LENGTH({ref(column)})"


def source(space: KeySpace, alias: str = ALIAS) -> str:
    """The table, walked by its key."""
    return f"{quote.table(space.table)} AS {alias} FORCE INDEX ({quote.name(space.index)})"


class Stretch(Struct, frozen=True):
    """One span of keys that was read: its rows, and how many of them each counted condition holds for.

    ``keys``: those for which the first condition holds, where they were asked for."""

    span: Span
    rows: int
    counts: tuple[int, ...]
    writable: bool
    server_uuid: str
    keys: tuple[Key, ...] | None = None


def last_key(space: KeySpace) -> str:
    """The last key in the order of the walk; no row when the table is empty."""
    parts = ", ".join(selected(space, ref))
    return f"SELECT {parts} FROM {source(space)} ORDER BY {order(space, ref, backwards=True)} LIMIT 1"


def estimate(space: KeySpace) -> str:
    """The optimiser's row count, for ``estimate_of``: costs nothing and needs no more than SELECT."""
    return f"EXPLAIN FORMAT=TRADITIONAL SELECT {', '.join(selected(space, ref))} FROM {source(space)}"


def estimate_of(rows: Sequence[Row]) -> int:
    return int(rows[0][9] or 0) if rows else 0


def nth_key(space: KeySpace, span: Span, rows: int, tag: str = "") -> str:
    """The key of the ``rows``-th row of ``span``, from the index alone; no row when there are fewer."""
    return (
        f"SELECT {_tagged(tag)}{', '.join(selected(space, ref))} FROM {source(space)}"
        f" WHERE {within(space, span, ref)} ORDER BY {order(space, ref)} LIMIT 1 OFFSET {rows - 1}"
    )


def counts(space: KeySpace, span: Span, counted: Sequence[str], tag: str = "") -> str:
    """The rows of ``span``, how many of them each condition holds for, and what the server is; for ``stretch_of``."""
    sums = "".join(f", COALESCE(SUM({condition}), 0)" for condition in counted)
    return (
        f"SELECT {_tagged(tag)}COUNT(*){sums}, @@GLOBAL.read_only, @@GLOBAL.server_uuid FROM {source(space)}"
        f" WHERE {within(space, span, ref)}"
    )


# What the server is, for whoever reads rows without counting them.
ROLE = "SELECT @@GLOBAL.read_only, @@GLOBAL.server_uuid"


def stretch_of(span: Span, row: Row) -> Stretch:
    """What ``counts`` gave."""
    rows, *found, read_only, uuid = row
    return Stretch(span, int(rows), tuple(int(c) for c in found), not read_only, str(uuid))


def grouped(space: KeySpace, span: Span, condition: str, classes: Sequence[str], tag: str = "") -> str:
    """Rows of ``span`` that meet ``condition``, counted by the combination of their classes (count last)."""
    parts = ", ".join(f"{sql} AS c{n}" for n, sql in enumerate(classes))
    names = ", ".join(f"d.c{n}" for n in range(len(classes)))
    return (
        f"SELECT {_tagged(tag)}{names}, COUNT(*) FROM (SELECT {parts} FROM {source(space)}"
        f" WHERE {within(space, span, ref)} AND ({condition})) AS d GROUP BY {names}"
    )


def listed(space: KeySpace, span: Span, condition: str, classes: Sequence[str], limit_rows: int, tag: str = "") -> str:
    """The first ``limit_rows`` keys of ``span`` that meet ``condition``, each with its classes (keys first)."""
    parts = ", ".join([*selected(space, ref), *classes])
    return (
        f"SELECT {_tagged(tag)}{parts} FROM {source(space)} WHERE {within(space, span, ref)} AND ({condition})"
        f" ORDER BY {order(space, ref)} LIMIT {limit_rows}"
    )


def looked_at(space: KeySpace, keys: Sequence[Key], conditions: Sequence[str], *, lock: bool, tag: str = "") -> str:
    """The rows of ``keys`` as they are now, keys first. ``lock``: only those that nobody is writing at this moment.

    A row in flight is left out rather than waited for, so that a look never makes the application wait behind us.
    """
    parts = ", ".join([*selected(space, ref), *conditions])
    share = " FOR SHARE SKIP LOCKED" if lock else ""
    return f"SELECT {_tagged(tag)}{parts} FROM {source(space)} WHERE {among(space, keys, ref)}{share}"


def before_last(space: KeySpace, rows: int) -> str:
    """The key behind which the last ``rows`` rows are; no row when the table has no more than these."""
    parts = ", ".join(selected(space, ref))
    return f"SELECT {parts} FROM {source(space)} ORDER BY {order(space, ref, backwards=True)} LIMIT 1 OFFSET {rows}"


def recent(space: KeySpace, index: str, column: str, rows: int, tail: Span) -> str:
    """The keys of the ``rows`` rows with the greatest ``column`` outside of ``tail``, from the end of ``index``."""
    table = f"{quote.table(space.table)} AS {ALIAS} FORCE INDEX ({quote.name(index)})"
    return (
        f"SELECT /*+ NO_SKIP_SCAN({ALIAS}) */ {', '.join(selected(space, ref))} FROM {table}"
        f" WHERE NOT ({within(space, tail, ref)})"
        f" ORDER BY {ref(column)} DESC LIMIT {rows}"
    )


def row_lockers(table: TableName) -> str:
    """Sessions with record locks of the table: id, user, host, seconds in transaction. Needs performance_schema."""
    return (
        "SELECT p.ID, p.USER, p.HOST, ROUND(MAX(x.TIMER_WAIT) / 1e12)"
        " FROM (SELECT DISTINCT THREAD_ID FROM performance_schema.data_locks"
        f" WHERE OBJECT_SCHEMA = {quote.text(table.schema)} AND OBJECT_NAME = {quote.text(table.name)}"
        " AND LOCK_TYPE = 'RECORD' AND LOCK_STATUS = 'GRANTED') AS l"
        " JOIN performance_schema.threads AS h ON h.THREAD_ID = l.THREAD_ID"
        " JOIN performance_schema.processlist AS p ON p.ID = h.PROCESSLIST_ID"
        " LEFT JOIN performance_schema.events_transactions_current AS x ON x.THREAD_ID = l.THREAD_ID"
        " AND x.STATE = 'ACTIVE'"
        " WHERE p.ID <> CONNECTION_ID() GROUP BY p.ID, p.USER, p.HOST ORDER BY 4 DESC LIMIT 5"
    )


def count_all(shape: Shape, tag: str = "") -> str:
    """The plain count, by whatever index the server finds cheapest."""
    return f"SELECT {_tagged(tag)}COUNT(*) FROM {quote.table(shape.table)}"


def kill_query(process_id: int) -> str:
    """Ends what a session of ours runs, not the session."""
    return f"KILL QUERY {process_id}"


def _tagged(tag: str) -> str:
    return f"{tag} " if tag else ""
