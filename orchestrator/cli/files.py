"""The verbs on the runbook file alone: lint and freeze."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.shared import Shared, answer, put, shared
from orchestrator.errors import Exit, RunbookError

if TYPE_CHECKING:
    from orchestrator.model.verdict import Verdict


def register(app: typer.Typer) -> None:
    app.command()(lint)
    app.command()(freeze)


def lint(
    context: typer.Context,
    format: Annotated[str, typer.Option("--format", help="text, json or github.")] = "text",
    live: Annotated[bool, typer.Option("--live", help="Look at the live table and its values too.")] = False,
    scratch: Annotated[
        bool, typer.Option("--scratch", help="With --live: try statements and cascades on a scratch copy.")
    ] = False,
    gates: Annotated[bool, typer.Option("--gates", help="Try each gate once; 75 when one does not pass.")] = False,
) -> None:
    """Find what is wrong with the runbook, from the file; with --live from the server as well."""
    from orchestrator.cli.findings import error_lines, known_format, lint_lines, lint_words
    from orchestrator.model.findings import FileFindings
    from orchestrator.runbook.lint import find

    of = shared(context)
    shown = "json" if of.json else known_format(format)
    try:
        runbook = of.runbook()
    except FileFindings as error:
        if shown != "github":
            raise
        print("\n".join(error_lines(error)))
        raise typer.Exit(int(Exit.RUNBOOK)) from None
    found = find(runbook)
    if live:
        from orchestrator.cli.live import live_findings

        found = (*found, *live_findings(of, runbook, scratch))
    words: dict[str, object] = {
        "problems": [lint_words(f) for f in found if f.refuses],
        "warnings": [lint_words(f) for f in found if f.waiver is None and not f.refuses],
        "waived": [lint_words(f) for f in found if f.waiver is not None],
    }
    text = "\n".join(lint_lines(found, shown)) or "nothing found"
    tried = _tried(of) if gates else ()
    if gates:
        from orchestrator.cli.render import checks_text, checks_words

        words["gates"] = checks_words(tried)
        text += "\n\n" + (checks_text(tried) if tried else "the runbook has no gate of its own")
    answer(Shared(of.runbook_path, True, of.flags) if shown == "json" else of, words, text)
    if any(f.refuses for f in found):
        raise typer.Exit(int(Exit.RUNBOOK))
    if any(not v.good for v in tried):
        raise typer.Exit(int(Exit.HELD))


def _tried(of: Shared) -> tuple[Verdict, ...]:
    """Each gate of the runbook, sampled once."""
    with of.opened() as app:
        return app.gates.tried()


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
    # Without --check, what cannot be read as a lock of ours is none, and is written over.
    frozen = read_source(path, "a lock") if check and path.exists() else ""
    differs = explain(read_lock(frozen, str(path)), runbook.contract) if frozen else ()
    if not check and not (path.is_file() and path.read_bytes() == text.encode()):
        put(path, text, "--runbook")
    same = not check or (bool(frozen) and not differs)
    note = f"{path}: {'is' if same else 'differs from'} the contract {runbook.digest[:8]}"
    words = {"digest": runbook.digest, "lock": str(path), "same": same, "differences": list(differs)}
    answer(of, words, "\n".join([note, *(f"  {line}" for line in differs)]))
    if not same:
        raise typer.Exit(int(Exit.DIFFERS))
