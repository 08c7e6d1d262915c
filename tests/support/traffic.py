"""A shipped runbook moved into a schema of the test's own, its table seeded, and the rollout's effects done by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from orchestrator.model.contract import ForeignKey, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.runbook import Runbook
from orchestrator.mysql import quote
from orchestrator.mysql.errno import LOCK_WAIT_TIMEOUT, ServerError
from orchestrator.mysql.relation import Relation, load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import alter, mirror
from orchestrator.runbook.load import load
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.sandbox.seed import create_tables, seed_table
from orchestrator.sandbox.server import Server
from orchestrator.settings import ServerSettings
from tests.support.shapes import live_shape
from tests.support.state import settings_of

RUNBOOKS = ("aijob", "orders", "documents")


@dataclass
class Prepared:
    """A seeded table before the rollout. ``session`` is a pinned one with patience for locks."""

    settings: ServerSettings
    runbook: Runbook
    shape: Shape
    session: Session

    @property
    def table(self) -> str:
        return quote.table(self.runbook.table)

    def shape_now(self) -> Shape:
        return live_shape(self.session, self.runbook.table, self.runbook.contract.key)


def moved(name: str, schema: str) -> Runbook:
    """The shipped runbook with its table, and the tables that it refers to, in another schema."""
    runbook = load(runbooks_folder() / f"{name}.yaml")
    old = runbook.table.schema

    def there(table: TableName) -> TableName:
        return TableName(schema, table.name) if table.schema == old else table

    def key(of: ForeignKey) -> ForeignKey:
        return replace(of, references=there(of.references))

    contract = runbook.contract
    keys = tuple(key(f) for f in contract.foreign_keys)
    moved_contract = replace(contract, table=there(contract.table), foreign_keys=keys)
    return replace(runbook, contract=moved_contract, phases=replace(runbook.phases, poll_s=0.1))


@contextmanager
def prepared(server: Server, name: str, schema: str, rows: int, seed: int = 1) -> Iterator[Prepared]:
    runbook, settings = moved(name, schema), settings_of(server)
    with closing(Session(settings, role="test")) as session:
        session.pin("innodb_lock_wait_timeout", 20)
        create_tables(session, runbook)
        shape = live_shape(session, runbook.table, runbook.contract.key)
        seed_table(session, runbook, shape, rows, seed)
        yield Prepared(settings, runbook, shape, session)


def expand(at: Prepared) -> None:
    """What the stage ddl leaves: columns, indexes and foreign keys, each in its own statement."""
    contract = at.runbook.contract
    adds = ", ".join(f"ADD COLUMN {alter.column_definition(c)}" for c in contract.columns)
    _patient(lambda: at.session.execute(f"ALTER TABLE {at.table} {adds}, ALGORITHM=INSTANT"))
    at.session.execute("SET foreign_key_checks = 0")
    for text in (
        *(alter.index_definition(i) for i in contract.indexes),
        *(alter.foreign_key_definition(f) for f in contract.foreign_keys),
    ):
        _patient(
            lambda text=text: at.session.execute(f"ALTER TABLE {at.table} ADD {text}, ALGORITHM=INPLACE, LOCK=NONE")
        )
    at.session.execute("SET foreign_key_checks = 1")


def raise_mirror(at: Prepared) -> Relation:
    """Both triggers, under the sql_mode that their bodies are made for."""
    relation = load_relation(at.session, at.runbook.contract, at.shape_now())
    at.session.execute("SET @mode = @@sql_mode, sql_mode = ''")
    for event in ("update", "insert"):
        name = mirror.trigger_name(at.runbook.id, event)
        text = mirror.create_trigger(relation, at.runbook.table, event, name, "/* test */")
        _patient(lambda text=text: at.session.execute(text))
    at.session.execute("SET sql_mode = @mode")
    return relation


def drop_mirror(at: Prepared) -> None:
    for event in ("update", "insert"):
        name = mirror.trigger_name(at.runbook.id, event)
        _patient(lambda name=name: at.session.execute(mirror.drop_trigger(at.runbook.table, name, "/* test */")))


def sweep(at: Prepared, relation: Relation) -> None:
    """``n := f(o)`` wherever they do not hold together, timestamps untouched."""
    kept = [quote.name(c.name) for c in at.shape_now().columns if c.on_update]
    sets = [f"{quote.name(column)} = {value}" for column, value in relation.assignments(quote.name)]
    sets += [f"{column} = {column}" for column in kept]
    text = f"UPDATE {at.table} SET {', '.join(sets)} WHERE {relation.pending(quote.name)}"
    _patient(lambda: at.session.execute(text))


def open_flag(at: Prepared, percent: int) -> None:
    """The flag row as read-switch leaves it, in a state schema made by hand."""
    schema = quote.name(at.settings.state_schema)
    at.session.execute(f"CREATE DATABASE IF NOT EXISTS {schema}")
    at.session.execute(
        f"CREATE TABLE IF NOT EXISTS {schema}.flag (rollout VARCHAR(64) PRIMARY KEY, new_writes TINYINT NOT NULL,"
        " read_percent INT NOT NULL, salt VARCHAR(64) NOT NULL, expires_at DATETIME(6) NOT NULL, epoch BIGINT NOT NULL,"
        " double_writes TINYINT NOT NULL DEFAULT 0)"
    )
    at.session.execute(
        f"REPLACE INTO {schema}.flag VALUES (%s, 1, %s, 'pepper', '9999-12-31', 1, 0)", (at.runbook.id, percent)
    )


def close_flag(at: Prepared) -> None:
    schema = quote.name(at.settings.state_schema)
    at.session.execute(f"UPDATE {schema}.flag SET new_writes = 0, read_percent = 0")


def _patient(act: Callable[[], object], deadline_s: float = 30.0) -> None:
    """Again while the application's transactions hold the table."""
    end = time.monotonic() + deadline_s
    while True:
        try:
            act()
            return
        except ServerError as error:
            if error.number != LOCK_WAIT_TIMEOUT or time.monotonic() > end:
                raise
