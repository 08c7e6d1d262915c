"""Reads one table as it is, in one round trip, in the form that a contract can be compared with.

Needs SELECT on the table. What an account without more cannot see (triggers, children in schemas that it may not read)
is silently absent from information_schema; ``look.privileges`` says so, this room cannot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from msgspec import Struct

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column, Default, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.facts import Shape, Trigger
from orchestrator.model.shape_digest import shape_digest
from orchestrator.model.types import parse_type
from orchestrator.model.walking_key import choose_key
from orchestrator.mysql import quote
from orchestrator.mysql.quote import text
from orchestrator.mysql.session import Row, Session

__all__ = ["definition", "read_shape", "read_triggers", "shape_digest", "shape_statements"]
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_COUNTER = re.compile(r" AUTO_INCREMENT=\d+")


class _Rows(Struct, frozen=True):
    """What the statements of ``shape_statements`` gave, in their order."""

    table: list[Row]
    columns: list[Row]
    indexes: list[Row]
    foreign_keys: list[Row]
    children: list[Row]
    checks: list[Row]
    triggers: list[Row]


def definition(session: Session, table: TableName) -> str:
    """The table in the server's own words, which change with every ALTER and with nothing else; costs a fraction of
    ``read_shape``. Raises ServerError."""
    row = session.one(f"SHOW CREATE TABLE {quote.table(table)}")
    return _COUNTER.sub("", str(row[1]), count=1) if row is not None else ""


def read_shape(session: Session, table: TableName, key: tuple[str, ...] = ()) -> Shape | None:
    """The live table, or None when there is none that this account can see. Views are returned with their kind.

    ``key`` is the walking key that the runbook names; without it the cheapest usable one is chosen.
    Raises ServerError; RunbookError when a column has a type that this version does not know.
    """
    got = _Rows(*session.packet(shape_statements(table)))
    if not got.table:
        return None
    schema, name, kind, engine, row_format, options, collation, charset, partitioned_by = got.table[0]
    columns = tuple(_column(row, table) for row in got.columns)
    indexes = tuple(_index(name, rows) for name, rows in _grouped(got.indexes))
    chosen = choose_key(columns, indexes, key)
    return Shape(
        table=TableName(schema, name),
        kind=kind,
        engine=engine or "",
        charset=charset or "",
        collation=collation or "",
        row_format=(row_format or "").upper(),
        partitioned="partitioned" in (options or "").lower(),
        columns=columns,
        indexes=indexes,
        foreign_keys=tuple(_foreign_key(rows) for _, rows in _grouped(got.foreign_keys)),
        referenced_by=_children(got.children),
        checks=tuple((name, _unescaped(clause)) for name, clause in got.checks),
        triggers=tuple(_trigger(row) for row in got.triggers),
        key=chosen.columns,
        key_name=chosen.index,
        key_problem=chosen.problem,
        partitioned_by=partitioned_by or "",
    )


def read_triggers(session: Session, table: TableName) -> tuple[Trigger, ...]:
    """Only the triggers of the table, as ``read_shape`` gives them. Raises ServerError."""
    return tuple(_trigger(row) for row in session.query(shape_statements(table)[-1]))


def shape_statements(table: TableName) -> tuple[str, ...]:
    """The seven reads of information_schema that make a Shape, sent as one packet."""
    schema, name = text(table.schema), text(table.name)
    mine = f"TABLE_SCHEMA = {schema} AND TABLE_NAME = {name}"
    return (
        "SELECT t.TABLE_SCHEMA, t.TABLE_NAME, t.TABLE_TYPE, t.ENGINE, t.ROW_FORMAT, t.CREATE_OPTIONS,"
        " t.TABLE_COLLATION, c.CHARACTER_SET_NAME,"
        " (SELECT GROUP_CONCAT(DISTINCT CONCAT_WS(' ', p.PARTITION_EXPRESSION, p.SUBPARTITION_EXPRESSION))"
        " FROM information_schema.PARTITIONS p WHERE p.TABLE_SCHEMA = t.TABLE_SCHEMA AND p.TABLE_NAME = t.TABLE_NAME)"
        " FROM information_schema.TABLES t"
        " LEFT JOIN information_schema.COLLATION_CHARACTER_SET_APPLICABILITY c ON c.COLLATION_NAME = t.TABLE_COLLATION"
        f" WHERE t.TABLE_SCHEMA = {schema} AND t.TABLE_NAME = {name}",
        "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT, EXTRA, CHARACTER_SET_NAME, COLLATION_NAME,"
        f" GENERATION_EXPRESSION, COLUMN_COMMENT FROM information_schema.COLUMNS WHERE {mine}"
        " ORDER BY ORDINAL_POSITION",
        "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART, COLLATION, EXPRESSION, NON_UNIQUE, IS_VISIBLE, INDEX_TYPE"
        f" FROM information_schema.STATISTICS WHERE {mine} ORDER BY INDEX_NAME, SEQ_IN_INDEX",
        _FOREIGN_KEYS + f" WHERE r.CONSTRAINT_SCHEMA = {schema} AND r.TABLE_NAME = {name}" + _FOREIGN_KEY_ORDER,
        _FOREIGN_KEYS
        + f" WHERE r.UNIQUE_CONSTRAINT_SCHEMA = {schema} AND r.REFERENCED_TABLE_NAME = {name}"
        + _FOREIGN_KEY_ORDER,
        "SELECT k.CONSTRAINT_NAME, c.CHECK_CLAUSE FROM information_schema.TABLE_CONSTRAINTS k"
        " JOIN information_schema.CHECK_CONSTRAINTS c"
        " ON c.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND c.CONSTRAINT_NAME = k.CONSTRAINT_NAME"
        f" WHERE k.TABLE_SCHEMA = {schema} AND k.TABLE_NAME = {name} AND k.CONSTRAINT_TYPE = 'CHECK'"
        " ORDER BY k.CONSTRAINT_NAME",
        "SELECT TRIGGER_NAME, ACTION_TIMING, EVENT_MANIPULATION, ACTION_STATEMENT, SQL_MODE, DEFINER, ACTION_ORDER"
        f" FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = {schema} AND EVENT_OBJECT_TABLE = {name}"
        " ORDER BY EVENT_MANIPULATION, ACTION_TIMING, ACTION_ORDER",
    )


_FOREIGN_KEYS = (
    "SELECT r.CONSTRAINT_NAME, r.CONSTRAINT_SCHEMA, r.TABLE_NAME, k.COLUMN_NAME, r.UNIQUE_CONSTRAINT_SCHEMA,"
    " r.REFERENCED_TABLE_NAME, k.REFERENCED_COLUMN_NAME, r.DELETE_RULE, r.UPDATE_RULE"
    " FROM information_schema.REFERENTIAL_CONSTRAINTS r JOIN information_schema.KEY_COLUMN_USAGE k"
    " ON k.CONSTRAINT_SCHEMA = r.CONSTRAINT_SCHEMA AND k.CONSTRAINT_NAME = r.CONSTRAINT_NAME"
    " AND k.TABLE_SCHEMA = r.CONSTRAINT_SCHEMA AND k.TABLE_NAME = r.TABLE_NAME"
)
_FOREIGN_KEY_ORDER = " ORDER BY r.CONSTRAINT_SCHEMA, r.TABLE_NAME, r.CONSTRAINT_NAME, k.ORDINAL_POSITION"


def _grouped(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    return [(key, list(group)) for key, group in groupby(rows, key=lambda row: str(row[0]))]


def _unescaped(stored: str) -> str:
    """information_schema shows expressions with their quotes escaped once more."""
    return _ESCAPED.sub(r"\1", stored)


def _column(row: Row, table: TableName) -> Column:
    name, kind, nullable, default, extra, charset, collation, generation, comment = row
    flags = extra.upper()
    try:
        parsed = parse_type(kind)
    except ValueError as error:
        raise RunbookError(
            f"column {name} of {table} has the type {kind}: {error}",
            "column types that this version of rollout knows",
            "keep this table out of rollout, or use a version that knows the type",
        ) from error
    return Column(
        name=name,
        type=parsed,
        null=nullable == "YES",
        default=_default(default, "DEFAULT_GENERATED" in flags),
        charset=charset,
        collation=collation,
        on_update="ON UPDATE" in flags,
        generated=_unescaped(generation) if generation else None,
        stored="STORED GENERATED" in flags,
        invisible="INVISIBLE" in flags,
        auto_increment="AUTO_INCREMENT" in flags,
        comment=comment,
    )


def _default(stored: str | None, is_expression: bool) -> Default | None:
    if stored is None:
        return None
    if not is_expression:
        return Default(stored)
    if stored.upper().startswith("CURRENT_TIMESTAMP"):
        return Default(stored, is_expression=True)
    return Default(f"({_unescaped(stored)})", is_expression=True)


def _index(name: str, rows: list[Row]) -> Index:
    parts = tuple(
        IndexPart(
            column=column or "",
            prefix=None if expression or kind == "SPATIAL" else prefix,
            descending=direction == "D",
            expression=_unescaped(expression) if expression else None,
        )
        for _, column, prefix, direction, expression, _, _, kind in rows
    )
    *_, non_unique, visible, kind = rows[0]
    return Index(name, parts, unique=not non_unique, visible=visible == "YES", kind=kind)


def _foreign_key(rows: list[Row]) -> ForeignKey:
    name, _, _, _, parent_schema, parent, _, on_delete, on_update = rows[0]
    return ForeignKey(
        name=name,
        columns=tuple(row[3] for row in rows),
        references=TableName(parent_schema, parent),
        referenced_columns=tuple(row[6] for row in rows),
        on_delete=_rule(on_delete),
        on_update=_rule(on_update),
    )


def _rule(stored: str) -> str:
    """InnoDB does for NO ACTION what it does for RESTRICT."""
    return "RESTRICT" if stored == "NO ACTION" else stored


def _children(rows: list[Row]) -> tuple[tuple[TableName, ForeignKey], ...]:
    grouped = groupby(rows, key=lambda row: (row[1], row[2], row[0]))
    return tuple((TableName(key[0], key[1]), _foreign_key(list(group))) for key, group in grouped)


def _trigger(row: Row) -> Trigger:
    name, timing, event, body, sql_mode, definer, order = row
    return Trigger(name, timing, event, body, sql_mode, definer, int(order))
