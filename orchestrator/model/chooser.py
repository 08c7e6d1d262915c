"""The cheapest safe way of every clause of an ALTER, and how wanted clauses are split into statements. Pure.

Without an ALGORITHM the server falls back in silence to a rebuild or a copy, and one ALTER runs with the worst of its
clauses. So every way is decided here, from the clause, the live table and the server's version, and named in the
statement; when this is wrong, the server refuses the statement and nothing happened. Source: every rule was measured
on MySQL 9.7.4 and is compared with the server by ``tests/conformance/test_chooser.py``; what is said of older versions
comes from their manuals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.model.clauses import (
    ChangedColumn,
    CheckClause,
    Clause,
    GoneColumn,
    GoneForeignKey,
    NewColumn,
    NewDefault,
    NewForeignKey,
    NewIndex,
    OtherIndex,
    RenamedColumn,
    TableClause,
)
from orchestrator.model.contract import Column
from orchestrator.model.facts import RowVersions, Shape
from orchestrator.model.types import ColumnType, Family
from orchestrator.model.way import Way

# One length byte up to here, two beyond: a VARCHAR is extended in place only on one side of this line.
_ONE_BYTE = 255
_BYTES_PER_CHARACTER = {"utf8mb3": 3, "latin1": 1, "ascii": 1, "binary": 1, "ucs2": 2}
_NOW = re.compile(r"\(?\s*(current_timestamp|now|localtime|localtimestamp)\s*(\(\s*\d?\s*\))?\s*\)?", re.IGNORECASE)
# INSTANT columns of these two lose or corrupt rows; their successor repaired it.
_BROKEN_INSTANT = ((8, 0, 29), (8, 0, 30))
_ANYWHERE_SINCE = (8, 0, 29)
# From here on the usual tools that copy a server's files know tables with row versions. Source: the notes on row
# versions of such a tool's manual.
_COPIED_AS_FILES_SINCE = (8, 0, 32)
_NO_FILE_COPY = "before 8.0.32 some tools that back up a server's files refuse a table with row versions"
_IN_PLACE = "INSTANT is not offered for it; built beside the traffic"


class Ground(Struct, frozen=True):
    """What the ways depend on. ``versions`` None: this account cannot see them, and they are taken to be enough."""

    shape: Shape
    version: tuple[int, int, int]
    versions: RowVersions | None = None

    @property
    def has_fulltext(self) -> bool:
        return any(i.kind.upper() == "FULLTEXT" for i in self.shape.indexes)

    @property
    def is_compressed(self) -> bool:
        return self.shape.row_format.upper() == "COMPRESSED"


class Statement(Struct, frozen=True):
    """One ALTER: its clauses, and the way that all of them have together."""

    clauses: tuple[Clause, ...]
    way: Way


def choose(clauses: Sequence[Clause], ground: Ground) -> tuple[Statement, ...]:
    """The statements in the order in which they run: all instant columns in one, then one for each other clause.

    A nullable column with a default expression becomes two INSTANT clauses, the column and then its default: together
    they would copy the table, to fill rows that exist with a value that nobody asked for.
    """
    split = [part for clause in clauses for part in _parts(clause)]
    ways = [(clause, way_of(clause, ground)) for clause in split]
    together = [(c, w) for c, w in ways if isinstance(c, NewColumn | NewDefault) and w.algorithm == "INSTANT"]
    columns = [(c, w) for c, w in together if isinstance(c, NewColumn)]
    defaults = [(c, w) for c, w in together if isinstance(c, NewDefault)]
    rest = [(c, w) for c, w in ways if (c, w) not in together]
    first = (Statement(tuple(c for c, _ in columns), _worst([w for _, w in columns])),) if columns else ()
    return (*first, *(Statement((c,), w) for c, w in (*defaults, *rest)))


def needs_a_second_step(column: Column) -> bool:
    """Whether the column's default is set after the column was added: a nullable one with an expression."""
    return column.null and column.generated is None and _computed(column)


def _parts(clause: Clause) -> tuple[Clause, ...]:
    if isinstance(clause, NewColumn) and needs_a_second_step(clause.column) and not clause.checked:
        return replace(clause, column=replace(clause.column, default=None)), NewDefault(clause.column.name)
    return (clause,)


def _worst(ways: Sequence[Way]) -> Way:
    """INSTANT clauses together use one row version in all."""
    return next((w for w in ways if w.row_version), ways[0])


def way_of(clause: Clause, ground: Ground) -> Way:
    """The cheapest way that the server has for the clause alone. COPY is what is left, with the reason."""
    match clause:
        case NewColumn():
            return _new_column(clause, ground)
        case GoneColumn():
            return _gone_column(clause, ground)
        case RenamedColumn(name=name):
            return _renamed(name, ground)
        case ChangedColumn():
            return _changed(clause, ground)
        case NewDefault():
            return Way("INSTANT", reason="only the definition changes; rows that exist keep what they hold")
        case NewIndex(index=index):
            return _new_index(clause, ground) if index.kind.upper() != "FULLTEXT" else _fulltext(ground)
        case OtherIndex():
            return Way("INPLACE", "NONE", "only the definition changes")
        case NewForeignKey(checked=True):
            return Way("COPY", "SHARED", "with foreign_key_checks on, the key is added by a copy")
        case NewForeignKey():
            return Way("INPLACE", "NONE", "with foreign_key_checks off it is only declared; the proof comes after it")
        case GoneForeignKey():
            return Way("INPLACE", "NONE", "only the definition changes")
        case CheckClause():
            return _check(clause)
        case TableClause():
            return _table(clause)
        case _:
            assert_never(clause)


def _new_column(clause: NewColumn, ground: Ground) -> Way:
    column = clause.column
    if column.auto_increment:
        return Way("INPLACE", "SHARED", "AUTO_INCREMENT numbers every row, and writes wait", rebuilds=True)
    if clause.checked:
        return Way("COPY", "SHARED", "an enforced CHECK is proven on every row by a copy")
    if column.generated is not None and column.stored:
        return Way("COPY", "SHARED", "a STORED column is computed for every row; a VIRTUAL one would be INSTANT")
    if _computed(column):
        return Way("COPY", "SHARED", "a default expression is computed for every row that exists")
    if column.generated is not None:
        return Way("INSTANT", reason="a VIRTUAL column is only a definition")
    if ground.has_fulltext:
        return Way("COPY", "SHARED", "a table with a FULLTEXT index takes columns by a copy only")
    return _versioned(column.after, ground, "only the definition changes; rows that exist stay as they are")


def _versioned(after: str, ground: Ground, reason: str) -> Way:
    """INSTANT with a row version, or the rebuild that is left where that cannot be had."""
    if ground.is_compressed:
        return _rebuild("ROW_FORMAT=COMPRESSED has no row versions")
    if ground.version in _BROKEN_INSTANT:
        shown = ".".join(map(str, ground.version))
        return _rebuild(f"INSTANT columns of {shown} damage rows; use a server from 8.0.31 on")
    if ground.version < _ANYWHERE_SINCE:
        return _rebuild("before 8.0.29 INSTANT only appends") if after else Way("INSTANT", reason=reason)
    if ground.versions is not None and ground.versions.used >= ground.versions.limit:
        return _rebuild(f"all {ground.versions.limit} row versions are used (the server would say 4092)")
    if ground.version < _COPIED_AS_FILES_SINCE:
        reason = f"{reason}; {_NO_FILE_COPY}: try yours on a copy, or rebuild the table (FORCE) before it runs"
    return Way("INSTANT", reason=reason, row_version=True)


def _rebuild(reason: str) -> Way:
    return Way("INPLACE", "NONE", reason, rebuilds=True)


def _gone_column(clause: GoneColumn, ground: Ground) -> Way:
    live = ground.shape.column(clause.name)
    if ground.has_fulltext:
        return Way("COPY", "SHARED", "a table with a FULLTEXT index loses columns by a copy only")
    if any(clause.name.lower() == c.lower() for i in ground.shape.indexes for c in i.columns):
        return _rebuild("an index holds the column: drop the index first, then it is INSTANT")
    if live is not None and live.generated is not None and not live.stored:
        return Way("INSTANT", reason="a VIRTUAL column is only a definition")
    if ground.version < _ANYWHERE_SINCE:
        return _rebuild("before 8.0.29 a column is dropped by a rebuild")
    return _versioned("", ground, "only the definition changes; rows that exist stay as they are")


def _renamed(name: str, ground: Ground) -> Way:
    referenced = {c.lower() for _, key in ground.shape.referenced_by for c in key.referenced_columns}
    if name.lower() in referenced:
        return Way("INPLACE", "NONE", "a foreign key refers to the column")
    return Way("INSTANT", reason="only the definition changes")


def _changed(clause: ChangedColumn, ground: Ground) -> Way:
    before, after = clause.before, clause.after
    way = _retyped(before, after, ground)
    if way.copies:
        return way
    if clause.moved or before.null != after.null:
        return _rebuild("NULL and the place of a column are part of every row")
    return way


def _retyped(before: Column, after: Column, ground: Ground) -> Way:
    old, new = before.type, after.type
    if (before.charset, before.collation) != (after.charset, after.collation) and after.collation is not None:
        return _recollated(before, after, ground)
    if old == new:
        return Way("INSTANT", reason="only the definition changes")
    if old.base == new.base and old.family in (Family.ENUM, Family.SET):
        appended = new.labels[: len(old.labels)] == old.labels and label_bytes(old) == label_bytes(new)
        if appended:
            return Way("INSTANT", reason="labels at the end change no row")
    if old.base == new.base and old.base in ("varchar", "varbinary") and (new.length or 0) > (old.length or 0):
        if _same_side(before, after, ground.shape.charset):
            return Way("INPLACE", "NONE", "a longer VARCHAR on the same side of 255 bytes changes no row")
        return Way("COPY", "SHARED", "over 255 bytes the length of every value is stored in two bytes")
    return Way("COPY", "SHARED", "another type is another form of every row")


def _recollated(before: Column, after: Column, ground: Ground) -> Way:
    same_bytes = before.charset == after.charset or (before.charset, after.charset) == ("utf8mb3", "utf8mb4")
    indexed = any(before.name.lower() == c.lower() for i in ground.shape.indexes for c in i.columns)
    if before.type == after.type and same_bytes and not indexed:
        return Way("INPLACE", "NONE", "no index orders by it, and its bytes stay")
    return Way("COPY", "SHARED", "its bytes or the order of an index change")


def label_bytes(of: ColumnType) -> int:
    """Bytes that one value of an ENUM or SET takes in a row."""
    count = len(of.labels)
    if of.family is Family.ENUM:
        return 1 if count <= _ONE_BYTE else 2
    return next(size for size in (1, 2, 3, 4, 8) if count <= size * 8)


def _same_side(before: Column, after: Column, charset: str) -> bool:
    width = 1 if before.type.base == "varbinary" else _BYTES_PER_CHARACTER.get(before.charset or charset, 4)
    longest = [(c.type.length or 0) * width for c in (before, after)]
    return (longest[0] <= _ONE_BYTE) == (longest[1] <= _ONE_BYTE)


def _new_index(clause: NewIndex, ground: Ground) -> Way:
    if any(p.expression is not None for p in clause.index.parts):
        return Way("INPLACE", "SHARED", "a functional index adds a hidden column, and writes wait for the build")
    if clause.index.kind.upper() == "SPATIAL":
        return Way("INPLACE", "SHARED", "a SPATIAL index cannot be built beside writes")
    return Way("INPLACE", "NONE", _IN_PLACE)


def _fulltext(ground: Ground) -> Way:
    """The first one gives every row a hidden id."""
    reason = "a FULLTEXT index cannot be built beside writes"
    return Way("INPLACE", "SHARED", reason, rebuilds=not ground.has_fulltext)


def _check(clause: CheckClause) -> Way:
    if clause.what in ("add", "enforce"):
        return Way("COPY", "SHARED", "an enforced CHECK is proven on every row by a copy")
    return Way("INSTANT", reason="only the definition changes")


def _table(clause: TableClause) -> Way:
    match clause.what:
        case "comment" | "default charset":
            return Way("INPLACE", "NONE", "only the definition changes")
        case "convert charset":
            return Way("COPY", "SHARED", "the bytes of every text change")
        case "primary key" | "force":
            return _rebuild("the table is written again in the order of its key")


def _computed(column: Column) -> bool:
    default = column.default
    return default is not None and default.is_expression and not _NOW.fullmatch(default.text.strip())


def widens(before: Column, after: Column) -> bool:
    """Whether every value of ``before`` fits ``after`` unchanged and compares as it did."""
    old, new = before.type, after.type
    if after.null != before.null and not after.null:
        return False
    if (after.charset or before.charset) != before.charset or (after.collation or before.collation) != before.collation:
        return False
    if old.family is not new.family:
        return False
    if old.family in (Family.ENUM, Family.SET):
        return old.base == new.base and new.labels[: len(old.labels)] == old.labels
    return _wider(old, new)


_TEXT_ORDER = ("tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob")


def _wider(old: ColumnType, new: ColumnType) -> bool:
    if old.family is Family.INTEGER:
        return new.integer_range[0] <= old.integer_range[0] and old.integer_range[1] <= new.integer_range[1]
    if old.family is Family.DECIMAL:
        whole = ((new.length or 0) - (new.scale or 0)) >= ((old.length or 0) - (old.scale or 0))
        return whole and (new.scale or 0) >= (old.scale or 0) and old.unsigned == new.unsigned
    if old.base == new.base and old.base in ("varchar", "varbinary", "datetime", "timestamp", "time", "bit"):
        return (new.length or 0) >= (old.length or 0)
    if old.base in _TEXT_ORDER and new.base in _TEXT_ORDER:
        return (new.byte_limit or 0) >= (old.byte_limit or 0)
    return old == new
