"""A table while its DDL is read: what CREATE TABLE began and each ALTER went on with, and the shape in the end."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from orchestrator.model.contract import Column, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.types import Family
from orchestrator.model.walking_key import PRIMARY, choose_key

_WITH_CHARSET = (Family.TEXT, Family.ENUM, Family.SET)
# What MySQL 8.0 and newer takes when only the character set is written.
_COLLATIONS = {"utf8mb4": "utf8mb4_0900_ai_ci", "latin1": "latin1_swedish_ci", "binary": "binary"}
DEFAULT_CHARSET = "utf8mb4"


class Draft(Struct):
    """``lines`` has the line of each thing by kind and lower-case name; ``served_by`` the name of the index that the
    server makes for a foreign key, should no other index serve it."""

    name: TableName
    line: int
    columns: list[Column] = field(default_factory=list)
    indexes: list[Index] = field(default_factory=list)
    foreign_keys: list[ForeignKey] = field(default_factory=list)
    checks: list[tuple[str, str]] = field(default_factory=list)
    charset: str = DEFAULT_CHARSET
    collation: str = ""
    engine: str = "InnoDB"
    partitioned: bool = False
    lines: dict[tuple[str, str], int] = field(default_factory=dict)
    served_by: dict[str, str] = field(default_factory=dict)

    def position(self, column: str) -> int:
        """Where the column stands; -1 when it is not there."""
        return next((i for i, c in enumerate(self.columns) if c.name.lower() == column.lower()), -1)

    def put_column(self, column: Column, at: int | None = None) -> None:
        """Add it at this position, at the end without one."""
        if at is None:
            self.columns.append(column)
        else:
            self.columns.insert(at, column)

    def drop_column(self, name: str) -> None:
        """Indexes lose that part, and go when it was their only one."""
        del self.columns[self.position(name)]
        kept = [replace(i, parts=tuple(p for p in i.parts if p.column.lower() != name.lower())) for i in self.indexes]
        self.indexes = [i for i in kept if i.parts]

    def rename_column(self, old: str, new: str) -> None:
        """Indexes and foreign keys follow."""
        at = self.position(old)
        self.columns[at] = replace(self.columns[at], name=new)

        def renamed(name: str) -> str:
            return new if name.lower() == old.lower() else name

        self.indexes = [
            replace(i, parts=tuple(replace(p, column=renamed(p.column)) for p in i.parts)) for i in self.indexes
        ]
        self.foreign_keys = [replace(f, columns=tuple(renamed(c) for c in f.columns)) for f in self.foreign_keys]

    def free_index_name(self, first: str) -> str:
        """The name that the server gives an index without one: its first column, then with _2, _3 …"""
        taken = {i.name.lower() for i in self.indexes}
        if first.lower() not in taken and first.lower() != "primary":
            return first
        return next(f"{first}_{n}" for n in range(2, 1000) if f"{first}_{n}".lower() not in taken)

    def free_key_name(self) -> str:
        """``TABLE_ibfk_N``, as InnoDB names a foreign key without a name."""
        start = f"{self.name.name}_ibfk_".lower()
        numbers = [f.name[len(start) :] for f in self.foreign_keys if f.name.lower().startswith(start)]
        return f"{self.name.name}_ibfk_{max([int(n) for n in numbers if n.isdecimal()], default=0) + 1}"

    def settle(self) -> None:
        """At the end of a statement: columns that name no character set have the table's of this moment for good."""
        self.collation = self.collation or default_collation(self.charset)
        primary = {c.lower() for i in self.indexes if i.name == PRIMARY for c in i.columns}
        self.columns = [self._settled(c, c.name.lower() in primary) for c in self.columns]

    def shape(self, children: tuple[tuple[TableName, ForeignKey], ...]) -> Shape:
        """What the server would say of the table."""
        self.settle()
        columns = tuple(self.columns)
        indexes = with_implied(tuple(self.indexes), tuple(self.foreign_keys), self.served_by)
        key = choose_key(columns, indexes)
        return Shape(
            table=self.name,
            kind="BASE TABLE",
            engine=self.engine,
            charset=self.charset,
            collation=self.collation,
            row_format="DYNAMIC",
            partitioned=self.partitioned,
            columns=columns,
            indexes=indexes,
            foreign_keys=tuple(self.foreign_keys),
            referenced_by=children,
            checks=tuple((name or f"{self.name.name}_chk_{i + 1}", c) for i, (name, c) in enumerate(self.checks)),
            triggers=(),
            key=key.columns,
            key_name=key.index,
            key_problem=key.problem,
        )

    def _settled(self, column: Column, primary: bool) -> Column:
        if column.type.family not in _WITH_CHARSET:
            return replace(column, null=column.null and not primary)
        if column.charset is None and column.collation is None:
            named, sorted_as = self.charset, self.collation
        elif column.collation is not None:
            named, sorted_as = column.charset or column.collation.split("_")[0], column.collation
        else:
            named, sorted_as = column.charset or self.charset, default_collation(column.charset or self.charset)
        return replace(column, null=column.null and not primary, charset=named, collation=sorted_as)


def default_collation(charset: str) -> str:
    return _COLLATIONS.get(charset, f"{charset}_general_ci")


def with_implied(
    indexes: tuple[Index, ...], keys: tuple[ForeignKey, ...], names: Mapping[str, str]
) -> tuple[Index, ...]:
    """The indexes with those that the server makes by itself for foreign keys that no index begins with; ``names`` has
    theirs by the key's name in lower case, else they are called as the key is."""
    found = list(indexes)
    for key in keys:
        wanted = [c.lower() for c in key.columns]
        if not any([c.lower() for c in i.columns[: len(wanted)]] == wanted and i.kind == "BTREE" for i in found):
            name = names.get(key.name.lower(), key.name)
            found.append(Index(name, tuple(IndexPart(c) for c in key.columns)))
    return tuple(found)
