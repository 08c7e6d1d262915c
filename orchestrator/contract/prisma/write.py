"""A contract's whole table as a Prisma schema: the model with its relations, and stubs of the tables beside it.

Names that Prisma cannot have become ``@map``; what its language cannot say is left out (``tables.UNSAID``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from orchestrator.model.contract import Before, Column, Contract, ForeignKey, Index, IndexPart, RenameWay, TableName
from orchestrator.model.renaming import standing_after
from orchestrator.model.types import ColumnType, Family
from orchestrator.model.walking_key import PRIMARY

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WHOLE = re.compile(r"-?\d{1,18}")
_ACTIONS = {"CASCADE": "Cascade", "RESTRICT": "Restrict", "SET NULL": "SetNull"}
_RESERVED = frozenset({"model", "enum", "type", "view", "datasource", "generator", "null", "true", "false"})
_PLAIN = {"varchar(191)": "String", "int": "Int", "bigint": "BigInt", "double": "Float", "json": "Json"} | {
    "decimal(65,30)": "Decimal",
    "datetime(3)": "DateTime",
    "longblob": "Bytes",
}
_NATIVE = {"text": "Text", "tinytext": "TinyText", "mediumtext": "MediumText", "longtext": "LongText"} | {
    "tinyblob": "TinyBlob",
    "blob": "Blob",
    "mediumblob": "MediumBlob",
    "varchar": "VarChar",
    "char": "Char",
    "varbinary": "VarBinary",
    "binary": "Binary",
    "datetime": "DateTime",
    "timestamp": "Timestamp",
    "date": "Date",
    "time": "Time",
    "smallint": "SmallInt",
    "mediumint": "MediumInt",
    "tinyint": "TinyInt",
    "int": "Int",
    "bigint": "BigInt",
    "year": "Year",
    "float": "Float",
    "decimal": "Decimal",
    "bit": "Bit",
}
_SCALARS = {
    Family.TEXT: "String",
    Family.BINARY: "Bytes",
    Family.TEMPORAL: "DateTime",
    Family.TIME: "DateTime",
    Family.INTEGER: "Int",
    Family.YEAR: "Int",
    Family.FLOAT: "Float",
    Family.DECIMAL: "Decimal",
    Family.BIT: "Bytes",
}
HEAD = 'datasource db {\n  provider = "mysql"\n}\n\ngenerator client {\n  provider = "prisma-client-js"\n}\n'


class _Schema(Struct):
    """Names given so far, and the blocks beside the model."""

    model: str
    fields: dict[str, str]
    enums: list[str] = field(default_factory=list)
    stubs: dict[str, list[str]] = field(default_factory=dict)


def write_schema(contract: Contract, model: str = "") -> str:
    """A schema that ``prisma validate`` takes, and that reads back as the contract. ``model``: its name, else the
    table's. The contract must say what stood before."""
    return HEAD + "\n" + write_model(contract, model)


def write_model(contract: Contract, model: str = "") -> str:
    """The model, its enums and the stubs of its relations, without datasource and generator."""
    before = standing_after(contract) or Before(())
    columns = {c.name: c for c in (*before.columns, *contract.columns)} | {c.name: c for c in contract.changes}
    named = model or _identifier(contract.table.name, set())
    schema = _Schema(named, _field_names(columns, _model_names(contract)))
    lines = [_column_line(c, schema) for c in columns.values()]
    keys = (*before.foreign_keys, *contract.foreign_keys)
    lines += [line for key in keys for line in _relation_lines(contract.table, key, columns, schema)]
    lines += [line for held, key in before.children for line in _child_lines(held, key, columns, schema)]
    lines += [""] + [line for i in (*before.indexes, *contract.indexes) if (line := _index_line(i, schema))]
    if named != contract.table.name:
        lines.append(f"@@map({_text(contract.table.name)})")
    blocks = [_block("model", named, lines), *(_block("model", n, of) for n, of in schema.stubs.items()), *schema.enums]
    return "\n".join(blocks)


def field_names(contract: Contract) -> dict[str, str]:
    """What the model calls each column, by the column's name in lower case."""
    before = standing_after(contract) or Before(())
    return _field_names({c.name: c for c in (*before.columns, *contract.columns)}, _model_names(contract))


def _block(kind: str, name: str, lines: list[str]) -> str:
    return f"{kind} {name} {{\n" + "".join(f"  {line}\n" if line else "\n" for line in lines) + "}\n"


def _model_names(contract: Contract) -> dict[str, str]:
    """Columns that only the model calls otherwise."""
    return {r.old.lower(): r.new for r in contract.renames if r.way is RenameWay.MAP}


def _field_names(columns: Mapping[str, Column], otherwise: Mapping[str, str]) -> dict[str, str]:
    taken: set[str] = set()
    found = {}
    for name in columns:
        found[name.lower()] = _identifier(otherwise.get(name.lower(), name), taken)
        taken.add(found[name.lower()])
    return found


def _identifier(name: str, taken: set[str]) -> str:
    """A name that Prisma can have and that is not taken, as near to this one as may be."""
    base = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "x"
    base = base if _NAME.fullmatch(base) and base not in _RESERVED else f"x_{base}"
    return base if base not in taken else next(f"{base}_{n}" for n in range(2, 10_000) if f"{base}_{n}" not in taken)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _column_line(column: Column, schema: _Schema) -> str:
    name = schema.fields[column.name.lower()]
    kind, native = _type(column, name, schema)
    words = [name, kind + ("?" if column.null else "")]
    if column.auto_increment:
        words.append("@default(autoincrement())")
    elif column.default is not None and column.generated is None:
        words.append(f"@default({_default(column)})")
    words += ["@updatedAt"] if column.on_update else []
    words += [f"@map({_text(column.name)})"] if name != column.name else []
    words += [f"@db.{native}"] if native else []
    return " ".join(words)


def _type(column: Column, name: str, schema: _Schema) -> tuple[str, str]:
    """Prisma's type and its native type."""
    kind = column.type
    if kind.family is Family.ENUM:
        return _enum(kind, name, schema), ""
    if str(kind) in _PLAIN:
        return _PLAIN[str(kind)], ""
    if kind.base not in _NATIVE or kind.family not in _SCALARS:
        return f"Unsupported({_text(str(kind))})", ""
    scalar = "BigInt" if kind.base == "bigint" else _SCALARS[kind.family]
    numbers = [n for n in (kind.length, kind.scale) if n is not None]
    if kind.base in ("datetime", "timestamp", "time"):
        numbers = [kind.length or 0]
    args = f"({', '.join(map(str, numbers))})" if numbers else ""
    unsigned = "Unsigned" if kind.unsigned and kind.family is Family.INTEGER else ""
    return scalar, f"{unsigned}{_NATIVE[kind.base]}{args}"


def _enum(kind: ColumnType, name: str, schema: _Schema) -> str:
    enum = f"{schema.model}_{name}"
    taken: set[str] = set()
    lines = []
    for label in kind.labels:
        value = _identifier(label, taken)
        taken.add(value)
        lines.append(value if value == label else f"{value} @map({_text(label)})")
    schema.enums.append(_block("enum", enum, lines))
    return enum


def _default(column: Column) -> str:
    default, kind = column.default, column.type
    assert default is not None
    if default.is_expression:
        if default.text.startswith("CURRENT_TIMESTAMP"):
            return "now()"
        return f"dbgenerated({_text(default.text)})"
    if kind.family is Family.ENUM:
        taken: set[str] = set()
        for label in kind.labels:
            value = _identifier(label, taken)
            taken.add(value)
            if label == default.text:
                return value
    if kind.family in (Family.INTEGER, Family.YEAR) and _WHOLE.fullmatch(default.text):
        return default.text
    if kind.family is Family.TEXT and kind.base in ("varchar", "char"):
        return _text(default.text)
    if kind.family in (Family.INTEGER, Family.DECIMAL, Family.FLOAT, Family.BIT) or default.text.startswith("0x"):
        return f"dbgenerated({_text(default.text)})"
    return "dbgenerated(" + _text("'" + default.text.replace("'", "''") + "'") + ")"


def _index_line(index: Index, schema: _Schema) -> str:
    """ "" for an index over an expression, which Prisma cannot say."""
    if any(p.expression is not None for p in index.parts):
        return ""
    parts = ", ".join(_part(p, schema) for p in index.parts)
    if index.name == PRIMARY:
        return f"@@id([{parts}])"
    word = "fulltext" if index.kind == "FULLTEXT" else "unique" if index.unique else "index"
    return f"@@{word}([{parts}], map: {_text(index.name)})"


def _part(part: IndexPart, schema: _Schema) -> str:
    said = [f"length: {part.prefix}"] if part.prefix else []
    said += ["sort: Desc"] if part.descending else []
    return schema.fields[part.column.lower()] + (f"({', '.join(said)})" if said else "")


def _relation_lines(mine: TableName, key: ForeignKey, columns: Mapping[str, Column], schema: _Schema) -> Iterator[str]:
    """The field that holds the key; the other side goes to the parent's stub, or stands here for a self-reference."""
    own = [c for n in key.columns for c in columns.values() if c.name.lower() == n.lower()]
    optional = "?" if all(c.null for c in own) else ""
    relation = _identifier(key.name, set())
    to_self = key.references == mine
    parent = schema.model if to_self else _identifier(key.references.name, {schema.model})
    names = schema.fields if to_self else {n.lower(): _identifier(n, set()) for n in key.referenced_columns}
    said = [
        _text(relation),
        "fields: [" + ", ".join(schema.fields[c.lower()] for c in key.columns) + "]",
        "references: [" + ", ".join(names[c.lower()] for c in key.referenced_columns) + "]",
        f"onDelete: {_ACTIONS[key.on_delete.replace('NO ACTION', 'RESTRICT')]}",
        f"onUpdate: {_ACTIONS[key.on_update.replace('NO ACTION', 'RESTRICT')]}",
        f"map: {_text(key.name)}",
    ]
    yield f"{_fresh(f'to_{relation}', schema)} {parent}{optional} @relation({', '.join(said)})"
    back = f"{_fresh(f'by_{relation}', schema)} {schema.model}[] @relation({_text(relation)})"
    if to_self:
        yield back
        return
    stub = schema.stubs.setdefault(parent, [])
    for name, like in zip(key.referenced_columns, own, strict=True):
        _stub_column(stub, Column(name, like.type, null=False), names[name.lower()], schema)
    _stub_key(stub, [names[n.lower()] for n in key.referenced_columns])
    stub.append(back)
    _stub_map(stub, parent, key.references)


def _child_lines(held: TableName, key: ForeignKey, columns: Mapping[str, Column], schema: _Schema) -> Iterator[str]:
    """The list on this side; the field that holds the key stands in the child's stub."""
    relation = _identifier(f"{held.name}_{key.name}", set())
    child = _identifier(held.name, {schema.model})
    stub = schema.stubs.setdefault(child, [])
    optional = "?" if "SET NULL" in (key.on_delete, key.on_update) else ""
    own = [_identifier(n, set()) for n in key.columns]
    parents = [c for n in key.referenced_columns for c in columns.values() if c.name.lower() == n.lower()]
    for name, written, like in zip(key.columns, own, parents, strict=True):
        _stub_column(stub, Column(name, like.type, null=bool(optional)), written, schema)
    said = (
        f"{_text(relation)}, fields: [{', '.join(own)}], "
        f"references: [{', '.join(schema.fields[c.lower()] for c in key.referenced_columns)}], "
        f"onDelete: {_ACTIONS[key.on_delete]}, onUpdate: {_ACTIONS[key.on_update]}, map: {_text(key.name)}"
    )
    if not any(line.startswith(("stub_id ", "@@id", "@@unique")) for line in stub):
        stub.insert(0, "stub_id Int @id")
    stub.append(f"to_{relation} {schema.model}{optional} @relation({said})")
    _stub_map(stub, child, held)
    yield f"{_fresh(f'by_{relation}', schema)} {child}[] @relation({_text(relation)})"


def _stub_column(stub: list[str], column: Column, name: str, schema: _Schema) -> None:
    if any(line.split(" ", 1)[0] == name for line in stub):
        return
    kind, native = _type(column, name, schema)
    mapped = f" @map({_text(column.name)})" if name != column.name else ""
    stub.append(f"{name} {kind}{'?' if column.null else ''}{mapped}{f' @db.{native}' if native else ''}")


def _stub_key(stub: list[str], names: list[str]) -> None:
    line = f"@@unique([{', '.join(names)}])"
    if line not in stub:
        stub.append(line)


def _stub_map(stub: list[str], name: str, table: TableName) -> None:
    line = f"@@map({_text(table.name)})"
    if name != table.name and line not in stub:
        stub.append(line)


def _fresh(name: str, schema: _Schema) -> str:
    """A field name of this model that no column has."""
    return _identifier(name, set(schema.fields.values()))
