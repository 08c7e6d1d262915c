"""The proof of compatibility: whose statements are tried, and where the proof lies."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from orchestrator.app.drift import session_for
from orchestrator.app.stated import MOST_BYTES
from orchestrator.contract.ddl.statements import joined, statements
from orchestrator.model.contract import Contract
from orchestrator.model.matrix import Matrix, Version
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.captured import names, not_declared
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.compat import Statements, prove
from orchestrator.mysql.look.spoken import Heard, read_spoken
from orchestrator.mysql.site import Site
from orchestrator.runbook.source import read_source
from orchestrator.settings import ServerSettings

_LOOK_EVERY_S = 2.0


class Sources(Struct, frozen=True):
    """What is tried beside the statements of the runbook: a file of SQL for each version, and what is said to the
    table in ``capture_s`` from now on; 0 captures nothing."""

    old: Path | None = None
    new: Path | None = None
    capture_s: float = 0.0


def find_matrix(runbook: Runbook, settings: ServerSettings, sources: Sources, tell: Callable[[str], None]) -> Matrix:
    """The read/write matrix of all of them. ``tell`` hears how capturing goes. Raises RolloutError."""
    contract = runbook.contract
    old = (*contract.old_statements, *_of_file(sources.old))
    new = (*contract.new_statements, *_of_file(sources.new))
    captured: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    if sources.capture_s:
        heard = _captured(contract, settings, sources.capture_s, tell)
        captured = not_declared(heard.statements, (*old, *new))
        notes = (_unseen(heard, len(captured), sources.capture_s),)
    by_version: dict[Version, Sequence[str]] = {
        "old": (*old, *(s for s in captured if not _says_new(contract, s))),
        "new": (*new, *(s for s in captured if _says_new(contract, s))),
    }
    site = Site(settings, runbook, SystemClock())
    return prove(site, Statements(by_version, frozenset(captured), notes))


def _of_file(path: Path | None) -> tuple[str, ...]:
    """Every statement of a file of SQL."""
    if path is None:
        return ()
    text = read_source(path, "a file of SQL", "name the right file", MOST_BYTES)
    return tuple(joined(s) for s in statements(text, str(path)))


def _unseen(heard: Heard, undeclared: int, seconds: float) -> str:
    """What capturing could not see."""
    cut = f", {heard.left_out} more were cut by the server or do not show their values" if heard.left_out else ""
    kinds = f"{len(heard.statements)} kinds of statement name the table, {undeclared} of them not declared{cut}"
    return (
        f"captured for {seconds:g} s: {kinds}; the server keeps no account and no version with them, forgets the "
        "oldest, and shows nothing of what was not said in that time or in another schema"
    )


def _captured(contract: Contract, settings: ServerSettings, seconds: float, tell: Callable[[str], None]) -> Heard:
    """Statements that name the table, seen at any look while the time lasts."""
    found: dict[str, None] = {}
    with session_for(settings, f"capturing what is said to {contract.table}") as session:
        until = time.monotonic() + seconds
        while True:
            heard = read_spoken(session, contract.table)
            found.update(dict.fromkeys(heard.statements))
            left_s = until - time.monotonic()
            tell(f"{len(found)} statements that name {contract.table.name}, {max(0.0, left_s):.0f} s to go")
            if left_s <= 0:
                return Heard(tuple(found), heard.left_out)
            time.sleep(min(_LOOK_EVERY_S, left_s))


def _says_new(contract: Contract, statement: str) -> bool:
    """Only a version that knows the contract names what it adds."""
    added = {c.name.lower() for c in contract.columns} | {r.new.lower() for r in contract.renames_in_place}
    return bool(names(statement) & added)
