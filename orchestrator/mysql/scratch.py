"""A schema of our own for a moment: the server reads a file of DDL, and everything that it made is removed again.

The schema's name is new each time and begins as nobody else's, no statement that names another schema is sent, and
foreign keys are not checked, so that no table of production is read, locked or changed. It does go into the binary log.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from orchestrator.model.contract import ForeignKey, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.findings import FileFindings, Finding
from orchestrator.mysql import quote
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape

PREFIX = "_rollout_scratch_"
_SQL_MODE = "NO_ENGINE_SUBSTITUTION"


@contextmanager
def scratch_schema(session: Session, charset: str = "utf8mb4", collation: str = "") -> Iterator[str]:
    """The name of an empty schema, which is the session's own until it is removed. Raises ServerError."""
    name = PREFIX + secrets.token_hex(8)
    sorted_by = f" COLLATE {quote.name(collation)}" if collation else ""
    session.execute(f"CREATE DATABASE {quote.name(name)} DEFAULT CHARACTER SET {quote.name(charset)}{sorted_by}")
    try:
        yield name
    finally:
        session.execute(f"DROP DATABASE IF EXISTS {quote.name(name)}")


def run_script(session: Session, schema: str, statements: Sequence[tuple[int, str]], path: str) -> None:
    """Run each statement, given with its line, in that schema. Raises FileFindings with the line of one that the server
    refuses, ServerError when the server itself is the trouble."""
    session.execute(f"USE {quote.name(schema)}")
    session.execute("SET SESSION foreign_key_checks = 0")
    session.execute(f"SET SESSION sql_mode = {quote.literal(_SQL_MODE)}")
    for line, statement in statements:
        try:
            session.packet((statement,))
        except ServerError as error:
            if error.cure is not Cure.STOP:
                raise
            told = f"the server refuses the statement: {error.text} ({error.number})"
            raise FileFindings(path, [Finding(line, told, "DDL that the server takes", "correct it")]) from error


def read_schema(session: Session, schema: str, as_schema: str) -> tuple[Shape, ...]:
    """Every table of it, named as if it stood in ``as_schema``. Raises ServerError, RunbookError."""
    names = session.query(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_TYPE = 'BASE TABLE'"
        " ORDER BY TABLE_NAME",
        (schema,),
    )
    shapes = (read_shape(session, TableName(schema, str(name))) for (name,) in names)
    return tuple(_moved(shape, schema, as_schema) for shape in shapes if shape is not None)


def _moved(shape: Shape, schema: str, as_schema: str) -> Shape:
    def table(name: TableName) -> TableName:
        return TableName(as_schema, name.name) if name.schema == schema else name

    def key(of: ForeignKey) -> ForeignKey:
        return replace(of, references=table(of.references))

    return replace(
        shape,
        table=table(shape.table),
        foreign_keys=tuple(key(f) for f in shape.foreign_keys),
        referenced_by=tuple((table(t), key(f)) for t, f in shape.referenced_by),
    )
