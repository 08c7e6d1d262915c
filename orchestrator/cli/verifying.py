"""``rollout verify``: every row by the relation, here or on a replica; and, when somebody says so, mended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.shared import Shared, answer, confirmed, shared, show_plan
from orchestrator.cli.walking import Yes, ran, shown_before, winner_of
from orchestrator.errors import Exit, UsageError

if TYPE_CHECKING:
    from orchestrator.app.wiring import App
    from orchestrator.cli.walking import Winner


def register(app: typer.Typer) -> None:
    app.command()(verify)


def verify(
    context: typer.Context,
    on: Annotated[
        str, typer.Option("--on", help="A replica (host:port): its rows, and that they are the primary's.")
    ] = "",
    repair: Annotated[bool, typer.Option("--repair", help="Mend what does not hold, then compare again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --repair: show what would run.")] = False,
    on_conflict: Annotated[
        str, typer.Option(help="With --repair: new_wins or old_wins, for rows that do not correspond.")
    ] = "",
    yes: Yes = False,
) -> None:
    """Compare every row by the relation that holds now; 81 when rows differ. Reads only, but for --repair."""
    from orchestrator.cli.render import verify_text, verify_words

    if (on and repair) or (not repair and (dry_run or on_conflict or yes)):
        raise UsageError(
            "--on with --repair, or --dry-run, --on-conflict or -y without it",
            "verify, verify --on REPLICA, or verify --repair [--dry-run] [--on-conflict …] [-y]",
            "leave one out; a replica is not mended by rollout",
        )
    of, winner = shared(context), winner_of(on_conflict)
    of.interrupts.install()
    with of.opened() as app:
        if repair:
            _repair(of, app, winner, dry_run=dry_run, yes=yes)
            return
        outcome = app.compare(on)
        words = verify_words(outcome)
        answer(of, words, verify_text(outcome))
        if words["mismatches"]:
            raise typer.Exit(int(Exit.ROWS_DIFFER))


def _repair(of: Shared, app: App, winner: Winner, *, dry_run: bool, yes: bool) -> None:
    """Shown and confirmed before anything is written."""
    if dry_run:
        show_plan(of, app.planner.plan_repair(winner), sql=True)
        return
    if not yes:
        shown_before(app.planner.plan_repair(winner))
        confirmed(yes, f"Mend the rows of {app.parts.runbook.id} that do not hold?")
    ran(of, lambda: app.commands.repair(winner))
