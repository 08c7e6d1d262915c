"""A change made by a tool that fills a copy of the table and swaps it in: what it is asked for, and what it tells."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from orchestrator.model.contract import TableName

# A tool that reads the binary log registers as a replica and is none: ours do it under ids of this range ("gh" in their
# upper half), by which they are known.
READER_IDS = range(0x6768_0000, 0x6769_0000)


# Such a tool puts a name between backticks as it is, and takes the quotes off one that has some of its own.
_UNQUOTABLE = re.compile(r"[`'\"\\\x00-\x1f\x7f]")


def unquotable(names: Iterable[str]) -> str:
    """Which of these names such a tool would say as something else, in one clause; "" when it can say all."""
    odd = next((name for name in names if _UNQUOTABLE.search(name)), None)
    return "" if odd is None else f"it cannot quote the name {odd!r}"


class CopyChange(Struct, frozen=True, kw_only=True):
    """Everything that a run is called with. ``alter``: the clauses behind ALTER TABLE, one statement. ``replicas``:
    host:port of all that must keep up. ``encrypted``: the server speaks TLS and so must the tool. ``resume``: go on
    from the checkpoint of an earlier run of the same change."""

    rollout: str
    table: TableName
    alter: str
    host: str
    port: int
    server_version: tuple[int, int, int]
    replicas: tuple[str, ...]
    gtid: bool
    encrypted: bool
    chunk_rows: int
    max_lag_s: float
    threads_running: int
    resume: bool = False


class CopyTables(Struct, frozen=True, kw_only=True):
    """Names of the tables that a tool makes beside the one that it changes. ``old`` is the table that was swapped out;
    ``sentry`` is the comment of an empty stand-in under that name, which holds no data."""

    new: str
    log: str
    checkpoints: str
    old: str
    sentry: str


class CopyStatus(Struct, frozen=True):
    """How far a run is. ``total_rows`` 0: nobody knows. ``ready``: only the word for the cut-over is missing.
    ``throttled_by``: why it stands still of its own accord; ``told_to_wait``: it does because we said so.
    ``lag_s``: age of the newest change that it has read. ``waits_for``: when ready, the file of ours that holds it
    back until it goes."""

    copied_rows: int
    total_rows: int
    applied_rows: int
    backlog_rows: int
    lag_s: float
    eta_s: float | None
    ready: bool
    throttled_by: str
    told_to_wait: bool
    note: str
    waits_for: str = ""


class CopyEnd(Struct, frozen=True):
    """How a run ended. ``code`` is the program's, negative for a signal; ``words``: what it said last, for a person.
    Neither says whether the table was changed: only the table does."""

    code: int
    words: str
