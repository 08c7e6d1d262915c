"""The verbs on the runbook file alone: lint and freeze."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.shared import answer, shared, write_whole
from orchestrator.errors import Exit, RunbookError


def register(app: typer.Typer) -> None:
    app.command()(lint)
    app.command()(freeze)


def lint(context: typer.Context) -> None:
    """Find what is wrong with the runbook from the file alone."""
    from orchestrator.cli.render import problem_words
    from orchestrator.runbook.lint import lint as find

    of = shared(context)
    problems = find(of.runbook())
    text = "\n".join(f"{p.rule}: {p.seen}\n wanted  {p.expected}\n do      {p.next}" for p in problems)
    answer(of, {"problems": problem_words(problems)}, text or "nothing found")
    if problems:
        raise typer.Exit(int(Exit.RUNBOOK))


def freeze(
    context: typer.Context,
    check: Annotated[bool, typer.Option("--check", help="Only compare; 1 when the lock differs.")] = False,
) -> None:
    """Write the contract's digest beside the runbook, as NAME.lock."""
    from orchestrator.runbook.digest import canonical
    from orchestrator.runbook.lint import lint as find

    of = shared(context)
    runbook = of.runbook()
    if problems := find(runbook):
        raise RunbookError(problems[0].seen, problems[0].expected, "rollout lint shows all of them")
    path = Path(runbook.path).with_suffix(".lock")
    text = f"{runbook.digest}\n{canonical(runbook.contract)}\n"
    # What cannot be read as a lock of ours is none, and is written over.
    same = path.is_file() and path.read_bytes() == text.encode()
    if not check and not same:
        write_whole(path, text, "--runbook")
    note = f"{path}: {'is' if same or not check else 'differs from'} the contract {runbook.digest[:8]}"
    answer(of, {"digest": runbook.digest, "lock": str(path), "same": same}, note)
    if check and not same:
        raise typer.Exit(int(Exit.DIFFERS))
