"""The statements that make and remove the scratch copies of a family of tables, and rows in them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from orchestrator.model.contract import Column, ForeignKey, TableName
from orchestrator.model.types import Family
from orchestrator.mysql.quote import literal, name, table
from orchestrator.mysql.sql.alter import foreign_key_definition

_FIRST = 1
_DAYS = {"date": "2001-01-{0:02d}", "datetime": "2001-01-{0:02d} 00:00:00", "timestamp": "2001-01-{0:02d} 00:00:00"}


def create_schema(schema: str, tag: str) -> str:
    return f"CREATE {tag} DATABASE IF NOT EXISTS {name(schema)}"


def drop_schema(schema: str, tag: str) -> str:
    return f"DROP {tag} DATABASE IF EXISTS {name(schema)}"


def copy_table(source: TableName, copy: TableName, tag: str) -> str:
    """Columns, indexes and CHECKs, no rows, no foreign keys and no triggers."""
    return f"CREATE {tag} TABLE {table(copy)} LIKE {table(source)}"


def add_foreign_key(copy: TableName, key: ForeignKey, tag: str) -> str:
    return f"ALTER {tag} TABLE {table(copy)} ADD {foreign_key_definition(key)}"


def insert_row(copy: TableName, values: Mapping[str, str], tag: str) -> str:
    """``values``: column → SQL literal. Columns that are left out get what a session without strict mode gives them."""
    columns = ", ".join(name(c) for c in values)
    return f"INSERT {tag} INTO {table(copy)} ({columns}) VALUES ({', '.join(values.values())})"


def delete_row(copy: TableName, where: Mapping[str, str], tag: str) -> str:
    return f"DELETE {tag} FROM {table(copy)} WHERE {_same(where)}"


def change_key(copy: TableName, column: str, to: str, where: Mapping[str, str], tag: str) -> str:
    return f"UPDATE {tag} {table(copy)} SET {name(column)} = {to} WHERE {_same(where)}"


def _same(where: Mapping[str, str]) -> str:
    return " AND ".join(f"{name(c)} = {v}" for c, v in where.items())


def sample(column: Column, number: int) -> str:
    """A literal of the column's type that differs for every ``number`` from 1 to 20, as far as the type has so many."""
    kind = column.type
    match kind.family:
        case Family.TEXT:
            return literal(chr(96 + number) if kind.length is None or kind.length > 0 else "")
        case Family.BINARY:
            return f"0x{number:02x}" + ("00" * ((kind.length or 1) - 1) if kind.base == "binary" else "")
        case Family.ENUM | Family.SET:
            return literal(kind.labels[(number - _FIRST) % len(kind.labels)])
        case Family.TEMPORAL:
            return literal(_DAYS[kind.base].format(number))
        case Family.TIME:
            return literal(f"00:00:{number:02d}")
        case Family.YEAR:
            return str(2000 + number)
        case Family.JSON:
            return literal(str(number))
        case Family.SPATIAL:
            return f"ST_GeomFromText('POINT({number} {number})')"
        case Family.BIT:
            return str(number % 2 if (kind.length or 1) == 1 else number)
        case Family.INTEGER | Family.DECIMAL | Family.FLOAT:
            return str(number)
