"""Identifiers and literals as SQL text: the one place where either is quoted."""

from __future__ import annotations

from orchestrator.model.contract import TableName


def name(identifier: str) -> str:
    """A backticked identifier. Raises ValueError on what MySQL cannot have as a name (empty, or with a NUL)."""
    if not identifier or "\0" in identifier:
        raise ValueError(f"{identifier!r} cannot be an identifier")
    return "`" + identifier.replace("`", "``") + "`"


def table(of: TableName) -> str:
    return f"{name(of.schema)}.{name(of.name)}"


def everything_in(schema: str, *, literal: bool = False) -> str:
    """All of one schema and of no other, as GRANT takes it: ``_`` and ``%`` are wildcards there, but not on one table.
    ``literal``: on a server with partial_revokes, where they are none."""
    exact = schema if literal else schema.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%")
    return f"{name(exact)}.*"


def names(identifiers: tuple[str, ...] | list[str]) -> str:
    return ", ".join(name(i) for i in identifiers)


def text(value: str) -> str:
    """A utf8mb4 literal that means the same under every sql_mode: what needs an escape is written as hex."""
    if "\\" in value or any(ord(c) < 32 for c in value):
        return f"_utf8mb4 0x{value.encode().hex()}"
    return "_utf8mb4'" + value.replace("'", "''") + "'"


def literal(value: str) -> str:
    """A plain literal, for places whose grammar takes no introducer (COMMENT, ENUM labels) and for what a person reads
    in a plan. Means what it says under every sql_mode without NO_BACKSLASH_ESCAPES, which our sessions never have.
    """
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0").replace("\n", "\\n")
    return f"'{escaped}'"


def comment(text: str) -> str:
    """Text that may stand inside of a comment: it does not end it."""
    return text.replace("*/", "* /")


def percent_safe(sql: str) -> str:
    """SQL text that goes through argument formatting unchanged."""
    return sql.replace("%", "%%")
