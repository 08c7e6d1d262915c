"""Whole tables by chance, as contracts, and the DDL that makes them; and shapes as contracts."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.model.contract import Before, Column, Contract, Default, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.types import ColumnType, Family, parse_type
from orchestrator.mysql.quote import name, table
from orchestrator.mysql.sql.alter import column_definition, foreign_key_definition, index_definition

COLLATION = "utf8mb4_unicode_ci"
_DEFAULTS: dict[str, tuple[str, ...]] = {
    "int": ("0", "-7", "2147483647"),
    "bigint unsigned": ("0", "18446744073709551615"),
    "tinyint": ("0", "1"),
    "decimal(12,2)": ("0.00", "1.50"),
    "double": ("0", "1.5"),
    "varchar(32)": ("", "it's", "a b", "0", "NULL", "ü€"),
    "varchar(191)": ("x",),
    "char(8)": ("abc",),
    "enum('new','it''s','done')": ("new", "it's"),
    "set('a','b')": ("a", "a,b"),
    "datetime(3)": ("2020-01-01 00:00:00.000",),
    "date": ("2020-02-29",),
    "varbinary(16)": ("ab",),
    "binary(4)": ("abcd",),
}
_TYPES = (
    *_DEFAULTS,
    "text",
    "mediumtext",
    "json",
    "blob",
    "timestamp",
    "time(2)",
    "smallint unsigned",
    "year",
    "bit(3)",
)
_NAMES = ("a", "Status", "order", "100%", "a b", "ke`y", "ünï", "select", "id2", "x_y", "Kind", "z", "q'q", "h-y")


@st.composite
def columns(draw: st.DrawFn, named: str) -> Column:
    written = draw(st.sampled_from(_TYPES))
    kind = parse_type(written)
    null = draw(st.booleans())
    default = None
    if written in _DEFAULTS and draw(st.booleans()):
        default = Default(draw(st.sampled_from(_DEFAULTS[written])))
    elif kind.base in ("datetime", "timestamp") and draw(st.booleans()):
        digits = f"({kind.length})" if kind.length else ""
        default = Default(f"CURRENT_TIMESTAMP{digits}", is_expression=True)
    on_update = default is not None and default.is_expression and draw(st.booleans())
    text = kind.family in (Family.TEXT, Family.ENUM, Family.SET)
    collation = draw(st.sampled_from((None, None, None, "latin1_bin", "utf8mb4_bin"))) if text else None
    if collation == "latin1_bin" and default is not None and not default.text.isascii():
        collation = None
    return Column(
        named,
        kind,
        null=null,
        default=default,
        on_update=on_update,
        charset=None if collation is None else collation.split("_")[0],
        collation=collation,
        invisible=draw(st.integers(0, 9)) == 0,
        comment=draw(st.sampled_from(("", "", "what it's for"))),
    )


@st.composite
def contracts(draw: st.DrawFn, schema: str, said_by_prisma: bool = False) -> Contract:
    """A table ``t`` with the key ``id``, columns before and added, indexes, and keys to ``parent`` and to itself."""
    names = draw(st.permutations(_NAMES))
    made = [draw(columns(n)) for n in names[: draw(st.integers(2, 7))]]
    if said_by_prisma:
        made = [replace(c, collation=None, charset=None, invisible=False, on_update=False, comment="") for c in made]
    split = draw(st.integers(1, len(made) - 1))
    id_column = Column("id", parse_type("bigint"), null=False, auto_increment=True)
    link = Column("parent_id", parse_type("int"))
    up = Column("up_id", parse_type("bigint"))
    stood, added = (id_column, link, *made[:split]), (*made[split:], up)
    parent = TableName(schema, "parent")
    me = TableName(schema, "t")
    rule = st.sampled_from(("RESTRICT", "CASCADE", "SET NULL"))
    return Contract(
        table=me,
        columns=added,
        indexes=(*draw(indexes(made, "new")), Index("t_up_idx", (IndexPart("up_id"),))),
        foreign_keys=(ForeignKey("t_up_fk", ("up_id",), me, ("id",), draw(rule), "RESTRICT"),),
        before=Before(
            columns=stood,
            indexes=(
                Index("PRIMARY", (IndexPart("id"),), unique=True),
                Index("t_parent_idx", (IndexPart("parent_id"),)),
                *draw(indexes(made[:split], "old")),
            ),
            foreign_keys=(ForeignKey("t_parent_fk", ("parent_id",), parent, ("id",), draw(rule), draw(rule)),),
            collation=COLLATION,
        ),
    )


@st.composite
def indexes(draw: st.DrawFn, over: list[Column], start: str) -> tuple[Index, ...]:
    usable = [c for c in over if c.type.family not in (Family.JSON, Family.BIT, Family.SET)]
    found = []
    for number in range(draw(st.integers(0, 2)) if usable else 0):
        chosen = draw(st.lists(st.sampled_from(usable), min_size=1, max_size=3, unique_by=lambda c: c.name))
        parts = tuple(IndexPart(c.name, prefix=_prefix(draw, c.type), descending=draw(st.booleans())) for c in chosen)
        found.append(Index(f"t_{start}_{number}", parts, unique=draw(st.booleans())))
    return tuple(found)


def _prefix(draw: st.DrawFn, kind: ColumnType) -> int | None:
    if kind.byte_limit is not None:
        return draw(st.integers(1, 20))
    if kind.base in ("varchar", "varbinary") and draw(st.booleans()):
        return draw(st.integers(1, (kind.length or 2) - 1))
    return None


def ddl(contract: Contract) -> str:
    """CREATE TABLE of the whole table, before and added together, as the server takes it."""
    before = contract.before
    assert before is not None
    lines = [column_definition(c) for c in (*before.columns, *contract.columns)]
    lines += [_index(i) for i in (*before.indexes, *contract.indexes)]
    lines += [foreign_key_definition(f) for f in (*before.foreign_keys, *contract.foreign_keys)]
    options = f"ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE={before.collation}"
    return f"CREATE TABLE {table(contract.table)} (\n  " + ",\n  ".join(lines) + f"\n) {options}"


def _index(index: Index) -> str:
    if index.name == "PRIMARY":
        return "PRIMARY KEY (" + ", ".join(name(p.column) for p in index.parts) + ")"
    return index_definition(index)


def contract_of(shape: Shape) -> Contract:
    """A contract that names exactly what the table has, its last column as the one that is added."""
    return Contract(
        table=shape.table,
        columns=shape.columns[-1:],
        before=Before(
            columns=shape.columns[:-1],
            indexes=shape.indexes,
            foreign_keys=shape.foreign_keys,
            collation=shape.collation,
            children=tuple((t, f) for t, f in shape.referenced_by if t != shape.table),
        ),
    )
