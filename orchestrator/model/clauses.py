"""What one ALTER may be asked for: every clause whose way the chooser knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.model.contract import Check, Column, ForeignKey, Index


@dataclass(frozen=True, slots=True)
class NewColumn:
    """``checked``: with an enforced CHECK of its own."""

    column: Column
    checked: bool = False


@dataclass(frozen=True, slots=True)
class GoneColumn:
    name: str


@dataclass(frozen=True, slots=True)
class RenamedColumn:
    name: str
    to: str


@dataclass(frozen=True, slots=True)
class ChangedColumn:
    """``moved``: to another place in the row."""

    before: Column
    after: Column
    moved: bool = False


@dataclass(frozen=True, slots=True)
class NewDefault:
    """SET DEFAULT (a literal or an expression) or DROP DEFAULT: rows that exist keep what they hold."""

    name: str


@dataclass(frozen=True, slots=True)
class NewIndex:
    index: Index


@dataclass(frozen=True, slots=True)
class OtherIndex:
    """Renamed, dropped, hidden or shown."""

    name: str


@dataclass(frozen=True, slots=True)
class NewForeignKey:
    """``checked``: with foreign_key_checks on."""

    foreign_key: ForeignKey
    checked: bool = False


@dataclass(frozen=True, slots=True)
class GoneForeignKey:
    name: str


@dataclass(frozen=True, slots=True)
class CheckClause:
    what: Literal["add", "add not enforced", "drop", "enforce"]
    check: Check | None = None


@dataclass(frozen=True, slots=True)
class TableClause:
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
