"""What the live table is: its shape, its size, and how much of its row versions is used."""

from __future__ import annotations

from msgspec import Struct

from orchestrator.model.contract import Column, ForeignKey, Index, TableName


class Trigger(Struct, frozen=True):
    name: str
    timing: str
    event: str
    body: str
    sql_mode: str
    definer: str
    order: int


class Dependent(Struct, frozen=True):
    """What else on the server names the table: ``view shop.recent``. ``definition``: its text, None where this account
    may not read it: then nobody knows whether it does."""

    name: str
    definition: str | None

    def __str__(self) -> str:
        if self.definition is not None:
            return self.name
        right = "SHOW VIEW" if self.name.startswith("view ") else "SHOW_ROUTINE"
        return f"perhaps {self.name} (this account may not read it: {right})"


class Shape(Struct, frozen=True):
    """The live table, normalised so that it can be compared with a contract. ``key`` is the cheapest usable walking
    key. ``partitioned_by``: the expressions of its partitions, as the server shows them."""

    table: TableName
    kind: str
    engine: str
    charset: str
    collation: str
    row_format: str
    partitioned: bool
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]
    foreign_keys: tuple[ForeignKey, ...]
    referenced_by: tuple[tuple[TableName, ForeignKey], ...]
    checks: tuple[tuple[str, str], ...]
    triggers: tuple[Trigger, ...]
    key: tuple[str, ...]
    key_name: str
    key_problem: str = ""
    partitioned_by: str = ""

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    def index(self, name: str) -> Index | None:
        return next((i for i in self.indexes if i.name.lower() == name.lower()), None)

    def foreign_key(self, name: str) -> ForeignKey | None:
        return next((f for f in self.foreign_keys if f.name.lower() == name.lower()), None)

    @property
    def family(self) -> tuple[TableName, ...]:
        """Tables whose metadata locks meet ours: parents and children by foreign key, the table itself first."""
        names = [f.references for f in self.foreign_keys] + [t for t, _ in self.referenced_by]
        return (self.table, *(n for n in dict.fromkeys(names) if n != self.table))


class RowVersions(Struct, frozen=True):
    used: int
    limit: int


class SizeFacts(Struct, frozen=True):
    rows_estimate: int
    data_bytes: int
    index_bytes: int
