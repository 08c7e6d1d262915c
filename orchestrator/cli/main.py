"""The typer application, the options that every verb shares, and the one place where an error becomes an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from copy import copy
from typing import Annotated

import typer
from typer.main import get_command_name

from orchestrator.cli import beginning, deciding, drifting, files, looking, proving, sandbox, verifying, walking
from orchestrator.cli.connect import ServerFlags
from orchestrator.cli.shared import Shared, errors_become_exit_codes

app = typer.Typer(
    name="rollout",
    help="Zero-downtime rollouts for MySQL: one runbook, six stages, and back again.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for room in (beginning, walking, looking, verifying, files, drifting, deciding, proving, sandbox):
    room.register(app)

# Options of the command itself that may also stand behind the verb, as people type them; the value says if one follows.
_ANYWHERE = {
    "-f": True,
    "--runbook": True,
    "--url": True,
    "--host": True,
    "--port": True,
    "--socket": True,
    "--user": True,
    "--defaults-file": True,
    "--ssl-mode": True,
    "--ssl-ca": True,
    "--ssl-cert": True,
    "--ssl-key": True,
    "--server-public-key-path": True,
    "--get-server-public-key": False,
    "--ask-password": False,
    "--json": False,
}
# Verbs with an option of their own of that name keep it.
_OWN = {"metrics": {"--host", "--port"}, "sandbox": {"--port"}}


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version as of

        typer.echo(f"rollout {of('rollout')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    runbook: Annotated[
        str, typer.Option("-f", "--runbook", help="The runbook (else ROLLOUT_RUNBOOK, else rollout.yaml).")
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
    url: Annotated[str | None, typer.Option(help="mysql://user@host:port, without a password.")] = None,
    host: Annotated[
        str | None, typer.Option(help="Host of the primary (else ROLLOUT_HOST, else option files).")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port of the primary.")] = None,
    socket: Annotated[str | None, typer.Option(help="Socket of the primary.")] = None,
    user: Annotated[
        str | None, typer.Option(help="Account. Its password: ROLLOUT_PASSWORD, an option file, or a prompt.")
    ] = None,
    ask_password: Annotated[bool, typer.Option("--ask-password", help="Ask for the password.")] = False,
    defaults_file: Annotated[str | None, typer.Option(help="Read only this option file.")] = None,
    ssl_mode: Annotated[
        str | None, typer.Option(help="DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY.")
    ] = None,
    ssl_ca: Annotated[str | None, typer.Option(help="File of the certificate authorities.")] = None,
    ssl_cert: Annotated[str | None, typer.Option(help="File of the client's certificate.")] = None,
    ssl_key: Annotated[str | None, typer.Option(help="File of the client's key.")] = None,
    server_public_key_path: Annotated[
        str | None, typer.Option(help="File of the server's public key, to tell it a password without TLS.")
    ] = None,
    get_server_public_key: Annotated[
        bool, typer.Option("--get-server-public-key", help="Without TLS: take the key that whoever answers sends.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Zero-downtime rollouts for MySQL: one runbook, six stages, and back again."""
    where = (url, host, port, socket, user, ask_password, defaults_file)
    told = (ssl_mode, ssl_ca, ssl_cert, ssl_key, server_public_key_path, get_server_public_key)
    flags = ServerFlags(*where, *told)
    context.obj = Shared(runbook or os.environ.get("ROLLOUT_RUNBOOK", "") or "rollout.yaml", json, flags)


def arranged(arguments: Sequence[str]) -> list[str]:
    """The arguments with the shared options moved before the verb, where typer wants them."""
    front: list[str] = []
    rest: list[str] = []
    own: set[str] = set()
    waiting = iter(arguments)
    for argument in waiting:
        name = argument.split("=", 1)[0]
        if argument == "--":
            rest += [argument, *waiting]
        elif name in _ANYWHERE and name not in own:
            front.append(argument)
            if _ANYWHERE[name] and "=" not in argument:
                front += [value for value in [next(waiting, None)] if value is not None]
        else:
            own |= _OWN.get(argument, set()) if not rest else set()
            rest.append(argument)
    return front + rest


def _verb(arguments: Sequence[str]) -> str:
    """The verb of arranged arguments: the first that is neither a shared option nor the value of one."""
    waiting = iter(arguments)
    for argument in waiting:
        if not argument.startswith("-"):
            return argument
        if _ANYWHERE.get(argument, False):
            next(waiting, None)
    return ""


def _only(verb: str) -> typer.Typer:
    """The application with nothing but that verb, where there is one: to make all of them takes as long as some run."""
    found = [c for c in app.registered_commands if c.callback and get_command_name(c.callback.__name__) == verb]
    if not found:
        return app
    small = copy(app)
    small.registered_commands, small.registered_groups = found, []
    return small


def run() -> None:
    """Run the command line of this process and leave it with the right exit code."""
    wants_json = "--json" in sys.argv
    with errors_become_exit_codes(wants_json):
        if "_ROLLOUT_COMPLETE" in os.environ:
            typer.main.get_command(app).main(prog_name="rollout")
        arguments = arranged(sys.argv[1:]) or ["--help"]
        command = typer.main.get_command(_only(_verb(arguments)))
        # Not ``main`` of the command: that one has exit codes of its own, for a pipe that closes among others.
        with command.make_context("rollout", arguments) as context:
            command.invoke(context)
