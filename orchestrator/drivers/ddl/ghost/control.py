"""One command to a running gh-ost over its unix socket: one line in, text out until the end, then a new connection."""

from __future__ import annotations

import socket
from pathlib import Path

TIMEOUT_S = 3.0


class Silent(Exception):
    """There is no socket, nobody listens on it, or no answer came in time."""


def ask(path: Path, command: str, timeout_s: float = TIMEOUT_S) -> str:
    """The whole answer, decoded whatever bytes it has. Raises Silent."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(timeout_s)
            line.connect(str(path))
            line.sendall(command.encode() + b"\n")
            told = b""
            while chunk := line.recv(65_536):
                told += chunk
    except OSError as error:
        raise Silent(f"{command!r} got no answer on {path.name}: {error}") from error
    return told.decode(errors="replace")
