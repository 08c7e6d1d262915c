"""Commands of the runbook (a gate, the disk, a notification): no shell, none of our secrets, and an end in time.

Each runs in a session of its own: Ctrl-C at our terminal is not its end, and one that takes too long ends with all that
it started.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence

from msgspec import Struct

# Enough for a program to find its interpreter and to speak its language.
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ")


class Said(Struct, frozen=True):
    """How a command ended by itself, and what it printed."""

    code: int
    out: str
    err: str


class CommandFailed(Exception):
    """It did not come to an end of its own; the text says in a few words why."""


def environment_for_commands(**more: str) -> dict[str, str]:
    """What a program gets of our environment that is not ours: no secret, enough to run."""
    return {k: os.environ[k] for k in _PASSED if k in os.environ} | more


def run_command(command: str | Sequence[str], timeout_s: float, text: str = "", **more: str) -> Said:
    """Run it with ``text`` on its standard input and ``more`` in its environment.

    Raises CommandFailed: it cannot be run, was killed, or did not end within ``timeout_s``; then nothing of it is left.
    """
    try:
        argv = shlex.split(command) if isinstance(command, str) else list(command)
        if not argv:
            raise ValueError("it is empty")
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment_for_commands(**more),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise CommandFailed(f"cannot be run: {error}") from error
    with process:
        try:
            out, err = process.communicate(text, timeout_s)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise CommandFailed(f"no answer within {timeout_s:g} s") from error
        except BaseException:
            _end(process)
            raise
    if process.returncode < 0:
        raise CommandFailed(f"killed by signal {-process.returncode}")
    return Said(process.returncode, out, err)


def _end(process: subprocess.Popen[str]) -> None:
    """It ends, and whatever it started and left in its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
