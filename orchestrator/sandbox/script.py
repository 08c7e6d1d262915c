"""What an application does all day: named operations with their statements, from a file or rendered from a contract.

A file (``runbooks/sandbox/NAME.traffic.toml``) gives an example table statements of its own; any other table gets
statements that follow from its contract, mapping and shape.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from orchestrator.model.facts import Shape
from orchestrator.model.runbook import Runbook
from orchestrator.model.types import Family
from orchestrator.mysql.sql import applications as sql
from orchestrator.sandbox.mapping import TableModel
from orchestrator.sandbox.statements import Statement, parse


class Operation(Struct, frozen=True):
    """One thing that an application does, in one transaction (``COMMIT`` inside begins the next one).

    ``autocommit``: no transaction around it; only for rows that nobody else writes. ``keep`` and ``take``: the values
    of one operation are used again, once, by a later one. ``deletes``: rows that a foreign key deletes with it.
    """

    name: str
    weight: int
    statements: tuple[Statement, ...]
    autocommit: bool = False
    keep: str = ""
    take: str = ""
    deletes: tuple[str, ...] = ()


class Read(Struct, frozen=True):
    """A query in both forms. ``entity`` is the placeholder whose value decides between them. ``columns`` of the new
    form: where it gives both columns of a pair they are compared, row by row. ``released``: the new form after the
    release without the flag, which names no old column of a pair any more."""

    name: str
    weight: int
    entity: str
    old: Statement
    new: Statement
    released: Statement
    columns: tuple[str, ...] = ()


class Script(Struct, frozen=True):
    reads: tuple[Read, ...]
    old: tuple[Operation, ...]
    new: tuple[Operation, ...]
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def load_script(path: Path) -> Script:
    """Raises ValueError when a statement cannot be followed by the ledger, or a key is missing or unknown."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    writes: dict[str, list[Operation]] = {"old": [], "new": []}
    for entry in document.get("write", ()):
        for application in entry.pop("applications"):
            writes[application].append(_operation(entry))
    reads = tuple(_read(**entry) for entry in document.get("read", ()))
    return Script(reads, tuple(writes["old"]), tuple(writes["new"]), document.get("values", {}))


def _operation(entry: Mapping[str, Any]) -> Operation:
    known = dict(entry)
    statements = tuple(parse(text) for text in known.pop("statements"))
    return Operation(statements=statements, deletes=tuple(known.pop("deletes", ())), **known)


def _read(name: str, weight: int, entity: str, **forms: Any) -> Read:
    columns = tuple(forms.pop("columns", ()))
    old, new, released = forms.pop("old"), forms.pop("new"), forms.pop("released", "")
    if forms:
        raise ValueError(f"read {name!r} has the unknown key {next(iter(forms))!r}")
    return Read(name, weight, entity, parse(old), parse(new), parse(released or new), columns)


class _Renderer:
    """Statements from contract and shape. The old side names old columns only, the new side new columns only."""

    def __init__(self, runbook: Runbook, shape: Shape, model: TableModel) -> None:
        self.table = runbook.table
        self.key = shape.key
        self.model = model
        unique = {
            c.lower() for index in (*shape.indexes, *runbook.contract.indexes) if index.unique for c in index.columns
        }
        fixed = unique | set(model.key) | {c.lower() for f in shape.foreign_keys for c in f.columns}
        fixed |= {c.lower() for f in runbook.contract.foreign_keys for c in f.columns}
        paired = {name for pair in model.pairs for name in pair.names}
        self.plain = [
            n for n, c in model.old_columns.items() if n not in fixed | paired and not c.on_update and _writable(c)
        ]
        self.old = [pair.names[0] for pair in model.pairs if pair.names[0] not in fixed]
        self.new = [pair.names[1] for pair in model.pairs if pair.names[1] not in fixed]
        self.added = [
            n for n, c in model.new_columns.items() if n not in fixed | paired | model.derived and _writable(c)
        ]
        self.required = [n for n, c in model.old_columns.items() if n not in model.key and _needed(c)]

    def script(self) -> Script:
        return Script(
            self._reads(), self._writes(self.old, self.plain), self._writes(self.new, self.plain + self.added)
        )

    def _reads(self) -> tuple[Read, ...]:
        old, new = self.old or self.plain or list(self.key), self.new or self.plain or list(self.key)
        row = sql.by_key(self.key, "row")
        by_key = Read(
            "by key", 10, "row",
            parse(sql.select(self.table, old, row)), parse(sql.select(self.table, [*old, *new], row)),
            parse(sql.select(self.table, new, row)), (*old, *new),
        )  # fmt: skip
        return (by_key,)

    def _writes(self, paired: list[str], other: list[str]) -> tuple[Operation, ...]:
        given = {name: f":col.{name}" for name in paired}
        everything = {name: f":col.{name}" for name in [*self.required, *paired, *other]}
        some = {name: f":col.{name}" for name in (other[:2] or paired[:1])}
        one, several = sql.by_key(self.key, "row"), sql.by_keys(self.key, ("kept", "kept2", "kept3"))
        needed = {name: f":col.{name}" for name in self.required}
        update, insert, delete = sql.update, sql.insert, sql.delete
        made = [
            _op("create", 8, insert(self.table, self.key, ["fresh"], everything)),
            _op("create with defaults", 2, insert(self.table, self.key, ["fresh"], needed)),
            _op("create several", 2, insert(self.table, self.key, ["fresh", "fresh2", "fresh3"], everything)),
            _op("delete", 3, delete(self.table, sql.by_key(self.key, "mortal")), autocommit=True),
            _op("contest", 8, update(self.table, given or some, sql.by_key(self.key, "hot"))),
        ]
        if given:
            made += self._paired_writes(given, several, one)
            made.append(
                _op("upsert a new row", 2, insert(self.table, self.key, ["fresh"], needed | given, list(given)))
            )
            made.append(_op("upsert a row", 3, insert(self.table, self.key, ["kept"], needed | given, list(given))))
        if some:
            made.append(_op("touch", 6, update(self.table, some, one)))
            made.append(_op("roll back", 2, update(self.table, given or some, one), "ROLLBACK"))
        made += [
            _op(f"count {c}", 5, update(self.table, {c: sql.increment(c)}, sql.by_key(self.key, "hot")))
            for c in self._counters(paired)
        ]
        return tuple(made)

    def _paired_writes(self, given: dict[str, str], several: str, one: str) -> list[Operation]:
        first = dict(list(given.items())[:1])
        other = sql.update(self.table, given, sql.by_key(self.key, "kept"))
        undone = ("SAVEPOINT before_that", other, "ROLLBACK TO SAVEPOINT before_that")
        return [
            _op("change", 12, sql.update(self.table, given, one)),
            _op("change one column", 8, sql.update(self.table, first, one)),
            _op("change several", 3, sql.update(self.table, first, several)),
            _op(
                "change two",
                3,
                sql.update(self.table, first, sql.by_key(self.key, "kept")),
                sql.update(self.table, given, one),
            ),
            _op("savepoint", 2, sql.update(self.table, first, one), *undone),
        ]

    def _counters(self, paired: list[str]) -> list[str]:
        """Paired integers that mean the same on both sides: both applications may count them up, at the same time."""
        return [p.names[p.names[1] in paired] for p in self.model.pairs if p.counts and {*p.names} & set(paired)]


def render_script(runbook: Runbook, shape: Shape, model: TableModel) -> Script:
    """Statements for any table, from its contract."""
    return _Renderer(runbook, shape, model).script()


def _op(name: str, weight: int, *texts: str, autocommit: bool = False) -> Operation:
    return Operation(name, weight, tuple(parse(text) for text in texts), autocommit)


def _writable(column: Any) -> bool:
    return column.generated is None and not column.auto_increment and column.type.family is not Family.SPATIAL


def _needed(column: Any) -> bool:
    return not column.null and column.default is None and not column.auto_increment
