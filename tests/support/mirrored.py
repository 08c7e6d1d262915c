"""A table, a contract on it, and the mirror between its columns, for tests that say both in a few words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.model.contract import Column, Contract, Default, Mapping, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.types import parse_type
from orchestrator.mysql import quote
from orchestrator.mysql.pinned import SQL_MODE
from orchestrator.mysql.relation import Relation, load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import mirror
from orchestrator.sandbox.server import Server
from orchestrator.settings import Secret, ServerSettings
from tests.support.servers import script
from tests.support.shapes import live_shape


def cell(column: str) -> str:
    return f"t.{quote.name(column)}"


def settings_of(server: Server, user: str = "rollout", password: str = "rollout") -> ServerSettings:
    return ServerSettings(host=server.host, port=server.port, user=user, password=Secret(password))


def new_column(name: str, type_: str, default: str | None = None, **more: Any) -> Column:
    literal = None if default is None else Default(default)
    return Column(name=name, type=parse_type(type_), default=literal, null=default is None, **more)


@dataclass
class Mirrored:
    """``session`` is ours, pinned. The table exists without its new columns until ``expand``."""

    server: Server
    schema: str
    session: Session
    contract: Contract

    @property
    def table(self) -> str:
        return quote.table(self.contract.table)

    def shape(self) -> Shape:
        return live_shape(self.session, self.contract.table)

    def relation(self) -> Relation:
        return load_relation(self.session, self.contract, self.shape())

    def expand(self) -> None:
        for column in self.contract.columns:
            default = "" if column.default is None else f" NOT NULL DEFAULT {quote.text(column.default.text)}"
            name = quote.name(column.name)
            charset = f" CHARACTER SET {column.charset}" if column.charset else ""
            self.session.execute(f"ALTER TABLE {self.table} ADD COLUMN {name} {column.type}{charset}{default}")

    def mirror(self) -> Relation:
        relation = self.relation()
        self.session.execute("SET SESSION sql_mode = ''")
        for event in ("update", "insert"):
            name = mirror.trigger_name("r", event)
            self.session.execute(mirror.create_trigger(relation, self.contract.table, event, name, "/* rollout:r */"))
        self.session.execute("SET SESSION sql_mode = %s", (SQL_MODE,))
        return relation

    def fill(self, relation: Relation) -> int:
        sets = ", ".join(f"{cell(c)} = {sql}" for c, sql in relation.assignments(cell))
        return self.session.execute(f"UPDATE {self.table} t SET {sets} WHERE {relation.pending(cell)}")

    def all(self, columns: str, order: str = "id") -> list[Any]:
        rows = self.session.query(f"SELECT {columns} FROM {self.table} t ORDER BY {order}")
        return [row[0] if len(row) == 1 else row for row in rows]


def mirrored(
    server: Server, schema: str, ddl: str, columns: tuple[Column, ...], *mappings: Mapping, table: str = "t"
) -> Mirrored:
    """Runs ``ddl`` in the schema (it makes ``table``) and puts a contract of these columns and mappings on it."""
    script(server, ddl, schema)
    contract = Contract(TableName(schema, table), columns, mappings=mappings)
    return Mirrored(server, schema, Session(settings_of(server), role="test"), contract)
