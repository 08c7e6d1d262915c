"""The last line, written when the server takes no more: what we were about to store, in a file on this machine."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.model.state import Event, Record


def default_path() -> Path:
    """``rollout/journal.log`` in the state directory of this user, or ``.rollout/journal.log`` here without a home."""
    if state := os.environ.get("XDG_STATE_HOME"):
        return Path(state) / "rollout" / "journal.log"
    if os.environ.get("HOME"):
        return Path.home() / ".local" / "state" / "rollout" / "journal.log"
    return Path(".rollout") / "journal.log"


def write(path: Path, record: Record, event: Event, text: str) -> str:
    """Append one line, readable by nobody else, and force it to disk. Returns where it is, or why it is not."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    line = f"{now} {record.id} revision {record.revision} epoch {record.epoch} {event.kind.value}: {text}\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            left = line.encode()
            while left:  # a disk that gets full takes a part of it, and says so only at the next try
                left = left[os.write(file, left) :]
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        return f"not written ({path}: {error.strerror})"
    return str(path)
