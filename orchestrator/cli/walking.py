"""The verbs that act: next, run, rollback, finish, purge, and what another terminal asks of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from orchestrator.cli.shared import Shared, answer, confirmed, shared, show_plan
from orchestrator.errors import Exit, UsageError

if TYPE_CHECKING:
    from orchestrator.app.wiring import App
    from orchestrator.engine import Ended
    from orchestrator.engine.plan import Plan

Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]
Winner = Literal["", "new_wins", "old_wins"]
Reason = Annotated[str, typer.Option(help="Why; kept in the history.")]
Accept = Annotated[list[str] | None, typer.Option("--accept-loss", help="CLASS=N: rows of this class may be lost.")]


def register(app: typer.Typer) -> None:
    app.command("next")(next_)
    app.command("run")(run)
    app.command("rollback")(rollback)
    app.command("finish")(finish)
    app.command("purge")(purge)
    app.command("pause")(pause)
    app.command("resume")(resume)
    app.command("abort")(abort)


def next_(
    context: typer.Context,
    phase: Annotated[str | None, typer.Option("--phase", help="Refuse if this is not the next stage.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would run; write nothing.")] = False,
    plan: Annotated[Path | None, typer.Option("--plan", help="Refuse if this saved plan is stale.")] = None,
    on_conflict: Annotated[
        str, typer.Option(help="new_wins or old_wins: for rows that do not correspond after a lost mirror.")
    ] = "",
    to: Annotated[int | None, typer.Option("--to", help="100: read-switch without the steps in between.")] = None,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Do the next stage."""
    _known_phase(phase)
    if to not in (None, 100):
        raise UsageError(f"--to {to}", "100, or nothing: then the runbook's steps, one after the other", "correct it")
    of, winner, leap = shared(context), winner_of(on_conflict), to is not None
    with of.opened(reason=reason) as app:
        ready = app.commands.ready(phase, on_conflict=winner)
        if isinstance(ready, str):
            answer(of, {"note": ready}, ready)
            return
        if plan is not None:
            _same_plan(plan, app.planner.fingerprint())
        if dry_run:
            show_plan(of, app.planner.plan(ready.name, winner, leap=leap), sql=True)
            return
        if not yes:
            shown_before(app.planner.plan(ready.name, winner, leap=leap))
            confirmed(yes, f"Do {ready.name} now{', all readers at once' if leap else ''}?")
        # By its name: what somebody else does meanwhile must not make another stage of it.
        ran(of, lambda: app.commands.next(ready.name, winner, leap=leap))


def run(
    context: typer.Context,
    until: Annotated[str | None, typer.Option("--until", help="Stop after this stage.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Afterwards watch readers until finish, and take them back by itself.")
    ] = False,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Do stage after stage; made to be watched by a supervisor."""
    _known_phase(until)
    if watch and until is not None:
        raise UsageError(
            f"--watch with --until {until}", "one of them: --watch follows the last stage", "leave one out"
        )
    of = shared(context)
    with of.opened(log=True, reason=reason) as app:
        confirmed(yes, f"Do every stage{f' until {until}' if until else ''}?")
        goes_on = False
        while True:
            ready = app.commands.ready(None, until)
            if isinstance(ready, str):
                break
            ran(of, partial(app.commands.next, ready.name, goes_on=goes_on))
            goes_on = True
            if ready.name == until:
                return
        if watch:
            ran(of, app.commands.watch)
        else:
            answer(of, {"note": ready}, ready)


def rollback(
    context: typer.Context,
    to: Annotated[str, typer.Option("--to", help="The stage that stays done; all the way without it.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would run; write nothing.")] = False,
    accept_loss: Accept = None,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Go back: readers first and at once, the mirror last."""
    _known_phase(to or None)
    of, accepted = shared(context), _accepted(accept_loss)
    with of.opened(reason=reason) as app:
        if dry_run or not yes:
            if nothing := app.commands.nothing_to_undo(to):
                answer(of, {"note": nothing}, nothing)
                return
            planned = app.planner.plan_back(to)
            if dry_run:
                show_plan(of, planned, sql=True)
                return
            shown_before(planned)
            meter = planned.facts.meter.value if planned.facts.meter is not None else None
            steps = {s.key for s in planned.stages[0].steps}
            loses = meter is not None and meter.rows and steps & {"remove-mirror", "drop-columns"}
            if loses and meter is not None and not accepted:
                accepted = _typed_loss(app, tuple((c.name, c.rows) for c in meter.classes))
            else:
                confirmed(yes, f"Roll back {app.parts.runbook.id}{f' to {to}' if to else ' all the way'}?")
        ran(of, lambda: app.commands.rollback(to, accepted))


def finish(
    context: typer.Context,
    old_application_gone: Annotated[bool, typer.Option("--old-application-gone", help="You vouch for it.")] = False,
    flag_retired: Annotated[bool, typer.Option("--flag-retired", help="You vouch that nobody reads the flag.")] = False,
    accept_loss: Accept = None,
    reason: Reason = "",
    yes: Yes = False,
) -> None:
    """Close a good rollout: the mirror goes, for good."""
    if old_application_gone != flag_retired:
        raise UsageError(
            "one of --old-application-gone and --flag-retired without the other",
            "both, or neither: then the server's statements are the evidence",
            "add the other one",
        )
    of = shared(context)
    with of.opened(reason=reason) as app:
        confirmed(yes, "Take the mirror away for good? There is no way back afterwards.")
        ran(of, lambda: app.commands.finish(old_application_gone, _accepted(accept_loss)))


def purge(context: typer.Context, yes: Yes = False) -> None:
    """Remove what is left of a closed rollout: history, positions and the flag row."""
    of = shared(context)
    with of.opened() as app:
        confirmed(yes, f"Remove the history and the flag of {app.parts.runbook.id}?")
        of.interrupts.install()
        note = app.commands.purge()
        answer(of, {"note": note}, note)


def pause(context: typer.Context, reason: Reason = "") -> None:
    """Ask the running command to pause."""
    of = shared(context)
    with of.opened() as app:
        note = app.commands.pause(reason)
        answer(of, {"note": note}, note)


def resume(context: typer.Context) -> None:
    """Clear a request to pause that nobody has answered."""
    of = shared(context)
    with of.opened() as app:
        note = app.commands.resume()
        answer(of, {"note": note}, note)


def abort(context: typer.Context, reason: Reason = "") -> None:
    """Stop the running command, lower the flags, clear the half step."""
    of = shared(context)
    with of.opened() as app:
        note = app.commands.abort(reason)
        answer(of, {"note": note}, note)


def ran(of: Shared, act: Callable[[], Ended | str]) -> None:
    """Run it, hearing signals, and print how it ended; a pause that somebody asked for is a good end."""
    from orchestrator.cli.render import ended_text
    from orchestrator.engine import Paused

    of.interrupts.install()
    try:
        ended = act()
    except Paused as paused:
        print(paused.note, file=sys.stderr)
        answer(of, {"state": "paused", "phase": paused.record.phase, "note": paused.note}, paused.note)
        raise typer.Exit(int(Exit.DONE)) from None
    if isinstance(ended, str):
        answer(of, {"note": ended}, ended)
        return
    record = ended.record
    answer(of, {"state": record.state.value, "phase": record.phase, "note": ended.note}, ended_text(ended))


def shown_before(planned: Plan) -> None:
    """What is about to be confirmed, on standard error. Raises its refusal: then there is nothing to confirm."""
    from orchestrator.cli.render import plan_text
    from orchestrator.engine.judging import refusal

    print(plan_text(planned, sql=False), file=sys.stderr)
    if planned.problems:
        raise refusal(planned.problems)


def _same_plan(path: Path, fingerprint: str) -> None:
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is no plan: {error}", "a file that rollout plan -o wrote", "rollout plan -o FILE"
        ) from None
    if saved == fingerprint:
        return
    names = ("all", "contract", "live shape", "server", "state")
    pairs = zip(names, str(saved).split(":"), fingerprint.split(":"), strict=False)
    differ = [f"{name} was {old}, is {new}" for name, old, new in pairs if old != new and name != "all"]
    raise UsageError(
        f"the plan is stale: {'; '.join(differ) or 'it is of another form'}",
        "a plan of the present contract, table, server and state",
        "read a new one: rollout plan -o FILE",
    )


def winner_of(on_conflict: str) -> Winner:
    """Raises UsageError for another word."""
    if on_conflict not in ("", "new_wins", "old_wins"):
        raise UsageError(f"--on-conflict {on_conflict}", "new_wins or old_wins", "correct it")
    return cast(Winner, on_conflict)


def _known_phase(phase: str | None) -> None:
    from orchestrator.model.state import FORWARD

    if phase is not None and phase not in FORWARD:
        raise UsageError(f"there is no stage {phase!r}", f"one of {', '.join(FORWARD)}", "correct the name")


def _accepted(texts: list[str] | None) -> tuple[tuple[str, int], ...]:
    pairs = []
    for text in texts or []:
        name, _, count = text.partition("=")
        if not name or not count.isdecimal():
            raise UsageError(f"--accept-loss {text}", "CLASS=N, as rollout status --meter prints them", "correct it")
        pairs.append((name, int(count)))
    return tuple(pairs)


def _typed_loss(app: App, classes: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """Something would be lost: the name of the rollout must be typed. Returns what is accepted by that."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        wanted = " ".join(f"--accept-loss {name}={rows}" for name, rows in classes)
        raise UsageError("rows would be lost, and there is no terminal to confirm on", wanted, "add it, and -y")
    lost = ", ".join(f"{rows} rows hold {name}" for name, rows in classes)
    print(f"Going back loses what the old column cannot carry: {lost}.", file=sys.stderr)
    print(f"Type {app.parts.runbook.id} to accept that: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != app.parts.runbook.id:
        raise UsageError("not confirmed; nothing was changed", app.parts.runbook.id, "the same command again")
    return classes
