"""The steps that change the shape of a table; everybody reads them from ``orchestrator.model.step``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from orchestrator.model.contract import Check, Column, ForeignKey, Index, TableName
from orchestrator.model.way import INPLACE, INSTANT, INSTANT_VERSION, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumns:
    kind: Literal["add-columns"] = "add-columns"
    table: TableName
    columns: tuple[Column, ...]
    family: tuple[TableName, ...]
    way: Way = INSTANT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefault:
    """The default expression of a column that was added without it: together they would copy the table."""

    kind: Literal["set-default"] = "set-default"
    table: TableName
    column: Column
    family: tuple[TableName, ...]
    way: Way = INSTANT


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeColumn:
    """Widen one existing column."""

    kind: Literal["change-column"] = "change-column"
    table: TableName
    before: Column
    after: Column
    family: tuple[TableName, ...]
    way: Way


@dataclass(frozen=True, slots=True, kw_only=True)
class AddIndex:
    kind: Literal["add-index"] = "add-index"
    table: TableName
    index: Index
    final_lock_budget_s: float
    tries: int
    family: tuple[TableName, ...]
    way: Way = INPLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowIndex:
    """An index that was built invisible is shown to the optimizer."""

    kind: Literal["show-index"] = "show-index"
    table: TableName
    index: Index
    family: tuple[TableName, ...]
    way: Way = INPLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class AddForeignKey:
    """Add with checks off, in place; trusted only after ProveForeignKey."""

    kind: Literal["add-foreign-key"] = "add-foreign-key"
    table: TableName
    foreign_key: ForeignKey
    family: tuple[TableName, ...]
    way: Way = INPLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class ProveForeignKey:
    """The anti-join: no child without its parent."""

    kind: Literal["prove-foreign-key"] = "prove-foreign-key"
    table: TableName
    foreign_key: ForeignKey


@dataclass(frozen=True, slots=True, kw_only=True)
class AddCheck:
    """A CHECK that is declared and not enforced: nothing is proven, and nothing fails."""

    kind: Literal["add-check"] = "add-check"
    table: TableName
    check: Check
    family: tuple[TableName, ...]
    way: Way = INSTANT


@dataclass(frozen=True, slots=True, kw_only=True)
class DropCheck:
    kind: Literal["drop-check"] = "drop-check"
    table: TableName
    check: Check
    family: tuple[TableName, ...]
    way: Way = INSTANT


@dataclass(frozen=True, slots=True, kw_only=True)
class DropForeignKey:
    kind: Literal["drop-foreign-key"] = "drop-foreign-key"
    table: TableName
    foreign_key: ForeignKey
    family: tuple[TableName, ...]
    way: Way = INPLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class DropIndex:
    kind: Literal["drop-index"] = "drop-index"
    table: TableName
    index: Index
    family: tuple[TableName, ...]
    way: Way = INPLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumns:
    kind: Literal["drop-columns"] = "drop-columns"
    table: TableName
    columns: tuple[Column, ...]
    family: tuple[TableName, ...]
    way: Way = INSTANT_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """A name for another. ``back``: a rename of ours taken back."""

    kind: Literal["rename-column"] = "rename-column"
    table: TableName
    old: str
    new: str
    family: tuple[TableName, ...]
    way: Way = INSTANT
    back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GhostAlter:
    """The whole change by gh-ost, for what the server would rebuild or copy: a ghost table is altered and filled beside
    the live one and swapped in. ``changes``: columns (before, after). ``rebuild``: the rows are written anew even when
    nothing else is asked for. ``why``: why not the server's own DDL, in one sentence for the plan."""

    kind: Literal["ghost-alter"] = "ghost-alter"
    table: TableName
    columns: tuple[Column, ...] = ()
    changes: tuple[tuple[Column, Column], ...] = ()
    indexes: tuple[Index, ...] = ()
    rebuild: bool = False
    family: tuple[TableName, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDuplicates:
    """Rows that a unique index would refuse. ``absent``: columns of it that do not exist yet, and will hold one
    constant in every row that exists."""

    kind: Literal["count-duplicates"] = "count-duplicates"
    table: TableName
    index: Index
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TryDdl:
    """The steps that follow, tried on an empty scratch copy of the family before the first of them runs; and the
    statements that the versions of the application declare, in the shape that comes out."""

    kind: Literal["try-ddl"] = "try-ddl"
    table: TableName
    family: tuple[TableName, ...]
    steps: tuple[
        AddColumns
        | SetDefault
        | RenameColumn
        | ChangeColumn
        | AddIndex
        | ShowIndex
        | AddForeignKey
        | AddCheck
        | GhostAlter,
        ...,
    ]


AddingStep = AddColumns | SetDefault | RenameColumn | ChangeColumn | AddIndex | ShowIndex | AddForeignKey | AddCheck
DroppingStep = DropForeignKey | DropIndex | DropColumns | DropCheck
ExclusiveDdlStep = AddingStep | DroppingStep
NativeDdlStep = ExclusiveDdlStep | ProveForeignKey | CountDuplicates
DdlStep = NativeDdlStep | GhostAlter | TryDdl
