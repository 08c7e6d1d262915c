"""Where a starting runbook comes from: a live table, DDL or Prisma schemas, and what is seen beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.app.drift import missing_table, session_for
from orchestrator.app.stated import file_tables, read_sources
from orchestrator.contract.target import Target, Unsaid
from orchestrator.errors import RunbookError
from orchestrator.model.contract import Before, Column, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.shape_diff import column_reasons
from orchestrator.model.types import Family
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.look.spoken import read_spoken
from orchestrator.mysql.look.statuses import read_live_values
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.runbook.begin import Beginning
from orchestrator.settings import ServerSettings

# A column with more values than this is no status.
_FEW = 20


class Files(Struct, frozen=True):
    """The files that say how the table stands before, and how it shall stand; None: the server, or nobody."""

    before: Path | None
    after: Path | None
    kind: str


def begin(table: TableName, files: Files, settings: ServerSettings | None) -> Beginning:
    """Everything that can be seen of the table. ``settings`` where no file says how it stands. Raises RolloutError."""
    values: dict[str, Sequence[tuple[str | None, int]]] = {}
    statements: tuple[str, ...] = ()
    if files.before is not None:
        target = _of_file(table, files.before, files.kind)
        shape, unsaid = target.shape, target.unsaid
    else:
        assert settings is not None
        with session_for(settings, f"init of {table}") as session:
            found = read_shape(session, table)
            if found is None:
                raise missing_table(session, table)
            shape, unsaid = found, frozenset[Unsaid]()
            values, statements = _values(session, shape), _spoken(session, table)
    after = _of_file(table, files.after, files.kind).shape if files.after is not None else None
    return _beginning(shape, after, unsaid, values, statements)


def _of_file(table: TableName, path: Path, kind: str) -> Target:
    tables = file_tables(read_sources(path, kind), kind, table.schema)
    for target in tables:
        if target.shape.table.name == table.name:
            return target
    names = ", ".join(t.shape.table.name for t in tables[:20])
    raise RunbookError(f"{path}: there is no table {table.name}", f"one of {names}", "name the table as it is stored")


def _values(session: Session, shape: Shape) -> dict[str, Sequence[tuple[str | None, int]]]:
    found: dict[str, Sequence[tuple[str | None, int]]] = {}
    for column in shape.columns:
        text = column.type.family is Family.TEXT and (column.type.length or 999) <= 64
        if column.type.family is Family.ENUM or text:
            values, _ = read_live_values(session, shape.table, column)
            if 0 < len(values) <= _FEW and sum(rows for _, rows in values) > len(values):
                found[column.name.lower()] = values
    return found


def _spoken(session: Session, table: TableName) -> tuple[str, ...]:
    """Without the right to look there are none; the runbook has a mark there in any case."""
    try:
        return read_spoken(session, table).statements
    except ServerError as error:
        if not error.is_privilege:
            raise
        return ()


def _beginning(
    shape: Shape,
    after: Shape | None,
    unsaid: frozenset[Unsaid],
    values: dict[str, Sequence[tuple[str | None, int]]],
    statements: tuple[str, ...],
) -> Beginning:
    collation = "" if Unsaid.COLLATION in unsaid else shape.collation
    before = Before(
        columns=tuple(_plain(c, collation) for c in shape.columns),
        indexes=shape.indexes,
        foreign_keys=shape.foreign_keys,
        collation=collation,
        children=tuple((t, f) for t, f in shape.referenced_by if t != shape.table),
    )
    if after is None:
        return Beginning(shape.table, before, values=values, statements=statements)
    return Beginning(
        table=shape.table,
        before=before,
        columns=tuple(_plain(c, collation) for c in after.columns if shape.column(c.name) is None),
        changes=tuple(_plain(c, collation) for c in after.columns if _changed(c, shape, after)),
        indexes=tuple(i for i in after.indexes if shape.index(i.name) is None),
        foreign_keys=tuple(f for f in after.foreign_keys if shape.foreign_key(f.name) is None),
        gone=(
            *(f"the column {c.name}" for c in shape.columns if after.column(c.name) is None),
            *(f"the index {i.name}" for i in shape.indexes if after.index(i.name) is None),
            *(f"the foreign key {f.name}" for f in shape.foreign_keys if after.foreign_key(f.name) is None),
        ),
        values=values,
        statements=statements,
    )


def _plain(column: Column, collation: str) -> Column:
    """A collation is the runbook's business only where it is not the table's."""
    if column.collation is None or column.collation != collation:
        return column
    return replace(column, charset=None, collation=None)


def _changed(column: Column, shape: Shape, after: Shape) -> bool:
    old = shape.column(column.name)
    return old is not None and bool(column_reasons(old, column, after))
