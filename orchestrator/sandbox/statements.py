"""A statement of an application, read once: the text for the driver, and what it stores in which rows.

The ledger learns what was written from the statement itself, not from a second description beside it. Placeholders are
written ``:name``; those of ``ROW_WORDS`` (with digits behind: ``:row2``) stand for a row's key, ``:row.part`` for one
part of a composite one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from msgspec import Struct

from orchestrator.sandbox.expression import Env, Expr, Reader
from orchestrator.sandbox.tokens import tokens

ROW_WORDS = ("fresh", "row", "kept", "hot", "mortal", "claimed", "mine")
_ROW = re.compile(rf"^(?:{'|'.join(ROW_WORDS)})\d*$")
_PLACEHOLDER = re.compile(r"('(?:[^'\\]|''|\\.)*')|:([A-Za-z_]\w*(?:\.\w+)?)|(%)")


class Kind(Enum):
    READ = "read"
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    CONTROL = "control"


class Statement(Struct, frozen=True):
    """``inserted`` has one dictionary of expressions for each new row. ``rows`` are the row placeholders of the WHERE
    part; of an INSERT the first one in each row's values, which is the key (rows of other tables have none: ``''``)."""

    text: str
    sql: str
    kind: Kind
    table: str
    placeholders: tuple[str, ...]
    rows: tuple[str, ...] = ()
    inserted: tuple[dict[str, Expr], ...] = ()
    assigned: tuple[tuple[str, Expr], ...] = ()

    @property
    def claims(self) -> bool:
        """Whether the rows that it gives become ``:claimed``."""
        return self.kind is Kind.READ and "FOR UPDATE" in self.text.upper()


def is_row(placeholder: str) -> bool:
    return _ROW.match(placeholder.partition(".")[0]) is not None


def parse(text: str) -> Statement:
    """Raises ValueError when the ledger could not follow the statement."""
    sql, names = for_driver(text)
    first = text.split(None, 1)[0].upper()
    if first in ("SELECT", "WITH"):
        return Statement(text, sql, Kind.READ, "", names)
    if first in ("SAVEPOINT", "ROLLBACK", "COMMIT", "RELEASE"):
        return Statement(text, sql, Kind.CONTROL, "", names)
    reader = Reader(tokens(text))
    reader.take()
    match first:
        case "INSERT":
            return _insert(text, sql, names, reader)
        case "UPDATE":
            return _update(text, sql, names, reader)
        case "DELETE":
            reader.expect("FROM")
            return Statement(text, sql, Kind.DELETE, reader.name(), names, _rows(text))
        case _:
            raise ValueError(f"{first} is not followed by the ledger: {text}")


def for_driver(text: str) -> tuple[str, tuple[str, ...]]:
    """The text as the driver takes it, and the names of its placeholders."""
    names: list[str] = []

    def convert(match: re.Match[str]) -> str:
        literal, name, _percent = match.groups()
        if literal is not None:
            return str(literal).replace("%", "%%")
        if name is None:
            return "%%"
        names.append(name)
        return f"%({name})s"

    return _PLACEHOLDER.sub(convert, text), tuple(dict.fromkeys(names))


def _rows(text: str) -> tuple[str, ...]:
    """Row placeholders of the WHERE part, without their parts."""
    where = re.split(r"\bWHERE\b", text, maxsplit=1, flags=re.IGNORECASE)[-1]
    found = [m[2].partition(".")[0] for m in _PLACEHOLDER.finditer(where) if m[2]]
    return tuple(dict.fromkeys(n for n in found if is_row(n)))


def _insert(text: str, sql: str, names: tuple[str, ...], reader: Reader) -> Statement:
    reader.expect("INTO")
    table = reader.name()
    reader.expect("(")
    columns = [reader.name().lower()]
    while reader.accept(","):
        columns.append(reader.name().lower())
    reader.expect(")")
    reader.expect("VALUES")
    rows: list[dict[str, Expr]] = []
    keys: list[str] = []
    while not rows or reader.accept(","):
        begin = reader.at
        rows.append(dict(zip(columns, reader.listed(), strict=True)))
        keys.append(next((p.partition(".")[0] for p in reader.params(begin) if is_row(p)), ""))
    assigned: tuple[tuple[str, Expr], ...] = ()
    if reader.accept("ON"):
        for word in ("DUPLICATE", "KEY", "UPDATE"):
            reader.expect(word)
        assigned = _assignments(reader)
    reader.end()
    return Statement(text, sql, Kind.INSERT, table, names, tuple(keys), tuple(rows), assigned)


def _update(text: str, sql: str, names: tuple[str, ...], reader: Reader) -> Statement:
    table = reader.name()
    reader.expect("SET")
    assigned = _assignments(reader)
    reader.expect("WHERE")
    return Statement(text, sql, Kind.UPDATE, table, names, _rows(text), (), assigned)


def _assignments(reader: Reader) -> tuple[tuple[str, Expr], ...]:
    found: list[tuple[str, Expr]] = []
    while not found or reader.accept(","):
        name = reader.name().lower()
        reader.expect("=")
        found.append((name, reader.expression()))
    return tuple(found)


def environment(args: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as an expression's environment."""
    return {f":{name}": value for name, value in args.items()}


def with_values(env: Env, given: Mapping[str, Any]) -> dict[str, Any]:
    """An environment in which ``VALUES(column)`` means what the INSERT gave."""
    return dict(env) | {f"values:{name}": value for name, value in given.items()}
