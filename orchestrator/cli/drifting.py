"""The verb drift: the contract against a server, a file of DDL or a Prisma schema; and what a change adds to it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.shared import Shared, answer, shared
from orchestrator.errors import Exit, UsageError

if TYPE_CHECKING:
    from orchestrator.contract.difference import Difference
    from orchestrator.contract.target import Target
    from orchestrator.model.contract import Contract


def register(app: typer.Typer) -> None:
    app.command()(drift)


def drift(
    context: typer.Context,
    ddl: Annotated[Path | None, typer.Option("--ddl", help="A file or folder of DDL instead of a server.")] = None,
    prisma: Annotated[Path | None, typer.Option("--prisma", help="A Prisma schema, a file or folder.")] = None,
    base: Annotated[Path | None, typer.Option("--base", help="DDL or Prisma before a change; with --head.")] = None,
    head: Annotated[Path | None, typer.Option("--head", help="The same after it: what it adds must be named.")] = None,
    scratch: Annotated[
        bool, typer.Option("--scratch", help="Let the server read the DDL, in a schema that is removed again.")
    ] = False,
    format: Annotated[str, typer.Option("--format", help="text, json or github.")] = "text",
) -> None:
    """Compare the contract with what there is. 0: the same; 1: it differs."""
    of = shared(context)
    given = [p for p in (ddl, prisma, base) if p is not None]
    if len(given) > 1 or (base is None) != (head is None):
        raise UsageError(
            "drift of more than one thing",
            "--ddl, --prisma, --base with --head, or nothing: the server",
            "leave one out",
        )
    contract = of.runbook().contract
    if base is not None and head is not None:
        where, found = _between(of, contract, base, head, scratch)
    elif given:
        kind = "ddl" if ddl is not None else "prisma"
        where, found = _compared(contract, _target(of, contract, given[0], kind, scratch))
    else:
        from orchestrator.app.drift import live_target

        where, found = _compared(contract, live_target(contract, of.settings()))
    _answer(of, contract, (where, found), format)


def _compared(contract: Contract, target: Target) -> tuple[str, tuple[Difference, ...]]:
    from orchestrator.contract.drift import compare

    return target.where, compare(contract, target)


def _tables(of: Shared, contract: Contract, path: Path, kind: str, scratch: bool) -> tuple[Target, ...]:
    from orchestrator.app.stated import file_tables, read_sources

    sources = read_sources(path, kind)
    if not scratch:
        return file_tables(sources, kind, contract.table.schema)
    from orchestrator.app.drift import scratch_tables

    if kind != "ddl":
        raise UsageError("--scratch with a Prisma schema", "--scratch with DDL", "leave --scratch out")
    return scratch_tables(sources, contract.table.schema, of.settings())


def _target(of: Shared, contract: Contract, path: Path, kind: str, scratch: bool) -> Target:
    from orchestrator.app.stated import the_table

    return the_table(contract, _tables(of, contract, path, kind, scratch), str(path))


def _between(
    of: Shared, contract: Contract, base: Path, head: Path, scratch: bool
) -> tuple[str, tuple[Difference, ...]]:
    """What the change brings that the contract does not name."""
    from orchestrator.app.stated import kind_of
    from orchestrator.contract.change import added_by

    before, after = (_tables(of, contract, p, kind_of(p), scratch) for p in (base, head))
    where = next((t.where for t in after if t.shape.table.name == contract.table.name), str(head))
    return where, added_by(contract, before, after)


def _answer(of: Shared, contract: Contract, seen: tuple[str, Sequence[Difference]], format: str) -> None:
    from orchestrator.cli.findings import difference_lines, difference_words

    where, found = seen
    fails = any(d.kind.fails for d in found)
    words = {
        "table": str(contract.table),
        "target": where,
        "same": not fails,
        "differences": [difference_words(d) for d in found],
    }
    lines = difference_lines(found, where, "json" if of.json else format)
    if of.json or format == "json":
        answer(Shared(of.runbook_path, True, of.flags), words, "")
    else:
        answer(of, words, "\n".join(lines) or f"{where}: {contract.table.name} is what the contract says")
    if contract.before is None and not of.json:
        told = "the runbook does not say what stood before (table.before): older things of the table are not judged"
        print(told, file=sys.stderr)
    if fails:
        raise typer.Exit(int(Exit.DIFFERS))
