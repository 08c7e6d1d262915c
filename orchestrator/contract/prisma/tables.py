"""From the models of a Prisma schema to the tables that Prisma Migrate makes of them on MySQL.

Names, indexes and referential actions that are not written are those that Prisma gives. What its language cannot say
(collations, ON UPDATE, generated and invisible columns, CHECKs, the order of columns) is ``unsaid``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from orchestrator.contract.ddl.draft import with_implied
from orchestrator.contract.prisma.columns import SCALARS, Unreadable, column, column_name
from orchestrator.contract.prisma.keys import index_name, indexes, many_to_many
from orchestrator.contract.prisma.syntax import Attribute, Block, Call, Field, Value, read_blocks
from orchestrator.contract.target import Source, Target, Unsaid
from orchestrator.model.contract import Column, ForeignKey, Index, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.findings import FileFindings, Finding
from orchestrator.model.walking_key import choose_key

UNSAID = frozenset(Unsaid)
_ACTIONS = {"Cascade": "CASCADE", "Restrict": "RESTRICT", "NoAction": "RESTRICT", "SetNull": "SET NULL"}


def read_models(sources: Sequence[Source], schema: str) -> tuple[Target, ...]:
    """Every table of the schema, however many files it has. Raises FileFindings with file and line."""
    blocks = [block for source in sources for block in read_blocks(source.text, source.path)]
    reading = _Reading(blocks, schema)
    return reading.targets()


class _Reading:
    def __init__(self, blocks: Sequence[Block], schema: str) -> None:
        self._schema = schema
        self._models = {b.name: b for b in blocks if b.kind == "model"}
        self._enums = {b.name: b for b in blocks if b.kind == "enum"}
        self._prisma_keeps_relations = False
        for block in blocks:
            self._source(block)
        self._once(blocks)
        self._tables = {name: self._table_of(block) for name, block in self._models.items()}

    def _source(self, block: Block) -> None:
        if block.kind != "datasource":
            return
        provider = block.settings.get("provider")
        if provider != "mysql":
            _refuse(
                block, block.line, f"the provider is {provider if isinstance(provider, str) else 'not said'}", "mysql"
            )
        self._prisma_keeps_relations = block.settings.get("relationMode") == "prisma"

    def _once(self, blocks: Sequence[Block]) -> None:
        seen: set[str] = set()
        for block in blocks:
            if block.kind in ("model", "view", "enum", "type"):
                if block.name in seen:
                    _refuse(block, block.line, f"{block.name} is there twice", "each name once")
                seen.add(block.name)
            names: set[str] = set()
            for field in block.fields:
                if field.name in names:
                    _refuse(block, field.line, f"{block.name}.{field.name} is there twice", "each field once")
                names.add(field.name)

    def _table_of(self, model: Block) -> TableName:
        mapped = model.attribute("map")
        name = mapped.first("name") if mapped is not None else None
        return TableName(self._schema, name if isinstance(name, str) else model.name)

    def targets(self) -> tuple[Target, ...]:
        keys = {name: tuple(self._foreign_keys(block)) for name, block in self._models.items()}
        joins = list(many_to_many(self._models, self._tables, self._schema))
        held = [(self._tables[n], f) for n, fs in keys.items() for f in fs]
        held += [(join.table, key) for join in joins for key in join.foreign_keys]
        tables = frozenset([*self._tables.values(), *(j.table for j in joins)])
        return tuple(self._target(block, keys[name], held, tables) for name, block in self._models.items())

    def _target(
        self,
        model: Block,
        keys: tuple[ForeignKey, ...],
        held: Sequence[tuple[TableName, ForeignKey]],
        tables: frozenset[TableName],
    ) -> Target:
        table = self._tables[model.name]
        columns = tuple(self._columns(model))
        found, lines = self._indexes(model, table)
        walking = choose_key(columns, found)
        shape = Shape(
            table=table,
            kind="BASE TABLE",
            engine="InnoDB",
            charset="",
            collation="",
            row_format="",
            partitioned=False,
            columns=columns,
            indexes=with_implied(found, keys, {}),
            foreign_keys=keys,
            referenced_by=tuple((t, f) for t, f in held if f.references == table),
            checks=(),
            triggers=(),
            key=walking.columns,
            key_name=walking.index,
            key_problem=walking.problem,
        )
        lines |= {("table", ""): model.line}
        lines |= {("column", column_name(f).lower()): f.line for f in model.fields}
        lines |= {
            ("foreign key", k.name.lower()): line for k, line in zip(keys, self._relation_lines(model), strict=True)
        }
        return Target(model.path, shape, lines, tables, UNSAID)

    def _columns(self, model: Block) -> Iterator[Column]:
        for field in model.fields:
            if self._is_relation(field):
                continue
            try:
                yield column(field, self._enums)
            except Unreadable as error:
                _refuse(model, error.line, f"{model.name}: {error.seen}", error.expected)

    def _is_relation(self, field: Field) -> bool:
        return not field.unsupported and field.type not in SCALARS and field.type in self._models

    def _indexes(self, model: Block, table: TableName) -> tuple[tuple[Index, ...], dict[tuple[str, str], int]]:
        try:
            found = list(indexes(model, table.name))
        except Unreadable as error:
            _refuse(model, error.line, f"{model.name}: {error.seen}", error.expected)
        return tuple(i for i, _ in found), {("index", i.name.lower()): line for i, line in found}

    def _relations(self, model: Block) -> Iterator[tuple[Field, Attribute]]:
        """Fields that hold a foreign key: those whose @relation names fields."""
        for field in model.fields:
            attribute = field.attribute("relation")
            if attribute is None or attribute.given("fields") is None:
                continue
            if field.type not in self._models:
                _refuse(model, field.line, f"{model.name}.{field.name} refers to {field.type}", "a model of the schema")
            if not self._prisma_keeps_relations:
                yield field, attribute

    def _relation_lines(self, model: Block) -> list[int]:
        return [field.line for field, _ in self._relations(model)]

    def _foreign_keys(self, model: Block) -> Iterator[ForeignKey]:
        for field, attribute in self._relations(model):
            parent = self._models[field.type]
            own = [self._field(model, n, attribute) for n in names_of(attribute.given("fields"))]
            others = [self._field(parent, n, attribute, model) for n in names_of(attribute.given("references"))]
            if not own or len(own) != len(others):
                _refuse(model, attribute.line, f"{model.name}.{field.name}: fields and references", "as many of both")
            columns = tuple(column_name(f) for f in own)
            required = any(not f.optional for f in own) or not field.optional
            mapped = attribute.given("map")
            name = mapped if isinstance(mapped, str) else index_name(self._tables[model.name].name, columns, "_fkey")
            yield ForeignKey(
                name=name,
                columns=columns,
                references=self._tables[parent.name],
                referenced_columns=tuple(column_name(f) for f in others),
                on_delete=self._action(model, attribute, "onDelete", "RESTRICT" if required else "SET NULL"),
                on_update=self._action(model, attribute, "onUpdate", "CASCADE"),
            )

    def _field(self, of: Block, name: str, attribute: Attribute, told_in: Block | None = None) -> Field:
        field = of.field(name)
        if field is None:
            _refuse(told_in or of, attribute.line, f"there is no field {of.name}.{name}", f"a field of {of.name}")
        return field

    def _action(self, model: Block, attribute: Attribute, name: str, default: str) -> str:
        value = attribute.given(name)
        if value is None:
            return default
        said = value.name if isinstance(value, Call) else ""
        if said not in _ACTIONS:
            _refuse(model, attribute.line, f"{name}: {said or value}", f"one of {', '.join(_ACTIONS)}")
        return _ACTIONS[said]


def names_of(value: Value | None) -> list[str]:
    """``[a, b]`` as names."""
    return [v.name for v in value if isinstance(v, Call)] if isinstance(value, tuple) else []


def _refuse(block: Block, line: int, seen: str, expected: str) -> NoReturn:
    raise FileFindings(block.path, [Finding(line, seen, expected, "correct the schema; prisma validate shows more")])
