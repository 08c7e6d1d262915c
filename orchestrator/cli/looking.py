"""The verbs that only look: plan, status, history, check, doctor, metrics."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.shared import answer, put, shared, show_plan
from orchestrator.errors import Exit, UsageError


def register(app: typer.Typer) -> None:
    app.command()(plan)
    app.command()(status)
    app.command()(history)
    app.command()(check)
    app.command()(doctor)
    app.command()(metrics)


def plan(
    context: typer.Context,
    phase: Annotated[str | None, typer.Option("--phase", help="Only this stage.")] = None,
    sql: Annotated[bool, typer.Option("--sql", help="Every statement in full.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Save it, for rollout next --plan.")] = None,
    detailed_exitcode: Annotated[
        bool, typer.Option("--detailed-exitcode", help="3 when there is something to do.")
    ] = False,
) -> None:
    """Show everything that would happen. Writes nothing, and a SELECT-only account will do."""
    from orchestrator.cli.render import plan_words
    from orchestrator.model.state import FORWARD

    if phase is not None and phase not in FORWARD:
        raise UsageError(f"there is no stage {phase!r}", f"one of {', '.join(FORWARD)}", "correct the name")
    of = shared(context)
    with of.opened() as app:
        planned = app.planner.plan(phase)
        if output is not None:
            text = json.dumps(plan_words(planned), indent=1, ensure_ascii=False, default=str)
            put(output, text, "-o", 0o600)
        show_plan(of, planned, sql=sql)
        if detailed_exitcode and planned.something_to_do:
            raise typer.Exit(int(Exit.SOMETHING_TO_DO))


def status(
    context: typer.Context,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Draw it again each second.")] = False,
    timeout: Annotated[float | None, typer.Option("--timeout", help="With -w: end after so many seconds.")] = None,
    meter: Annotated[bool, typer.Option("--meter", help="Scan what going back now would lose.")] = False,
    runbook_text: Annotated[
        bool, typer.Option("--runbook-text", help="Print the runbook that the state holds.")
    ] = False,
    named: Annotated[
        str | None, typer.Option("--of", help="With --runbook-text: of that rollout, whose file is gone.")
    ] = None,
) -> None:
    """Where it stands, who must act, and the command to type."""
    from orchestrator.cli.render_past import status_text, status_words

    of = shared(context)
    if named is not None:
        from orchestrator.app.watch import stored_runbook

        if not runbook_text:
            raise UsageError("--of without --runbook-text", "both", "rollout status --runbook-text --of NAME")
        print(stored_runbook(of.settings(), named), end="")
        return
    with of.watched() as watching:
        if runbook_text:
            record = watching.store.load(watching.runbook.id)
            print(record.runbook_text if record is not None else "", end="")
            return
        began = time.monotonic()
        while True:
            seen = watching.status(meter=meter)
            if watch and not of.json and sys.stdout.isatty():
                print("\x1b[H\x1b[2J", end="")
            answer(of, status_words(seen), status_text(seen))
            sys.stdout.flush()
            if not watch or (timeout is not None and time.monotonic() - began >= timeout):
                return
            time.sleep(1.0)


def history(context: typer.Context) -> None:
    """Everything that happened: when, who, what, why."""
    from orchestrator.cli.render_past import history_text, history_words

    of = shared(context)
    with of.watched() as watching:
        events = watching.store.history(watching.runbook.id)
        if of.json:
            for event in events:
                print(json.dumps(history_words(event), ensure_ascii=False, default=str))
            return
        print(history_text(events))


def check(context: typer.Context) -> None:
    """Run every check now. 75 when one holds."""
    from orchestrator.cli.render import checks_text, checks_words

    of = shared(context)
    with of.opened() as app:
        verdicts = app.parts.judge.everything()
        answer(of, {"checks": checks_words(verdicts)}, checks_text(verdicts))
        if any(not v.good for v in verdicts):
            raise typer.Exit(int(Exit.HELD))


def doctor(
    context: typer.Context,
    grants: Annotated[
        bool, typer.Option("--grants", help="Print every GRANT that is needed, by stage, whatever the account has.")
    ] = False,
) -> None:
    """Privileges and settings, with the exact GRANTs that are missing. 77 when one is."""
    from orchestrator.cli.render import doctor_text, grants_text, grants_words

    of = shared(context)
    with of.opened() as app:
        if grants:
            needed = app.needed()
            answer(of, {"grants": grants_words(needed)}, grants_text(needed))
            return
        missing, problems = app.missing()
        words = {
            "missing": grants_words(missing),
            "settings": [{"check": v.check, "seen": v.seen, "limit": v.limit, "next": v.next} for v in problems],
        }
        answer(of, words, doctor_text(missing, problems))
        if missing:
            raise typer.Exit(int(Exit.PRIVILEGE))
        if problems:
            raise typer.Exit(int(Exit.CONFIGURATION))


def metrics(
    context: typer.Context,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")] = 9464,
) -> None:
    """Serve Prometheus metrics, read from the state."""
    from orchestrator.telemetry.metrics import serve

    of = shared(context)
    with of.opened() as app:
        try:
            serve(app.snapshots, host, port, lambda bound: print(f"http://{host}:{bound}/metrics", flush=True))
        except (OSError, OverflowError) as error:
            raise UsageError(
                f"{host}:{port} cannot be listened on: {error}", "a free port of this machine", "choose another --port"
            ) from None
