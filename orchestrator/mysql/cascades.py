"""What new foreign keys do to statements that pass today, tried on rows of the scratch copies.

A key of the contract may refuse by its own rule: deleting a row that it restricts, or adding a child without a parent,
is what it is for. But it may also refuse statements on other tables: where a parent's CASCADE reaches the table, a
self-reference makes deleting that parent fail for a chain of four rows (6575, 9.x), a RESTRICT stops the cascade
(1451), and ON UPDATE CASCADE to itself stops every change of the key. So the same statements run before and
after the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.model.contract import Column, ForeignKey, TableName
from orchestrator.model.facts import Shape
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.family_copy import FamilyCopy
from orchestrator.mysql.pinned import SQL_MODE
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import family_copy as sql

_CHAIN = 4
_LENIENT = "NO_ENGINE_SUBSTITUTION"
Shapes = dict[TableName, Shape]
_NOBODY = TableName("", "")
CASCADE_LIMIT = 6575


class Effect(Struct, frozen=True):
    """A statement that passed without the new keys and fails with them. ``number``: the server's."""

    what: str
    number: int
    text: str


class Tried(Struct, frozen=True):
    """``number`` 0: passed. ``of``: the table that the statement is about."""

    what: str
    of: TableName
    number: int
    text: str = ""


def try_keys(
    session: Session, here: FamilyCopy, table: TableName, keys: Sequence[ForeignKey], shapes: Shapes
) -> list[Tried]:
    """How each statement fares on a chain of four rows under one row of every parent. Leaves no row.

    ``keys``: new ones that the rows shall use; ``shapes``: see ``expanded``. Raises ServerError when rows cannot be
    made.
    """
    # Columns that have no default get one from the server then, whatever their type is.
    session.pin("sql_mode", _LENIENT)
    try:
        rows = list(chain_rows(here, table, keys, shapes))
        return [_tried(session, rows, *statement) for statement in _statements(here, table, keys, shapes)]
    finally:
        session.pin("sql_mode", SQL_MODE)


def describe_keys(here: FamilyCopy, table: TableName, keys: Sequence[ForeignKey], shapes: Shapes) -> list[str]:
    """The statements of ``try_keys``; it sends the rows anew before each of the others, and takes all back."""
    tried = (statement for _, _, statement in _statements(here, table, keys, shapes))
    return [*chain_rows(here, table, keys, shapes), *tried]


def expanded(here: FamilyCopy, table: TableName, columns: Sequence[Column]) -> Shapes:
    """The shapes of the copies, by the tables of production, with the new columns on the rollout's own."""
    own = here.shapes[table]
    return here.shapes | {table: replace(own, columns=(*own.columns, *columns))}


def effects(before: Sequence[Tried], after: Sequence[Tried], keys: Sequence[ForeignKey]) -> tuple[Effect, ...]:
    """What fails only with the keys, but for what a key refuses by its own rule on the table that it refers to."""
    passed = {t.what for t in before if t.number == 0}
    by_rule = {k.references for k in keys if k.on_delete in ("RESTRICT", "NO ACTION")}
    by_update = {k.references for k in keys if k.on_update in ("RESTRICT", "NO ACTION")}
    found = []
    for tried in after:
        ruled = by_rule if tried.what.startswith("DELETE") else by_update
        if tried.number and tried.what in passed and (tried.of not in ruled or tried.number == CASCADE_LIMIT):
            found.append(Effect(tried.what, tried.number, tried.text))
    return tuple(found)


def _tried(session: Session, rows: Sequence[str], what: str, of: TableName, statement: str) -> Tried:
    session.execute("START TRANSACTION")
    try:
        for row in rows:
            session.execute(row)
        try:
            session.execute(statement)
        except ServerError as error:
            return Tried(what, of, error.number, error.text)
        return Tried(what, of, 0)
    finally:
        session.execute("ROLLBACK")


def _statements(
    here: FamilyCopy, table: TableName, keys: Sequence[ForeignKey], shapes: Shapes
) -> Iterator[tuple[str, TableName, str]]:
    """Of every table that the new rows hang on, and of the table itself: its first row goes, and changes its key. And a
    row comes that names no new column, as the old application writes it."""
    row = needed_values(here, table, shapes, _CHAIN + 2)
    yield "INSERT of a row that names no new column", _NOBODY, sql.insert_row(here.of(table), row, here.tag)
    for of in _involved(table, keys, shapes):
        shape = shapes[of]
        column = next((c for c in shape.columns if c.name in shape.key), None)
        if column is None:
            continue
        where = {c.name: sql.sample(c, 1) for c in shape.columns if c.name in shape.key}
        chain = f" with a chain of {_CHAIN} rows of {table.name} under it" if of != table else f", first of {_CHAIN}"
        yield f"DELETE of a row of {of.name}{chain}", of, sql.delete_row(here.of(of), where, here.tag)
        changed = sql.change_key(here.of(of), column.name, sql.sample(column, _CHAIN + 5), where, here.tag)
        yield f"UPDATE of the key of a row of {of.name}{chain}", of, changed


def _involved(table: TableName, keys: Sequence[ForeignKey], shapes: Shapes) -> list[TableName]:
    own = [f.references for f in shapes[table].foreign_keys]
    back = {shape.table: name for name, shape in shapes.items()}
    parents = [back[p] for p in own if p in back] + [k.references for k in keys if k.references in shapes]
    return [table, *dict.fromkeys(p for p in parents if p != table)]


def chain_rows(here: FamilyCopy, table: TableName, keys: Sequence[ForeignKey], shapes: Shapes) -> Iterator[str]:
    """One row of each parent, then the chain: each row names the parents' row and the row before it."""
    for parent in _involved(table, keys, shapes)[1:]:
        yield sql.insert_row(here.of(parent), _values(shapes[parent], 1, {}), here.tag)
    shape = shapes[table]
    live = tuple(f for f in shape.foreign_keys)
    for number in range(1, _CHAIN + 1):
        named: dict[str, str] = {}
        for key in (*keys, *live):
            self_reference = key.references in (table, here.of(table))
            if self_reference and number == 1:
                continue
            named |= _pointing(key, shapes, here, number - 1 if self_reference else 1)
        yield sql.insert_row(here.of(table), _values(shape, number, named), here.tag)


def _pointing(key: ForeignKey, shapes: Shapes, here: FamilyCopy, at: int) -> dict[str, str]:
    """Columns of the child, with what the ``at``-th row of the parent holds."""
    back = {copy: name for name, copy in here.copies.items()}
    parent = shapes.get(back.get(key.references, key.references))
    if parent is None:
        return {}
    values = _values(parent, at, {})
    pairs = zip(key.columns, key.referenced_columns, strict=True)
    return {child: values[referenced] for child, referenced in pairs if referenced in values}


def held_values(here: FamilyCopy, table: TableName, keys: Sequence[ForeignKey], shapes: Shapes) -> dict[str, str]:
    """Columns of the table, in lower case, that must name a row of another: the literal of its first row."""
    found: dict[str, str] = {}
    for key in (*shapes[table].foreign_keys, *keys):
        found |= {c.lower(): v for c, v in _pointing(key, shapes, here, 1).items()}
    return found


def parent_row(here: FamilyCopy, parent: TableName, shapes: Shapes) -> str:
    """The row of a parent that ``held_values`` names."""
    return sql.insert_row(here.of(parent), _values(shapes[parent], 1, {}), here.tag)


def needed_values(here: FamilyCopy, table: TableName, shapes: Shapes, number: int) -> dict[str, str]:
    """Column → literal of one more row, as the application of before wrote it: what it must name, and its parents."""
    row = _values(here.shapes[table], number, {})
    for key in here.shapes[table].foreign_keys:
        if key.references != table:
            row |= _pointing(key, shapes, here, 1)
    return row


def _values(shape: Shape, number: int, named: dict[str, str]) -> dict[str, str]:
    """What a row needs: its keys and unique columns, what has no default, and what is ``named``."""
    unique = {c.lower() for i in shape.indexes if i.unique for c in i.columns}
    needed = [
        c
        for c in shape.columns
        if c.generated is None and (c.name.lower() in unique or (not c.null and c.default is None))
    ]
    return {c.name: sql.sample(c, number) for c in needed if c.name not in named} | named
