"""The verbs on the runbook file alone: lint and freeze."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from orchestrator.cli.shared import answer, shared
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
    """Write the contract and its digest beside the runbook, as NAME.lock."""
    from orchestrator.runbook.lint import lint as find
    from orchestrator.runbook.lock import explain, lock_path, lock_text, read_lock
    from orchestrator.runbook.source import read_source

    of = shared(context)
    runbook = of.runbook()
    if problems := find(runbook):
        raise RunbookError(problems[0].seen, problems[0].expected, "rollout lint shows all of them")
    path, text = lock_path(runbook.path), lock_text(runbook.contract)
    frozen = read_source(path, "a lock") if path.exists() else ""
    differs = explain(read_lock(frozen, str(path)), runbook.contract) if check and frozen else ()
    if not check and frozen != text:
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    same = not check or (bool(frozen) and not differs)
    note = f"{path}: {'is' if same else 'differs from'} the contract {runbook.digest[:8]}"
    words = {"digest": runbook.digest, "lock": str(path), "same": same, "differences": list(differs)}
    answer(of, words, "\n".join([note, *(f"  {line}" for line in differs)]))
    if not same:
        raise typer.Exit(int(Exit.DIFFERS))
