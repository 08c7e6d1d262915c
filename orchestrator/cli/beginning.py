"""The verb init: a starting runbook from a live table, from DDL, or from two Prisma schemas."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.shared import answer, shared
from orchestrator.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command()(init)


def init(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="The table, as SCHEMA.TABLE.")],
    from_ddl: Annotated[Path | None, typer.Option("--from-ddl", help="DDL before the change.")] = None,
    to_ddl: Annotated[Path | None, typer.Option("--to-ddl", help="DDL after the change.")] = None,
    from_prisma: Annotated[Path | None, typer.Option("--from-prisma", help="Prisma schema before the change.")] = None,
    to_prisma: Annotated[Path | None, typer.Option("--to-prisma", help="Prisma schema after the change.")] = None,
    output: Annotated[str, typer.Option("-o", "--output", help="Where to; - prints. Left out: -f.")] = "",
) -> None:
    """Write a starting runbook. What only a person can say is marked, and lint stops on it."""
    from orchestrator.app.begin import Files, begin
    from orchestrator.model.contract import TableName
    from orchestrator.runbook.begin import MARK, begin_text

    of = shared(context)
    ddl, prisma = (from_ddl, to_ddl), (from_prisma, to_prisma)
    if any(ddl) and any(prisma):
        raise UsageError("DDL and Prisma schemas", "one kind of both", "leave one kind out")
    before, after = prisma if any(prisma) else ddl
    schema, dot, name = table.partition(".")
    if not (dot and schema and name):
        raise UsageError(f"the table {table!r}", "SCHEMA.TABLE, such as shop.orders", "say its schema too")
    files = Files(before, after, "prisma" if any(prisma) else "ddl")
    text = begin_text(begin(TableName(schema, name), files, None if before is not None else of.settings()))
    path = output or of.runbook_path
    if path == "-":
        print(text, end="")
        return
    _write(Path(path), text)
    marks = sum(MARK in line for line in text.splitlines())
    answer(of, {"runbook": path, "marks": marks}, f"{path}: written, with {marks} lines that want a word of yours")
    print(f"Next: edit it, then rollout -f {path} lint", file=sys.stderr)


def _write(path: Path, text: str) -> None:
    """Never over a file that is there."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} is there already", "a new file", "name another: -o FILE, or -o - to print") from None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", "a writable place", "choose another -o"
        ) from None
