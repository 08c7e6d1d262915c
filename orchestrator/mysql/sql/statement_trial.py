"""The statements around a declared one while it is tried on scratch copies: rows, binding, columns put aside. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.contract import Column, TableName
from orchestrator.model.types import Family
from orchestrator.mysql.quote import name, table, text
from orchestrator.mysql.sql.family_copy import sample

PREPARED = "_rollout_said"
ASIDE = "_rollout_aside"
_LONGEST_CHARS = 2_000


def use(schema: str) -> str:
    return f"USE {name(schema)}"


def prepare(statement: str) -> tuple[str, ...]:
    return (f"SET @_rollout_text = {text(statement)}", f"PREPARE {PREPARED} FROM @_rollout_text")


def run(arguments: Sequence[str]) -> tuple[str, ...]:
    """The prepared statement with those literals bound to its parameters; it comes last."""
    given = [f"SET @_rollout_{n} = {value}" for n, value in enumerate(arguments)]
    using = ", ".join(f"@_rollout_{n}" for n in range(len(arguments)))
    return (*given, f"EXECUTE {PREPARED}" + (f" USING {using}" if using else ""))


def execute(arguments: Sequence[str]) -> tuple[str, ...]:
    """As ``run``, in a transaction that is taken back."""
    return ("START TRANSACTION", *run(arguments), "ROLLBACK")


def fill(copy: TableName, columns: Sequence[Column], tag: str) -> str:
    """Every row holds a sample in those columns; what a CHECK refuses stays as it was."""
    sets = ", ".join(f"{name(c.name)} = {sample(c, 1)}" for c in columns)
    return f"UPDATE {tag} IGNORE {table(copy)} SET {sets}"


def longest(column: Column) -> str:
    """The longest value that the column takes, of texts and bytes; of other types a sample."""
    kind = column.type
    if kind.family is Family.TEXT and kind.base not in ("enum", "set"):
        length = min(kind.length if kind.length is not None else (kind.byte_limit or 0) // 4, _LONGEST_CHARS)
        return f"REPEAT('x', {length:d})"
    if kind.family is Family.BINARY:
        return f"REPEAT(X'41', {min(kind.length or kind.byte_limit or 0, _LONGEST_CHARS):d})"
    return sample(column, 1)


def clear(copy: TableName, tag: str) -> str:
    return f"DELETE {tag} FROM {table(copy)}"


def put_aside(copy: TableName, column: str, back: str, tag: str) -> str:
    """``column`` gets a name that nobody says, and ``back``, which had it, its own again; "" for none of either."""
    renames = [f"RENAME COLUMN {name(ASIDE)} TO {name(back)}"] if back else []
    renames += [f"RENAME COLUMN {name(column)} TO {name(ASIDE)}"] if column else []
    return f"ALTER {tag} TABLE {table(copy)} {', '.join(renames)}"


def tables_called(count: int) -> str:
    """Base tables of a schema by name; arguments: the schema, then ``count`` names in lower case."""
    listed = ", ".join(["%s"] * count)
    return (
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'"
        f" AND LOWER(TABLE_NAME) IN ({listed}) ORDER BY TABLE_NAME"
    )
