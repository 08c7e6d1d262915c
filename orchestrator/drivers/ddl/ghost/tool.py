"""gh-ost as a tool that fills a copy: names, command, files, and the run."""

from __future__ import annotations

import hashlib
import secrets
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec.structs import replace

from orchestrator.drivers.ddl.ghost import place as places
from orchestrator.drivers.ddl.ghost.binary import Binary, find
from orchestrator.drivers.ddl.ghost.command import arguments
from orchestrator.drivers.ddl.ghost.process import GhostRun
from orchestrator.errors import ConfigurationError
from orchestrator.model.contract import TableName
from orchestrator.model.copying import READER_IDS, CopyChange, CopyTables
from orchestrator.ports import Clock
from orchestrator.settings import ServerSettings

_LONGEST_LOCK = 64


class GhostTool:
    """Implements ports.CopyTool. ``built`` is where ``make gh-ost`` puts its own."""

    name = "gh-ost"

    def __init__(
        self, settings: ServerSettings, clock: Clock, built: Path, finder: Callable[[Path], Binary] = find
    ) -> None:
        self._settings = settings
        # Over a socket our own sessions look at no certificate either.
        self._tls = replace(settings.tls, mode="REQUIRED", ca="") if settings.socket else settings.tls
        self._clock = clock
        self._built = built
        self._find = finder

    def tables(self, table: TableName) -> CopyTables:
        of = table.name
        return CopyTables(
            new=f"_{of}_gho",
            log=f"_{of}_ghc",
            checkpoints=f"_{of}_ghk",
            old=f"_{of}_del",
            sentry="ghost-cut-over-sentry",
        )

    def run_lock(self, table: TableName) -> str:
        """As gh-ost names it; hashed when it would be longer than the server takes."""
        name = f"gh-ost::{table.schema}.{table.name}"
        if len(name.encode()) <= _LONGEST_LOCK:
            return name
        return "gh-ost::" + hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()

    def command(self, change: CopyChange) -> Sequence[str]:
        program = self._find(self._built)
        place = self._place(change)
        shown = shlex.join((str(program.path.name), *arguments(change, place, self._tls, READER_IDS.start)))
        return (
            f"-- gh-ost {program.version_text}; user and password from its environment, the server id drawn anew",
            shown,
        )

    def start(self, change: CopyChange) -> GhostRun:
        program = self._find(self._built)
        place = self._place(change)
        words = arguments(change, place, self._tls, secrets.choice(READER_IDS))
        place.clear()
        place.make()
        run = GhostRun(program.path, words, place, change.table, self._clock)
        try:
            run.begin(self._settings)
        except ConfigurationError:
            place.clear()
            raise
        return run

    def began(self, change: CopyChange) -> str:
        return self._place(change).said

    def settle(self, change: CopyChange) -> None:
        self._place(change).settle()

    def clear(self, change: CopyChange) -> None:
        self._place(change).clear()

    def _place(self, change: CopyChange) -> places.Place:
        return places.place(change.rollout, f"{change.host}:{change.port}", change.table)
