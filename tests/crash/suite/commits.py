"""Who committed what: the server's connections, as its binary log names them.

An event has a header of 19 bytes (time 4, type 1, server 4, length 4, end 4, flags 2), and that of a statement goes on
with the connection that said it, four bytes (MySQL internals manual, "Binary Log Event", "Query_event",
"Table_map_event"). Transactions of rows begin with the statement BEGIN, so every commit has one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from tests.support.command import Ground

_HEADER = struct.Struct("<IBIIIH")
# What comes behind the connection and the seconds: length of the schema's name, error, length of the status variables.
_QUERY_HEAD = struct.Struct("<BHH")
_QUERY, _TABLE_MAP = 2, 19
_CHECKSUM_BYTES = 4


@dataclass(frozen=True)
class Mark:
    """A place in the binary log of the primary."""

    file: str
    position: int


def mark(here: Ground) -> Mark:
    """Where the log ends now."""
    file, position = here.sql("SHOW BINARY LOG STATUS")[0][:2]
    return Mark(file, int(position))


@dataclass(frozen=True)
class Commit:
    """By which connection, and of what: the tables whose rows changed, or the text of a statement."""

    connection: int
    of: str

    @property
    def takes_the_lease(self) -> bool:
        """Whether the epoch is raised and an owner written: each is a change of the lease's row."""
        return self.of.split().count("_rollout.lease") == 2


def committed(here: Ground, since: Mark) -> list[Commit]:
    """Each commit since then, in order. The log is still the same file."""
    until = mark(here)
    assert until.file == since.file, f"the log went on from {since.file} to {until.file}"
    ((folder,),) = here.sql("SELECT @@datadir")
    with (Path(folder) / since.file).open("rb") as log:
        log.seek(since.position)
        events = log.read(until.position - since.position)
    found, at = list[Commit](), 0
    while at < len(events):
        _, kind, _, length, _, _ = _HEADER.unpack_from(events, at)
        body = events[at + _HEADER.size : at + length]
        if kind == _QUERY:
            found.append(Commit(struct.unpack_from("<I", body)[0], _text(body)))
        elif kind == _TABLE_MAP and found:
            found[-1] = Commit(found[-1].connection, f"{found[-1].of} {_table(body)}")
        at += length
    return found


def _text(body: bytes) -> str:
    schema_bytes, _, status_bytes = _QUERY_HEAD.unpack_from(body, 8)
    begins = 13 + status_bytes + schema_bytes + 1
    return body[begins:-_CHECKSUM_BYTES].decode(errors="replace")[:200]


def _table(body: bytes) -> str:
    names = []
    at = 8
    for _ in range(2):
        names.append(body[at + 1 : at + 1 + body[at]].decode())
        at += body[at] + 2
    return ".".join(names)
