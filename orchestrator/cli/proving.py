"""The verb compat: every statement of every version, in every shape that it will meet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.shared import answer, put, shared
from orchestrator.errors import Exit, UsageError

if TYPE_CHECKING:
    from orchestrator.model.matrix import Matrix


def register(app: typer.Typer) -> None:
    app.command()(compat)


def compat(
    context: typer.Context,
    old: Annotated[Path | None, typer.Option("--old", help="More statements of the old application, as SQL.")] = None,
    new: Annotated[Path | None, typer.Option("--new", help="More statements of the new application, as SQL.")] = None,
    capture: Annotated[
        str, typer.Option("--capture", help="Also what is said to the table in this time, such as 10m.")
    ] = "",
    check: Annotated[bool, typer.Option("--check", help="Only compare with the proof; 1 when it differs.")] = False,
) -> None:
    """Prove that each version survives each shape of the table, on scratch copies. 65: a statement fails."""
    from orchestrator.app.compat import Sources, find_matrix
    from orchestrator.cli.render_matrix import matrix_text, matrix_words
    from orchestrator.runbook.proof import proof_path, proof_text

    of = shared(context)
    runbook = of.runbook()
    sources = Sources(old, new, _seconds(capture))
    matrix = find_matrix(runbook, of.settings(), sources, lambda line: print(line, file=sys.stderr))
    path, text = proof_path(runbook.path), proof_text(matrix)
    same = path.is_file() and path.read_bytes() == text.encode()
    if not check and not same:
        put(path, text, "--runbook")
    note = f"{path}: {_said(matrix)}" + ("; the proof differs" if check and not same else "")
    answer(of, matrix_words(matrix, str(path), same or not check), f"{matrix_text(matrix)}\n\n{note}")
    if matrix.refusals:
        raise typer.Exit(int(Exit.RUNBOOK))
    if check and not same:
        raise typer.Exit(int(Exit.DIFFERS))


def _said(matrix: Matrix) -> str:
    failing = len(matrix.refusals)
    return f"{len(matrix.statements)} statements tried on MySQL {matrix.server}, " + (
        f"{failing} failures refuse the runbook" if failing else "none fails where its version runs"
    )


def _seconds(text: str) -> float:
    from orchestrator.model.findings import Wrong
    from orchestrator.runbook.units import parse_duration

    try:
        return parse_duration(text) if text else 0.0
    except Wrong as wrong:
        raise UsageError(f"--capture: {wrong.seen}", wrong.expected, wrong.next) from None
