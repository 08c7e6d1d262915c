"""The steps that change the shape of a table; everybody reads them from ``orchestrator.model.step``."""

from __future__ import annotations

from orchestrator.model.contract import Check, Column, ForeignKey, Index, TableName
from orchestrator.model.value import StepBase
from orchestrator.model.way import INPLACE, INSTANT, INSTANT_VERSION, Way


class AddColumns(StepBase, frozen=True, kw_only=True, tag="add-columns"):
    table: TableName
    columns: tuple[Column, ...]
    family: tuple[TableName, ...]
    way: Way = INSTANT_VERSION


class SetDefault(StepBase, frozen=True, kw_only=True, tag="set-default"):
    """The default expression of a column that was added without it: together they would copy the table."""

    table: TableName
    column: Column
    family: tuple[TableName, ...]
    way: Way = INSTANT


class ChangeColumn(StepBase, frozen=True, kw_only=True, tag="change-column"):
    """Widen one existing column."""

    table: TableName
    before: Column
    after: Column
    family: tuple[TableName, ...]
    way: Way


class AddIndex(StepBase, frozen=True, kw_only=True, tag="add-index"):
    table: TableName
    index: Index
    final_lock_budget_s: float
    tries: int
    family: tuple[TableName, ...]
    way: Way = INPLACE


class ShowIndex(StepBase, frozen=True, kw_only=True, tag="show-index"):
    """An index that was built invisible is shown to the optimizer."""

    table: TableName
    index: Index
    family: tuple[TableName, ...]
    way: Way = INPLACE


class AddForeignKey(StepBase, frozen=True, kw_only=True, tag="add-foreign-key"):
    """Add with checks off, in place; trusted only after ProveForeignKey."""

    table: TableName
    foreign_key: ForeignKey
    family: tuple[TableName, ...]
    way: Way = INPLACE


class ProveForeignKey(StepBase, frozen=True, kw_only=True, tag="prove-foreign-key"):
    """The anti-join: no child without its parent."""

    table: TableName
    foreign_key: ForeignKey


class AddCheck(StepBase, frozen=True, kw_only=True, tag="add-check"):
    """A CHECK that is declared and not enforced: nothing is proven, and nothing fails."""

    table: TableName
    check: Check
    family: tuple[TableName, ...]
    way: Way = INSTANT


class DropCheck(StepBase, frozen=True, kw_only=True, tag="drop-check"):
    table: TableName
    check: Check
    family: tuple[TableName, ...]
    way: Way = INSTANT


class DropForeignKey(StepBase, frozen=True, kw_only=True, tag="drop-foreign-key"):
    table: TableName
    foreign_key: ForeignKey
    family: tuple[TableName, ...]
    way: Way = INPLACE


class DropIndex(StepBase, frozen=True, kw_only=True, tag="drop-index"):
    table: TableName
    index: Index
    family: tuple[TableName, ...]
    way: Way = INPLACE


class DropColumns(StepBase, frozen=True, kw_only=True, tag="drop-columns"):
    table: TableName
    columns: tuple[Column, ...]
    family: tuple[TableName, ...]
    way: Way = INSTANT_VERSION


class RenameColumn(StepBase, frozen=True, kw_only=True, tag="rename-column"):
    """A name for another. ``back``: a rename of ours taken back."""

    table: TableName
    old: str
    new: str
    family: tuple[TableName, ...]
    way: Way = INSTANT
    back: bool = False


class GhostAlter(StepBase, frozen=True, kw_only=True, tag="ghost-alter"):
    """The whole change by gh-ost, for what the server would rebuild or copy: a ghost table is altered and filled beside
    the live one and swapped in. ``changes``: columns (before, after). ``rebuild``: the rows are written anew even when
    nothing else is asked for. ``why``: why not the server's own DDL, in one sentence for the plan."""

    table: TableName
    columns: tuple[Column, ...] = ()
    changes: tuple[tuple[Column, Column], ...] = ()
    indexes: tuple[Index, ...] = ()
    rebuild: bool = False
    family: tuple[TableName, ...]
    why: str


class CountDuplicates(StepBase, frozen=True, kw_only=True, tag="count-duplicates"):
    """Rows that a unique index would refuse. ``absent``: columns of it that do not exist yet, and will hold one
    constant in every row that exists."""

    table: TableName
    index: Index
    absent: tuple[str, ...] = ()


class TryDdl(StepBase, frozen=True, kw_only=True, tag="try-ddl"):
    """The steps that follow, tried on an empty scratch copy of the family before the first of them runs; and the
    statements that the versions of the application declare, in the shape that comes out."""

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
