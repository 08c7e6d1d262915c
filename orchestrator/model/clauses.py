"""What one ALTER may be asked for: every clause whose way the chooser knows."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from orchestrator.model.contract import Check, Column, ForeignKey, Index


class NewColumn(Struct, frozen=True):
    """``checked``: with an enforced CHECK of its own."""

    column: Column
    checked: bool = False


class GoneColumn(Struct, frozen=True):
    name: str


class RenamedColumn(Struct, frozen=True):
    name: str
    to: str


class ChangedColumn(Struct, frozen=True):
    """``moved``: to another place in the row."""

    before: Column
    after: Column
    moved: bool = False


class NewDefault(Struct, frozen=True):
    """SET DEFAULT (a literal or an expression) or DROP DEFAULT: rows that exist keep what they hold."""

    name: str


class NewIndex(Struct, frozen=True):
    index: Index


class OtherIndex(Struct, frozen=True):
    """Renamed, dropped, hidden or shown."""

    name: str


class NewForeignKey(Struct, frozen=True):
    """``checked``: with foreign_key_checks on."""

    foreign_key: ForeignKey
    checked: bool = False


class GoneForeignKey(Struct, frozen=True):
    name: str


class CheckClause(Struct, frozen=True):
    what: Literal["add", "add not enforced", "drop", "enforce"]
    check: Check | None = None


class TableClause(Struct, frozen=True):
    what: Literal["comment", "default charset", "convert charset", "primary key", "force"]


Clause = (
    NewColumn
    | GoneColumn
    | RenamedColumn
    | ChangedColumn
    | NewDefault
    | NewIndex
    | OtherIndex
    | NewForeignKey
    | GoneForeignKey
    | CheckClause
    | TableClause
)
