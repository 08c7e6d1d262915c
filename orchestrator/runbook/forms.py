"""The frozen half of a runbook as it is written: table, contract, mappings, invariants, applications.

These models are the edge: they say which keys exist and what each may hold, and their descriptions become the schema
that editors read. Nothing else knows them; ``build`` turns them into the model at once.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema

from orchestrator.model.findings import Wrong
from orchestrator.model.types import ColumnType, parse_type
from orchestrator.mysql.tokens import loose_end


class Form(BaseModel):
    """One mapping of the file. Keys that are not named here are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True, defer_build=True)


def _identifier(value: object) -> object:
    if isinstance(value, str) and (problem := _identifier_problem(value)):
        raise Wrong(f"{value!r} {problem}", "a name that MySQL can have", "choose another name")
    return value


def _identifier_problem(name: str) -> str:
    if not 1 <= len(name) <= 64:
        return f"has {len(name)} characters, a name has 1 to 64"
    if name != name.rstrip():
        return "ends with a blank"
    if odd := next((c for c in name if c == "\0" or ord(c) > 0xFFFF or 0xD800 <= ord(c) <= 0xDFFF), None):
        return f"has the character U+{ord(odd):04X}, which no name can have: the server would store a ? instead"
    return ""


def _type(value: object) -> object:
    if isinstance(value, ColumnType):
        return value
    if not isinstance(value, str):
        raise Wrong(
            f"{value!r} is not a column type", "a type such as varchar(32)", "write the type as in CREATE TABLE"
        )
    if value.count("(") > value.count(")"):
        told = "the type is cut: inside { } a comma ends a value"
        raise Wrong(f"{value!r}: {told}", "the whole type", 'quote it, as in type: "decimal(10,2)"')
    try:
        return parse_type(value)
    except ValueError as error:
        raise Wrong(str(error), "a type such as varchar(32) or bigint unsigned", "write the type alone") from None


def _statement(value: object) -> object:
    if isinstance(value, str) and not value.strip(" \n;"):
        raise Wrong("an empty statement", "one SQL statement", "write it, or delete the line")
    return value.strip(" \n;") if isinstance(value, str) else value


def _sql(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise Wrong("an empty expression", "an SQL expression", "write it, or delete the key")
    return value.strip() if isinstance(value, str) else value


def closed(sql: str) -> str:
    """An expression that stays inside of the parentheses that we put around it. Raises Wrong."""
    if problem := loose_end(sql):
        raise Wrong(f"{sql!r} {problem}", "one SQL expression, whole and without comments", "correct the expression")
    return sql


def _expression(value: object) -> object:
    value = _sql(value)
    return closed(value) if isinstance(value, str) else value


def _shape(value: object) -> str:
    return "<word>" if isinstance(value, str) else "<form>"


Name = Annotated[str, BeforeValidator(_identifier), Field(min_length=1, max_length=64)]
Sql = Annotated[str, BeforeValidator(_sql), Field(min_length=1)]
Expression = Annotated[str, BeforeValidator(_expression), Field(min_length=1)]
Statement = Annotated[str, BeforeValidator(_statement), Field(min_length=1)]
TypeText = Annotated[
    ColumnType, BeforeValidator(_type), WithJsonSchema({"type": "string", "examples": ["varchar(32)"]})
]


class SqlForm(Form):
    sql: Expression = Field(description="An SQL expression.")


DefaultText = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]},
            ]
        }
    ),
]


class ColumnForm(Form):
    name: Name = Field(description="The new column.")
    type: TypeText = Field(description="Its type as in CREATE TABLE, without NULL, DEFAULT or COLLATE.")
    null: bool = Field(default=True, description="Whether it may be NULL.")
    default: DefaultText = Field(
        default=None,
        description="A literal, now(3) / CURRENT_TIMESTAMP(3) for a moment, or {sql: …}. Left out or ~: no default.",
    )
    charset: str | None = Field(
        default=None, pattern=r"^[a-z0-9_]+$", description="Character set. Left out: the table's."
    )
    collation: str | None = Field(
        default=None, pattern=r"^[a-z0-9_]+$", description="Collation. Left out: the table's."
    )
    invisible: bool = Field(default=False, description="Whether SELECT * leaves it out.")
    after: Name | None = Field(default=None, description="The column behind which it stands. Left out: at the end.")
    generated: Expression | None = Field(
        default=None, description="The expression of a generated column; VIRTUAL is only a definition."
    )
    stored: bool = Field(default=False, description="STORED instead of VIRTUAL: computed for every row by a copy.")
    comment: str = Field(default="", max_length=1024, description="COMMENT of the column.")
    writer: str = Field(default="", description="Who writes it: for people, not part of the digest.")
    retire: str = Field(default="", description="When it goes, or what goes when it has taken over: for people.")


class IndexForm(Form):
    name: Name = Field(description="Name of the index.")
    columns: list[Annotated[str, Field(min_length=1)]] = Field(
        min_length=1,
        max_length=16,
        description="Its parts in order: name, name(10) for a prefix, name desc, (expression) for a functional part.",
    )
    kind: Literal["btree", "fulltext"] = Field(
        default="btree", description="fulltext is built while every write waits; that needs a waiver."
    )
    unique: bool = Field(default=False, description="Whether it is UNIQUE.")
    visible: bool | Literal["last"] = Field(
        default=True,
        description="Whether the optimizer sees it. last: built invisible, and shown when all else of ddl is there.",
    )
    serves: str = Field(default="", description="The query that it serves: for people, not part of the digest.")


class CheckForm(Form):
    name: Name = Field(description="Name of the constraint.")
    sql: Expression = Field(description="Its condition. It is declared NOT ENFORCED: enforcing it is a later contract.")


Action = Literal["restrict", "cascade", "set null", "no action"]


class ForeignKeyForm(Form):
    name: Name = Field(description="Name of the constraint.")
    columns: list[Name] = Field(min_length=1, description="Columns of this table.")
    references: str = Field(description="Parent and its columns: Table(id), or schema.Table(a, b).")
    on_delete: Action = Field(default="restrict", description="What becomes of the row when its parent goes.")
    on_update: Action = Field(default="restrict", description="What becomes of the row when its parent's key changes.")
    why: str = Field(default="", description="Why the rules are so: for people, not part of the digest.")


class StandingColumnForm(ColumnForm):
    on_update: bool = Field(default=False, description="ON UPDATE CURRENT_TIMESTAMP.")
    auto_increment: bool = Field(default=False, description="AUTO_INCREMENT.")


class StandingIndexForm(IndexForm):
    kind: Literal["btree", "fulltext", "spatial"] = Field(  # type: ignore[assignment] # one kind more than can be added
        default="btree", description="Kind of the index."
    )
    visible: bool = Field(default=True, description="Whether the optimizer sees it.")


class ChildForm(ForeignKeyForm):
    table: str = Field(min_length=1, description="The table that holds the key, as Table or schema.Table.")


class BeforeForm(Form):
    collation: str = Field(default="", pattern=r"^[a-z0-9_]*$", description="Default collation of the table.")
    columns: list[StandingColumnForm] = Field(min_length=1, description="Every column, in its physical order.")
    indexes: list[StandingIndexForm] = Field(
        default_factory=list, description="Every index; the primary key is called PRIMARY."
    )
    foreign_keys: list[ForeignKeyForm] = Field(default_factory=list, description="Every foreign key of the table.")
    children: list[ChildForm] = Field(
        default_factory=list, description="Foreign keys of other tables into this one, for their delete rules."
    )


class TableForm(Form):
    schema_: Name = Field(alias="schema", description="Schema (database) of the table.")
    name: Name = Field(description="The physical table.")
    key: list[Name] | None = Field(
        default=None,
        min_length=1,
        description="Columns of the unique key that rows are walked by. Left out: found by itself.",
    )
    before: BeforeForm | None = Field(
        default=None,
        description="The table as it stands before, frozen too: with it, drift tells later work from what was there.",
    )


class RenameForm(Form):
    old: Name = Field(description="The column as it is called now.")
    new: Name = Field(description="The name that it shall have.")
    way: Literal["mirror", "map", "rename"] = Field(
        description="mirror: a new column and a mapping keep both; map: only the model's name changes, no DDL; "
        "rename: in place, which needs the waiver rename-in-place and the proof of rollout compat."
    )


class ContractForm(Form):
    columns: list[ColumnForm] = Field(
        default_factory=list, description="Every column that is added; nothing else may be."
    )
    changes: list[ColumnForm] = Field(
        default_factory=list, description="Existing columns made wider, each written whole as it shall be afterwards."
    )
    indexes: list[IndexForm] = Field(default_factory=list, description="Every index that is added.")
    foreign_keys: list[ForeignKeyForm] = Field(default_factory=list, description="Every foreign key that is added.")
    checks: list[CheckForm] = Field(default_factory=list, description="Every CHECK that is added, each NOT ENFORCED.")
    allow_rebuild: str = Field(
        default="",
        description="The reason why the whole table may be rebuilt or copied. Left out: it may not.",
    )
    renames: list[RenameForm] = Field(
        default_factory=list, description="Columns that get another name, each with the way to it."
    )


class TransformForm(Form):
    values: dict[str, str | None] | None = Field(
        default=None, min_length=1, description="Value to value; ~ on the right is NULL."
    )
    null_value: str | None = Field(
        default=None, description="What NULL becomes. Left out: NULL is unmapped like any other value."
    )
    unmapped: Literal["refuse", "keep"] = Field(default="refuse", description="What a value that is not named does.")
    match: Literal["exact", "collation"] = Field(
        default="exact", description="How values compare: byte for byte, or as the column."
    )
    sql: Expression | None = Field(default=None, description="A deterministic expression over columns of the row.")


Transform = Annotated[
    Annotated[Literal["copy"], Tag("<word>")] | Annotated[TransformForm, Tag("<form>")], Discriminator(_shape)
]


class MappingForm(Form):
    old: Name | None = Field(default=None, description="The existing column.")
    new: Name = Field(description="The new column; one of contract.columns.")
    forward: Transform = Field(description="How the new value comes from the old: copy, {values: …} or {sql: …}.")
    backward: Transform | None = Field(
        default=None, description="How the old value comes from the new. Left out: derived."
    )
    on_conflict: Literal["new_wins", "old_wins"] = Field(
        default="new_wins",
        description="Whose value stays when one statement changes both to values that do not correspond.",
    )
    follows: bool = Field(default=False, description="Derived columns only: always forward(…), not only filled once.")
    why: str = Field(default="", description="Why the values correspond so: for people, not part of the digest.")


class InvariantForm(Form):
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", description="Its name in reports.")
    sql: Expression = Field(description="A condition that every row must hold; NULL counts as held.")


class ApplicationsForm(Form):
    old: list[Statement] = Field(default_factory=list, description="What the old version says to the table.")
    new: list[Statement] = Field(default_factory=list, description="What the new version says to the table.")
