"""What every verb shares: the options before it, the way an answer is printed, and what an error becomes."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from msgspec import Struct, field

from orchestrator.cli.connect import ServerFlags, server_settings
from orchestrator.errors import Exit, RolloutError, UsageError
from orchestrator.settings import ServerSettings
from orchestrator.whole_file import write_whole

if TYPE_CHECKING:
    from orchestrator.app.watch import Watch
    from orchestrator.app.wiring import App
    from orchestrator.cli.signals import Interrupts
    from orchestrator.engine.plan import Plan
    from orchestrator.model.runbook import Runbook

# What a full disk, or a terminal that is gone, says to whoever prints.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO})


def _interrupts() -> Interrupts:
    from orchestrator.cli.signals import Interrupts

    return Interrupts()


class Shared(Struct, frozen=True):
    """The options before the verb."""

    runbook_path: str
    json: bool
    flags: ServerFlags
    interrupts: Interrupts = field(default_factory=_interrupts)

    def runbook(self) -> Runbook:
        from orchestrator.runbook.load import load

        return load(Path(self.runbook_path))

    def settings(self) -> ServerSettings:
        return server_settings(self.flags)

    @contextmanager
    def opened(self, *, log: bool = False, reason: str = "") -> Iterator[App]:
        """Everything for the runbook on the server, closed at the end. ``log``: JSON lines of events on standard
        error. ``reason``: why, for the history. Signals are heard once ``interrupts`` is installed: before that, at a
        question, they end the command."""
        from orchestrator.app.wiring import Surroundings, build
        from orchestrator.cli.screen import watcher_for

        runbook = self.runbook()
        listeners: tuple[Any, ...] = ()
        if log or os.environ.get("ROLLOUT_LOG"):
            from orchestrator.telemetry.logs import EventLog

            listeners = (EventLog(),)
        around = Surroundings(watcher_for(sys.stderr, self.json, silent=log), listeners, self.interrupts.asked, reason)
        app = build(runbook, self.settings(), around)
        try:
            yield app
        finally:
            app.close()

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        """Only the state and a look at the server: for verbs that must answer at once."""
        from orchestrator.app.watch import open_watch

        watch = open_watch(self.runbook(), self.settings())
        try:
            yield watch
        finally:
            watch.close()


def shared(context: typer.Context) -> Shared:
    found = context.find_root().obj
    assert isinstance(found, Shared)
    return found


def answer(of: Shared, data: dict[str, Any], text: str) -> None:
    """One object on standard output: JSON where it was asked for, else text for people."""
    print(json.dumps(data, ensure_ascii=False, default=str) if of.json else text)


def show_plan(of: Shared, plan: Plan, *, sql: bool) -> None:
    """The plan on standard output, and what refuses it as its error: in JSON both are one object."""
    from orchestrator.cli.render import plan_text, plan_words
    from orchestrator.engine.judging import refusal

    error = refusal(plan.problems) if plan.problems else None
    if not of.json:
        print(plan_text(plan, sql=sql))
        if error is not None:
            sys.stdout.flush()
            raise error
        return
    answer(of, plan_words(plan) | (error.as_dict() if error is not None else {}), "")
    if error is not None:
        raise typer.Exit(int(error.exit_code))


def put(path: Path, text: str, option: str, mode: int = 0o644) -> None:
    """Whole or not at all. Raises UsageError, which names the ``option`` that chose the place."""
    try:
        write_whole(path, text, mode)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", "a writable file", f"choose another {option}"
        ) from None


def confirmed(yes: bool, question: str) -> None:
    """Go on only when somebody says so. Raises UsageError without a terminal and without ``-y``."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("there is no terminal to confirm on", "a terminal, or -y", "add -y when the plan was read")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("not confirmed; nothing was changed", "y", "the same command again when you are sure")


@contextmanager
def errors_become_exit_codes(wants_json: bool) -> Iterator[None]:
    """Every way out of a verb, as its exit code; a traceback reaches nobody, but for our own bugs with
    ROLLOUT_DEBUG."""
    try:
        yield
        _leave(Exit.DONE)
    except RolloutError as error:
        _tell(error, wants_json)
        _leave(error.exit_code)
    except typer.Exit as left:
        _leave(left.exit_code)
    except typer.TyperException as error:
        _tell(UsageError(error.format_message(), "a command line that rollout knows", "rollout --help"), wants_json)
        _leave(Exit.USAGE)
    except (typer.Abort, KeyboardInterrupt, EOFError):
        print("interrupted", file=sys.stderr)
        _leave(130)
    except BrokenPipeError:
        _leave(Exit.DONE)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _tell(_no_room(error), wants_json=False)
            _leave(Exit.USAGE)
        if os.environ.get("ROLLOUT_DEBUG"):
            raise
        bug = RolloutError(
            f"{type(error).__name__}: {error}",
            "no error that rollout does not know",
            "this is a bug of ours: run it again with ROLLOUT_DEBUG=1 and report the traceback; "
            "rollout status says where it stands",
        )
        _tell(bug, wants_json)
        _leave(Exit.BUG)


def _leave(code: int) -> None:
    """End the process with that code. A reader that went away (| head) is nothing wrong: what is unsaid stays so; a
    disk that is full is told, and what was done is done."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno in _NO_ROOM and code == Exit.DONE:
            _tell(_unwritten(error), wants_json=False)
            code = Exit.USAGE
    sys.exit(int(code))


def _no_room(error: OSError) -> UsageError:
    try:
        # What failed once is not kept: only another sign tells whether it was standard output.
        print(flush=True)
    except OSError:
        return _unwritten(error)
    return UsageError(
        f"a file of this machine cannot be written: {error}",
        "room on its disks",
        "make room; rollout status says where it stands, then the same command again",
    )


def _unwritten(error: OSError) -> UsageError:
    return UsageError(
        f"standard output cannot be written: {error.strerror}",
        "room for what is printed; what the command did is done",
        "rollout status says where it stands",
    )


def _tell(error: RolloutError, wants_json: bool) -> None:
    with suppress(OSError):
        if wants_json:
            print(json.dumps(error.as_dict(), ensure_ascii=False))
            return
        rows = (("seen", error.seen), ("wanted", error.expected), ("do", error.next))
        print(f"{error.code}{'':6}exit {int(error.exit_code)}", file=sys.stderr)
        for name, text in rows:
            print(f" {name:<8}{text}", file=sys.stderr)
