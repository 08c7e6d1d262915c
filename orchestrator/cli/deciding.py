"""The verb adr: the decision record of the runbook, written, printed, or compared with the one that is committed."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.shared import Shared, answer, put, shared
from orchestrator.errors import Exit, UsageError

_SHOWN_LINES = 40


def register(app: typer.Typer) -> None:
    app.command()(adr)


def adr(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="Where it is written. Left out: standard output.")] = None,
    lang: Annotated[str, typer.Option("--lang", help="en or zh.")] = "en",
    check: Annotated[bool, typer.Option("--check", help="Only compare with the file; 1 when it differs.")] = False,
) -> None:
    """Write the decision record, from the contract and the proof of compat; asks no server."""
    from orchestrator.adr.material import untranslated
    from orchestrator.app.decision import record_page

    of = shared(context)
    if check and file is None:
        raise UsageError("--check without a file", "the record that is committed", "name it: rollout adr --check FILE")
    runbook = of.runbook()
    text = record_page(runbook, lang)
    if missing := untranslated(runbook, lang):
        told = f"not translated, and shown as written ({len(missing)}; adr.{lang} of the runbook): {missing[0]}"
        print(told, file=sys.stderr)
    if file is None:
        answer(of, {"language": lang, "text": text}, text.rstrip("\n"))
        return
    if check:
        _compare(of, file, text)
        return
    put(file, text, "file")
    answer(of, {"language": lang, "file": str(file)}, f"{file}: written")


def _compare(of: Shared, file: Path, text: str) -> None:
    """Says whether the file is the record, and what is otherwise."""
    from orchestrator.runbook.source import read_source

    standing = read_source(file, "a decision record", "write it: rollout adr FILE") if file.exists() else ""
    lines = difflib.unified_diff(standing.splitlines(), text.splitlines(), str(file), "rollout adr", lineterm="", n=0)
    differences = list(lines)
    same = standing == text
    note = f"{file}: {'is' if same else 'differs from'} what the contract and its proof say"
    shown = differences[:_SHOWN_LINES]
    more = len(differences) - len(shown)
    told = [note, *(f"  {line}" for line in shown), *([f"  … and {more} lines more"] if more else [])]
    answer(of, {"file": str(file), "same": same, "differences": differences}, "\n".join(told))
    if not same:
        raise typer.Exit(int(Exit.DIFFERS))
