"""Data for a sandbox table: the same for the same seed, with the edges of every type, in small transactions.

An example table may bring its data as SQL (``runbooks/sandbox/NAME.seed.sql``); any other is filled from its live shape
and the contract's mappings, so that every old value is one that the mapping can carry.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

from orchestrator.model.facts import Shape
from orchestrator.model.keys import Key
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import applications as sql
from orchestrator.sandbox.mapping import TableModel
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.sandbox.rows import KeyMaker

_CHUNK_ROWS = 1_000
_INSERT_ROWS = 250
_REFERRED_ROWS = 2_000
_COMMENT = re.compile(r"^--.*$", re.MULTILINE)


def create_tables(session: Session, runbook: Runbook) -> None:
    """The tables as they stand before the rollout (``runbooks/sandbox/NAME.sql``), in the runbook's schema."""
    session.execute(sql.create_schema(runbook.table.schema))
    for statement in _statements(_sandbox_file(runbook, ".sql")):
        session.packet([sql.use(runbook.table.schema), statement])


def seed_table(session: Session, runbook: Runbook, shape: Shape, rows: int, seed: int = 1) -> int:
    """Fill the empty table (and, from a file of its own, its relatives). The rows that it then has."""
    own = _sandbox_file(runbook, ".seed.sql")
    if own.is_file():
        _seed_from_file(session, own, runbook.table.schema, rows, seed)
        return rows
    return _seed_from_shape(session, runbook, shape, rows, seed)


def _sandbox_file(runbook: Runbook, ending: str) -> Path:
    return runbooks_folder() / "sandbox" / f"{runbook.id}{ending}"


def _statements(path: Path) -> list[str]:
    text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    return [s.strip() for s in re.split(r";\s*$", text, flags=re.MULTILINE) if s.strip()]


def _seed_from_file(session: Session, path: Path, schema: str, rows: int, seed: int) -> None:
    session.packet([sql.use(schema)])
    for statement in _statements(path):
        whole = statement.replace(":rows", str(int(rows))).replace(":seed", str(int(seed)))
        for low in range(1, rows + 1, _CHUNK_ROWS) if ":lo" in whole else (1,):
            part = whole.replace(":lo", str(low)).replace(":hi", str(low + _CHUNK_ROWS - 1))
            if session.execute(part) == 0:
                break


def _seed_from_shape(session: Session, runbook: Runbook, shape: Shape, rows: int, seed: int) -> int:
    model = TableModel(runbook.contract, shape)
    rng = Random(seed)
    referred = _existing(session, shape)
    columns = [n for n in model.old_columns if n not in model.key]
    maker = KeyMaker(shape, seed)
    for begin in range(0, rows, _INSERT_ROWS):
        keys = [maker.seeded(at, referred) for at in range(begin, min(rows, begin + _INSERT_ROWS))]
        values = [_row(model, rng, key, columns, referred, begin + at) for at, key in enumerate(keys)]
        text, args = sql.insert_rows(runbook.table, [*model.key, *columns], values)
        session.execute(text, args)
    return rows


def _row(
    model: TableModel, rng: Random, key: Key, columns: list[str], referred: dict[str, list[Any]], at: int
) -> tuple[Any, ...]:
    values: list[Any] = list(key)
    for name in columns:
        if name in referred:
            values.append(rng.choice(referred[name]) if referred[name] else None)
        elif name in model.unique:
            values.append(model.unique_value(name, at))
        else:
            values.append(model.draw(rng, name))
    return tuple(values)


def _existing(session: Session, shape: Shape) -> dict[str, list[Any]]:
    """Values that exist for each column that refers to another table."""
    found: dict[str, list[Any]] = {}
    for key in shape.foreign_keys:
        if key.references == shape.table:
            found |= {column.lower(): [None] for column in key.columns}
        elif len(key.columns) == 1:
            rows = session.query(sql.pick(key.references, key.referenced_columns, _REFERRED_ROWS))
            found[key.columns[0].lower()] = [row[0] for row in rows]
    return found
