"""The table of a contract as a DDL file or a Prisma schema states it, read without a server and without its driver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.contract.target import Source, Target
from orchestrator.errors import RunbookError, UsageError
from orchestrator.model.contract import Contract
from orchestrator.model.missing import correct, like, there_is_no
from orchestrator.runbook.source import read_source

MOST_BYTES = 8 * 1_048_576
_SUFFIXES = {"ddl": ".sql", "prisma": ".prisma"}


def kind_of(path: Path) -> str:
    """``ddl`` or ``prisma``, by what the file is called or the folder holds. Raises UsageError."""
    if path.is_dir():
        for kind, suffix in _SUFFIXES.items():
            if next(path.rglob(f"*{suffix}"), None) is not None:
                return kind
    for kind, suffix in _SUFFIXES.items():
        if path.suffix == suffix:
            return kind
    raise UsageError(
        f"{path} is neither DDL nor a Prisma schema", "a .sql or .prisma file, or a folder of them", "name one"
    )


def read_sources(path: Path, kind: str) -> tuple[Source, ...]:
    """The file, or every file of that kind below the folder, by path: migrations run in the order of their names.

    Raises RunbookError.
    """
    what = {"ddl": "a file of DDL", "prisma": "a Prisma schema"}[kind]
    paths = sorted(path.rglob(f"*{_SUFFIXES[kind]}")) if path.is_dir() else [path]
    if not paths:
        raise RunbookError(f"{path}: no {_SUFFIXES[kind]} file below it", what, "name the right folder")
    return tuple(Source(str(p), read_source(p, what, "name the right file", MOST_BYTES)) for p in paths)


def file_tables(sources: Sequence[Source], kind: str, schema: str) -> tuple[Target, ...]:
    """Every table that the files state, read without a server. Raises FileFindings."""
    if kind == "ddl":
        from orchestrator.contract.ddl import read_tables

        return read_tables(sources, schema)
    from orchestrator.contract.prisma import read_models

    return read_models(sources, schema)


def the_table(contract: Contract, tables: Sequence[Target], where: str) -> Target:
    """The one that the contract is about. Raises RunbookError."""
    name = contract.table.name
    for target in tables:
        if target.shape.table.name == name:
            return target
    names = [t.shape.table.name for t in tables]
    near = like(name, names)
    raise RunbookError(
        f"{where}: {there_is_no(name, near)}",
        f"one of {', '.join(names[:20]) or 'no tables at all'}",
        f"name the file that makes the table, or {correct(near)}",
    )
