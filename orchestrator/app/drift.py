"""The table of a contract as a server states it, or as it reads a file of DDL, ready to be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from orchestrator.contract.ddl.statements import table_statements
from orchestrator.contract.statuses import known_values
from orchestrator.contract.target import LiveValue, Source, Target
from orchestrator.errors import RunbookError
from orchestrator.model.contract import Contract, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.missing import correct, there_is_no
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.look.statuses import read_live_values
from orchestrator.mysql.look.tables import hidden, like_named
from orchestrator.mysql.scratch import read_schema, run_script, scratch_schema
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.told import told
from orchestrator.settings import ServerSettings


@contextmanager
def session_for(settings: ServerSettings, doing: str) -> Iterator[Session]:
    """A session whose errors are told. Raises RolloutError."""
    with closing(Session(settings, role="contract")) as session:
        try:
            yield session
        except ServerError as error:
            raise told(error, doing) from error


def live_target(contract: Contract, settings: ServerSettings) -> Target:
    """The live table, with the values that live in mapped columns. Raises RolloutError."""
    with session_for(settings, f"drift of {contract.table}") as session:
        return table_on(session, contract)


def table_on(session: Session, contract: Contract) -> Target:
    """The same, in a session that is open. Raises RunbookError when there is no such table, ServerError."""
    shape = read_shape(session, contract.table, contract.key)
    if shape is None:
        raise missing_table(session, contract.table)
    return Target(session.settings.address, shape, values=_values(session, contract, shape))


def missing_table(session: Session, table: TableName) -> RunbookError:
    """Names compare as this server compares them; a name that differs in case only is offered."""
    hidden(session, table)
    near = like_named(session, table)
    return RunbookError(there_is_no(table, near), "the table that the runbook names", correct(near))


def _values(session: Session, contract: Contract, shape: Shape) -> tuple[LiveValue, ...]:
    found = []
    for known in known_values(contract):
        column = shape.column(known.column)
        if column is None or known.any:
            continue
        values, _ = read_live_values(session, shape.table, column)
        found += [LiveValue(column.name, value, rows) for value, rows in values]
    return tuple(found)


def scratch_tables(sources: Sequence[Source], schema: str, settings: ServerSettings) -> tuple[Target, ...]:
    """The same, read by the server in a schema of our own that is removed again. Raises RolloutError."""
    with session_for(settings, "reading DDL in a scratch schema") as session, scratch_schema(session) as scratch:
        for source in sources:
            run_script(session, scratch, tuple(table_statements(source.text, source.path, schema)), source.path)
        shapes = read_schema(session, scratch, schema)
    tables = frozenset(s.table for s in shapes)
    where = ", ".join(s.path for s in sources[:3])
    return tuple(Target(where, s, tables=tables) for s in shapes)
