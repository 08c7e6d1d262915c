"""The last line, written when the server takes no more: what we were about to store, in a file on this machine."""

from __future__ import annotations

import errno
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK


def default_path() -> Path:
    """``rollout/journal.log`` in the state directory of this user, or ``.rollout/journal.log`` here without a home."""
    if state := os.environ.get("XDG_STATE_HOME"):
        return Path(state) / "rollout" / "journal.log"
    if os.environ.get("HOME"):
        return Path.home() / ".local" / "state" / "rollout" / "journal.log"
    return Path(".rollout") / "journal.log"


def last_line(text: str, path: Path | None = None) -> str:
    """Append ``text`` as one line, readable by nobody else, and force it to disk. Returns where it is, or why it is
    not: into a link, or a file of somebody else's, nothing is written."""
    path = path or default_path()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    line = f"{now} {' '.join(text.splitlines())}\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(path, _APPEND, 0o600)
        try:
            _make_ours_alone(file)
            left = line.encode()
            while left:  # a disk that gets full takes a part of it, and says so only at the next try
                left = left[os.write(file, left) :]
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        return f"not written ({path}: {error.strerror})"
    return str(path)


def _make_ours_alone(file: int) -> None:
    """One that was laid there before, by whomever, with whatever mode."""
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
        raise PermissionError(errno.EPERM, "it is no file of ours alone")
    os.fchmod(file, 0o600)
