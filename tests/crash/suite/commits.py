"""Who committed what: the server's connections, as its binary log names them.

An event has a header of 19 bytes (time 4, type 1, server 4, length 4, end 4, flags 2), and that of a statement goes on
with the connection that said it, four bytes (MySQL internals manual, "Binary Log Event" and "Query_event").
Transactions of rows begin with the statement BEGIN, so every commit has one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from tests.support.command import Ground

_HEADER = struct.Struct("<IBIIIH")
_QUERY = 2


@dataclass(frozen=True)
class Mark:
    """A place in the binary log of the primary."""

    file: str
    position: int


def mark(here: Ground) -> Mark:
    """Where the log ends now."""
    file, position = here.sql("SHOW BINARY LOG STATUS")[0][:2]
    return Mark(file, int(position))


def committed(here: Ground, since: Mark) -> list[int]:
    """The connection of each commit since then, in order. The log is still the same file."""
    until = mark(here)
    assert until.file == since.file, f"the log went on from {since.file} to {until.file}"
    ((folder,),) = here.sql("SELECT @@datadir")
    with (Path(folder) / since.file).open("rb") as log:
        log.seek(since.position)
        events = log.read(until.position - since.position)
    found, at = list[int](), 0
    while at < len(events):
        _, kind, _, length, _, _ = _HEADER.unpack_from(events, at)
        if kind == _QUERY:
            found.append(struct.unpack_from("<I", events, at + _HEADER.size)[0])
        at += length
    return found
