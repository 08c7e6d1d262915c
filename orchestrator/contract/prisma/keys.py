"""Indexes of a model, the tables behind implicit many-to-many relations, and the names that Prisma gives to both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from orchestrator.contract.prisma.columns import Unreadable, column_name
from orchestrator.contract.prisma.syntax import Argument, Attribute, Block, Call, Number, Value
from orchestrator.model.contract import ForeignKey, Index, IndexPart, TableName
from orchestrator.model.types import LENGTH
from orchestrator.model.walking_key import PRIMARY

_LONGEST_BYTES = 64


class Join(Struct, frozen=True):
    """The table of an implicit many-to-many relation."""

    table: TableName
    foreign_keys: tuple[ForeignKey, ...]


def index_name(table: str, columns: Sequence[str], suffix: str) -> str:
    """``TABLE_COLUMNS_SUFFIX``, with its middle cut where MySQL's names end."""
    body = "_".join((table, *columns)).encode()[: _LONGEST_BYTES - len(suffix)]
    return body.decode(errors="ignore") + suffix


def indexes(model: Block, table: str) -> Iterator[tuple[Index, int]]:
    """Every index that the model says, with its line; the primary key first. Raises Unreadable."""
    found = [*_of_fields(model, table), *_of_model(model, table)]
    yield from sorted(found, key=lambda f: f[0].name != PRIMARY)


def _of_fields(model: Block, table: str) -> Iterator[tuple[Index, int]]:
    for field in model.fields:
        for name in ("id", "unique"):
            attribute = field.attribute(name)
            if attribute is None:
                continue
            column = column_name(field)
            parts = (_part(column, attribute.arguments, attribute.line),)
            named = PRIMARY if name == "id" else _named(attribute, index_name(table, (column,), "_key"))
            yield Index(named, parts, unique=True), attribute.line


def _of_model(model: Block, table: str) -> Iterator[tuple[Index, int]]:
    for attribute in model.attributes:
        if attribute.name not in ("id", "unique", "index", "fulltext"):
            continue
        parts = tuple(_parts(model, attribute))
        if not parts:
            raise Unreadable(attribute.line, f"@@{attribute.name} without fields", "a list of fields")
        columns = [p.column for p in parts]
        unique = attribute.name in ("id", "unique")
        given = index_name(table, columns, "_key" if unique else "_idx")
        name = PRIMARY if attribute.name == "id" else _named(attribute, given)
        kind = "FULLTEXT" if attribute.name == "fulltext" else "BTREE"
        yield Index(name, parts, unique=unique, kind=kind), attribute.line


def _named(attribute: Attribute, otherwise: str) -> str:
    """The physical name. On @@index and @@fulltext ``name`` is an older word for ``map``; else it is the client's."""
    mapped = attribute.given("map")
    if mapped is None and attribute.name in ("index", "fulltext"):
        mapped = attribute.given("name")
    return mapped if isinstance(mapped, str) else otherwise


def _parts(model: Block, attribute: Attribute) -> Iterator[IndexPart]:
    listed = attribute.first("fields")
    for value in listed if isinstance(listed, tuple) else ():
        field = model.field(value.name) if isinstance(value, Call) else None
        if field is None or not isinstance(value, Call):
            raise Unreadable(attribute.line, f"@@{attribute.name} names {_shown(value)}", f"a field of {model.name}")
        yield _part(column_name(field), value.arguments, attribute.line)


def _part(column: str, arguments: Sequence[Argument], line: int) -> IndexPart:
    said = {a.name: a.value for a in arguments}
    length, sort = said.get("length"), said.get("sort")
    if isinstance(length, Number) and not LENGTH.fullmatch(length.text):
        raise Unreadable(line, f"length: {length.text[:20]}", "a whole number of at most ten digits")
    prefix = int(length.text) if isinstance(length, Number) else None
    return IndexPart(column, prefix, descending=isinstance(sort, Call) and sort.name == "Desc")


def _shown(value: Value) -> str:
    return value.name if isinstance(value, Call) else str(value)


def many_to_many(models: Mapping[str, Block], tables: Mapping[str, TableName], schema: str) -> Iterator[Join]:
    """Lists on both sides without a key between them: Prisma makes a table ``_AToB`` with the columns A and B."""
    lists = [
        (block.name, field.type, _relation_name(field.attribute("relation")))
        for block in models.values()
        for field in block.fields
        if field.many and field.type in models
    ]
    keyed = {
        (block.name, field.type, _relation_name(attribute))
        for block in models.values()
        for field in block.fields
        if (attribute := field.attribute("relation")) is not None and attribute.given("fields") is not None
    } | {
        (block.name, field.type, _relation_name(field.attribute("relation")))
        for block in models.values()
        for field in block.fields
        if field.type in models and not field.many
    }
    made: set[str] = set()
    for one, other, named in lists:
        both = (other, one, named) in lists and (one != other or lists.count((one, other, named)) > 1 or bool(named))
        if not both or (one, other, named) in keyed or (other, one, named) in keyed:
            continue
        first, second = sorted((one, other))
        name = f"_{named or f'{first}To{second}'}"
        if name not in made:
            made.add(name)
            yield Join(TableName(schema, name), tuple(_join_keys(models, tables, name, (first, second))))


def _join_keys(
    models: Mapping[str, Block], tables: Mapping[str, TableName], name: str, sides: tuple[str, str]
) -> Iterator[ForeignKey]:
    for letter, side in zip("AB", sides, strict=True):
        key = next((f for f in models[side].fields if f.attribute("id") is not None), None)
        if key is not None:
            parents = (column_name(key),)
            yield ForeignKey(f"{name}_{letter}_fkey", (letter,), tables[side], parents, "CASCADE", "CASCADE")


def _relation_name(attribute: Attribute | None) -> str:
    value = attribute.first("name") if attribute is not None else None
    return value if isinstance(value, str) else ""
