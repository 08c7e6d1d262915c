"""The verbs that need no server of yours: a throwaway pair, and the whole rollout on it under traffic."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from orchestrator.cli.shared import answer, shared
from orchestrator.errors import Exit, UsageError

Folder = Annotated[Path, typer.Option("--dir", help="The folder of the pair.")]


def register(app: typer.Typer) -> None:
    about = "A throwaway primary and replica on this machine."
    room = typer.Typer(help=about, rich_markup_mode=None)
    room.command("up")(up)
    room.command("down")(down)
    room.command("status")(status)
    app.add_typer(room, name="sandbox")
    app.command()(demo)


def up(
    context: typer.Context,
    folder: Folder = Path(".cache/sandbox"),
    port: Annotated[int | None, typer.Option("--port", help="The primary's; the replica takes the next one.")] = None,
    rows: Annotated[int, typer.Option("--rows", help="Rows of the AiJob table.")] = 20_000,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same data.")] = 1,
) -> None:
    """Start it, with the AiJob table and data."""
    from orchestrator.cli.ground import connection_words, raise_sandbox

    of = shared(context)
    if rows < 0:
        raise UsageError(f"--rows {rows}", "0 or more", "correct it")
    pair = raise_sandbox(folder, port, rows, seed)
    words = connection_words(pair)
    server = words["primary"]
    text = (
        f"primary  {server['host']}:{server['port']}  socket {server['socket']}\n"
        f"replica  {words['replica']['host']}:{words['replica']['port']}  socket {words['replica']['socket']}\n"
        f"account  {words['user']}, password {words['password']}, schema {words['schema']}\n"
        f"Next: export ROLLOUT_HOST={server['host']} ROLLOUT_PORT={server['port']} ROLLOUT_USER={words['user']} "
        f"ROLLOUT_PASSWORD={words['password']}; rollout plan -f {words['runbook']}"
    )
    answer(of, words, text)


def down(context: typer.Context, folder: Folder = Path(".cache/sandbox")) -> None:
    """Stop it and remove its folder."""
    from orchestrator.sandbox.pair import load

    of = shared(context)
    load(folder).remove()
    answer(of, {"dir": str(folder), "state": "removed"}, f"{folder} is gone")


def status(context: typer.Context, folder: Folder = Path(".cache/sandbox")) -> None:
    """Whether it runs, and how to connect."""
    from orchestrator.cli.ground import connection_words
    from orchestrator.sandbox.pair import load

    of = shared(context)
    pair = load(folder)
    alive = pair.alive()
    words = connection_words(pair) | {"running": alive}
    where = f"{pair.primary.host}:{pair.primary.port} and {pair.replica.port}"
    answer(of, words, f"{'runs' if alive else 'does not run'}: {where}")


def demo(
    context: typer.Context,
    rows: Annotated[int, typer.Option("--rows", help="Rows of the AiJob table.")] = 20_000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of data and traffic.")] = 1,
    engine: Annotated[
        str, typer.Option("--engine", help="native: the AiJob rollout. gh-ost: a table that must be copied.")
    ] = "native",
    reads: Annotated[
        str, typer.Option("--reads", help="flag_table: the flag row. flagd: OpenFeature's provider (make flagd).")
    ] = "flag_table",
) -> None:
    """Walk the whole AiJob rollout on a sandbox, under the traffic of two applications, and back again."""
    from orchestrator.cli.demo import Demo, Reads
    from orchestrator.cli.demo_ghost import GhostDemo

    of = shared(context)
    if rows < 100:
        raise UsageError(f"--rows {rows}", "100 or more", "correct it")
    stories = {"native": Demo, "gh-ost": GhostDemo}
    if engine not in stories:
        raise UsageError(f"--engine {engine}", " or ".join(stories), "correct it")
    if reads not in get_args(Reads):
        raise UsageError(f"--reads {reads}", " or ".join(get_args(Reads)), "correct it")
    demo = stories[engine](rows, seed, sys.stderr, cast(Reads, reads))
    words = demo.run()
    answer(of, words, demo.summary(words))
    if words["lost_writes"] or words["drift"] or words["app_errors"]:
        raise typer.Exit(int(Exit.ROWS_DIFFER))
