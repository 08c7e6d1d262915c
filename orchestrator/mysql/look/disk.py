"""Free disk of the server. No statement tells it: a server on this machine is asked of its file system, another one by
a command of the user's, or not at all and said so."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from orchestrator.command import CommandFailed, run_command
from orchestrator.model.facts import DiskFacts
from orchestrator.model.runbook import DiskSource
from orchestrator.mysql.look.unseen import Unseen
from orchestrator.mysql.session import Session

_PATHS = "SELECT @@datadir, @@log_bin_basename, COALESCE(NULLIF(@@innodb_tmpdir, ''), @@tmpdir), @@hostname"
_COMMAND_TIMEOUT_S = 5.0
_ADVICE = "say checks: disk: {command: …} (prints free bytes), or none with a reason"


def read_disk(session: Session, source: DiskSource) -> DiskFacts:
    """Free bytes for data, binary log and sort files, the least of the three. Raises Unseen, ServerError.

    With ``none`` there is no number, and ``source`` carries the operator's reason.
    """
    match source.kind:
        case "none":
            return DiskFacts(None, f"none: {source.argument}")
        case "command":
            return DiskFacts(_from_command(source.argument), "command")
        case _:
            return _from_file_system(session)


def _from_file_system(session: Session) -> DiskFacts:
    row = session.one(_PATHS)
    datadir, binlog, tmpdir, hostname = row if row else ("", "", "", "")
    settings = session.settings
    if not settings.is_local:
        raise Unseen(f"{settings.address} is another machine, whose disk cannot be seen from here", _ADVICE)
    if not settings.socket and hostname != socket.gethostname():
        raise Unseen(f"{settings.address} leads to {hostname}, whose disk cannot be seen from here", _ADVICE)
    paths = [str(datadir), *([str(Path(binlog).parent)] if binlog else []), *str(tmpdir).split(os.pathsep)]
    try:
        free = min((_free_bytes(p), p) for p in paths)
    except OSError as error:
        raise Unseen(f"{error.filename} cannot be looked at from here: {error.strerror}", _ADVICE) from error
    return DiskFacts(free[0], free[1])


def _free_bytes(path: str) -> int:
    seen = os.statvfs(path)
    return seen.f_bavail * seen.f_frsize


def _from_command(command: str) -> int:
    try:
        done = run_command(command, _COMMAND_TIMEOUT_S)
    except CommandFailed as failed:
        raise Unseen(f"the disk command {command!r}: {failed}", _ADVICE) from failed
    if done.code != 0:
        raise Unseen(f"the disk command {command!r} ended with {done.code}", _ADVICE)
    try:
        return int(done.out.strip())
    except ValueError:
        raise Unseen(f"the disk command {command!r} printed no whole number of bytes", _ADVICE) from None
