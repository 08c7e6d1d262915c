"""The frozen part of a runbook: what is added to one table, and how old and new values correspond."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from orchestrator.model.types import ColumnType
from orchestrator.model.value import Value


class TableName(Value, frozen=True, order=True):
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


class Default(Value, frozen=True):
    """A column default: a literal (``text`` unquoted) or an expression (``CURRENT_TIMESTAMP(3)``,
    ``(json_object())``)."""

    text: str
    is_expression: bool = False


class Noted(Value, frozen=True, eq=False):
    """A thing of a shape with notes for people: two that differ in ``NOTES`` alone are the same thing."""

    NOTES: ClassVar[frozenset[str]] = frozenset({"after", "comment", "writer", "retire", "serves", "why"})

    def substance(self) -> dict[str, object]:
        """Every field but the notes, by name."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in self.NOTES}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.substance() == other.substance()

    def __ne__(self, other: object) -> bool:
        # A structure brings its own, by identity.
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(self.substance().values()))


class Column(Noted, frozen=True, eq=False):
    """A column, wanted or live. ``charset`` and ``collation`` are None when they are the table's own, or not text.
    ``after``: the column behind which it is added, "" at the end."""

    name: str
    type: ColumnType
    null: bool = True
    default: Default | None = None
    charset: str | None = None
    collation: str | None = None
    on_update: bool = False
    generated: str | None = None
    stored: bool = False
    invisible: bool = False
    auto_increment: bool = False
    after: str = ""
    comment: str = ""
    writer: str = ""
    retire: str = ""


class IndexPart(Value, frozen=True):
    """One part of an index: a column (``prefix`` in characters) or, with ``expression``, a functional part."""

    column: str
    prefix: int | None = None
    descending: bool = False
    expression: str | None = None


class Index(Noted, frozen=True, eq=False):
    """``shown_last``: it is built invisible, and made visible as the last step of the expand."""

    name: str
    parts: tuple[IndexPart, ...]
    unique: bool = False
    visible: bool = True
    kind: str = "BTREE"
    shown_last: bool = False
    serves: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(p.column for p in self.parts)


class ForeignKey(Noted, frozen=True, eq=False):
    name: str
    columns: tuple[str, ...]
    references: TableName
    referenced_columns: tuple[str, ...]
    on_delete: str = "RESTRICT"
    on_update: str = "RESTRICT"
    why: str = ""


class Check(Value, frozen=True):
    """A CHECK that is declared NOT ENFORCED: the server proves nothing and refuses nobody."""

    name: str
    sql: str


class Unmapped(Enum):
    """What a value map does with a value that it does not name."""

    REFUSE = "refuse"
    KEEP = "keep"


class Match(Enum):
    """How a value map compares: byte for byte, or as the column's collation does."""

    EXACT = "exact"
    COLLATION = "collation"


class ValueMap(Value, frozen=True):
    """value → value; None is SQL NULL. NULL that is not named is unmapped like any other value."""

    values: tuple[tuple[str | None, str | None], ...]
    unmapped: Unmapped = Unmapped.REFUSE
    match: Match = Match.EXACT


class Expression(Value, frozen=True):
    """A deterministic SQL expression over columns of the row, unqualified."""

    sql: str


class Copy(Value, frozen=True):
    """The value itself, unchanged."""


Transform = ValueMap | Expression | Copy


class Winner(Enum):
    """Whose value stays when one statement changes both columns to values that do not correspond."""

    NEW = "new_wins"
    OLD = "old_wins"


class Mapping(Noted, frozen=True, eq=False):
    """How one new column gets its values. With ``old`` and ``backward`` it is a pair; without ``backward`` it is
    derived."""

    new: str
    old: str | None
    forward: Transform
    backward: Transform | None = None
    on_conflict: Winner = Winner.NEW
    follows: bool = False
    why: str = ""

    @property
    def is_pair(self) -> bool:
        return self.old is not None and self.backward is not None

    def __str__(self) -> str:
        return f"{self.old} ↔ {self.new}" if self.is_pair else f"{self.new} (derived)"


class Invariant(Value, frozen=True):
    """A condition that every row must hold; NULL counts as held, as in a CHECK constraint."""

    name: str
    sql: str


class RenameWay(Enum):
    """How a column gets another name. MIRROR: a new column, and a pair that keeps both in step. MAP: only the model
    above the table has the new name, no DDL. RENAME: in place; whoever still says the old name fails from there on."""

    MIRROR = "mirror"
    MAP = "map"
    RENAME = "rename"


class Rename(Value, frozen=True):
    old: str
    new: str
    way: RenameWay


class Before(Value, frozen=True):
    """The table as it stands before ddl, frozen too: with it, what nobody named can be told from what was there.

    ``collation`` is the table's; "" when the runbook does not say. ``children`` are foreign keys that other tables
    hold into this one, each with the table that holds it.
    """

    columns: tuple[Column, ...]
    indexes: tuple[Index, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    collation: str = ""
    children: tuple[tuple[TableName, ForeignKey], ...] = ()


class Contract(Value, frozen=True):
    """Everything that this rollout may add to the table, and nothing else. ``allow_rebuild``: the reason why the table
    may be rebuilt or copied for it, "" when it may not. ``before``: None when nobody wrote it down."""

    table: TableName
    columns: tuple[Column, ...]
    changes: tuple[Column, ...] = ()
    indexes: tuple[Index, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    checks: tuple[Check, ...] = ()
    mappings: tuple[Mapping, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    key: tuple[str, ...] = ()
    old_statements: tuple[str, ...] = ()
    new_statements: tuple[str, ...] = ()
    allow_rebuild: str = ""
    before: Before | None = None
    renames: tuple[Rename, ...] = ()

    @property
    def renames_in_place(self) -> tuple[Rename, ...]:
        return tuple(r for r in self.renames if r.way is RenameWay.RENAME)

    @property
    def pairs(self) -> tuple[Mapping, ...]:
        return tuple(m for m in self.mappings if m.is_pair)

    @property
    def derived(self) -> tuple[Mapping, ...]:
        return tuple(m for m in self.mappings if not m.is_pair)

    def column(self, name: str) -> Column:
        """The new column of that name. Raises KeyError."""
        for column in self.columns:
            if column.name.lower() == name.lower():
                return column
        raise KeyError(name)
