"""Law 7: for every kind of step of a whole rollout, what the driver shows just before is what the server then gets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.model.outcome import Outcome, Seen
from orchestrator.model.runbook import RollbackDdl
from orchestrator.ports import Beat, Driver
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from tests.support.command import ground
from tests.support.log import apart, as_run, general_log, said
from tests.support.servers import script
from tests.support.within import commands_with, forward, opened

pytestmark = [pytest.mark.walk, pytest.mark.timeout(240)]

# Words about a wait or a gate, no statement.
_WORDS = "--"
# What changes a table or its triggers is shown without exception.
_CHANGES = re.compile(r"(ALTER|CREATE|DROP) ")
# Sent only when there is something to write, or something wrong: these have tests of their own beside their drivers.
_WHEN_PENDING = re.compile(
    r"UPDATE /\*\+.*fill:sweep|SET @changed = GREATEST|SELECT /\* rollout:\S+ fill:sweep.*@skipped", re.DOTALL
)
_WHEN_WRONG = re.compile(r"SELECT /\* rollout:\S+ compare:.* ORDER BY (?!.* OFFSET )")
ALL_KINDS = {
    "try-ddl",
    "add-columns",
    "add-index",
    "add-foreign-key",
    "prove-foreign-key",
    "fill",
    "try-mirror",
    "install-trigger",
    "soak",
    "compare",
    "catch-up",
    "measure-baselines",
    "open-writes",
    "set-percent",
    "keep-flags",
    "watch-readers",
    "lower-flags",
    "drain",
    "quiet",
    "remove-mirror",
    "drop-foreign-key",
    "drop-index",
    "drop-columns",
    "close-rollout",
}


@dataclass
class Book:
    """By the kind of step, what was shown and not run, and what was run and not shown; and every kind that was met."""

    server: Server
    not_run: list[tuple[str, str]] = field(default_factory=list)
    not_shown: list[tuple[str, str]] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)

    def compare(self, kind: str, shown: Sequence[str], ran: Sequence[str]) -> None:
        self.kinds.add(kind)
        statements = [s for text in shown for s in apart(text) if not s.startswith(_WORDS)]
        absent = [s for s in statements if not any(as_run(s).fullmatch(r.rstrip(";")) for r in ran)]
        absent = [s for s in absent if not _WHEN_PENDING.match(s) and not _WHEN_WRONG.match(s)]
        self.not_run += [(kind, s) for s in absent]
        self.not_shown += [(kind, r) for r in ran if _CHANGES.match(r) and r not in statements]


@dataclass
class Shown:
    """A driver whose every step is shown before it is done; only what ``apply`` says is in the log."""

    driver: Driver[Any]
    book: Book

    def describe(self, step: Any) -> Sequence[str]:
        return self.driver.describe(step)

    def apply(self, step: Any, beat: Beat) -> Outcome:
        shown = self.driver.describe(step)
        script(self.book.server, "TRUNCATE mysql.general_log")
        outcome = self.driver.apply(step, beat)
        self.book.compare(step.kind, shown, said(self.book.server))
        return outcome

    def observe(self, step: Any, beat: Beat) -> Seen:
        return self.driver.observe(step, beat)

    def abandon(self, step: Any, beat: Beat) -> Outcome:
        return self.driver.abandon(step, beat)


def test_every_step_of_a_rollout_runs_what_it_shows(pair: Pair, tmp_path: Path) -> None:
    book = Book(pair.primary)
    with ground(pair, "aijob", tmp_path, rows=300, wait_s=0.3) as here, general_log(pair.primary):
        dropping = replace(here.runbook, phases=replace(here.runbook.phases, rollback_ddl=RollbackDdl.DROP))
        with opened(dropping, pair.primary) as app:
            commands = commands_with(app, lambda driver: Shown(driver, book))
            forward(commands)
            commands.rollback("", ())
            forward(commands)
            commands.finish(False, ())
    print(*((k, s[:150], s[-80:]) for k, s in book.not_run), sep="\n")
    assert book.not_run == []
    assert book.not_shown == []
    assert book.kinds == ALL_KINDS
