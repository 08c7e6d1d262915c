"""The installed command, run as an operator runs it, on a table that a shipped runbook describes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.model.facts import Shape
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.session import Session
from orchestrator.runbook.emit import document
from orchestrator.runbook.load import load
from orchestrator.runbook.shorten import write_short_copy
from orchestrator.runbook.tree import read_document
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.sandbox.seed import create_tables, seed_table
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import OPERATOR
from orchestrator.sandbox.traffic import Traffic
from tests.support.servers import script, sql, wait_caught_up
from tests.support.shapes import live_shape
from tests.support.state import settings_of

ROLLOUT = str(Path(sys.executable).with_name("rollout"))
PASSWORD = "rollout-Secret-4711"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object on standard output."""
        return dict(json.loads(self.out))


@dataclass
class Terminal:
    """One operator's shell: where the server is, and which runbook."""

    server: Server
    runbook: Path
    more: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ROLLOUT_")}
        return kept | {
            "ROLLOUT_HOST": self.server.host,
            "ROLLOUT_PORT": str(self.server.port),
            "ROLLOUT_USER": OPERATOR.user,
            "ROLLOUT_PASSWORD": OPERATOR.password,
            "ROLLOUT_RUNBOOK": str(self.runbook),
            "NO_COLOR": "1",
            "XDG_STATE_HOME": str(self.runbook.parent / "state"),
            **self.more,
        }

    def run(self, *arguments: str, expect: int | None = 0, timeout_s: float = 110) -> Ran:
        """Run it to its end; ``expect`` None takes any exit code."""
        ended = subprocess.run(
            [ROLLOUT, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if expect is not None:
            shown = f"rollout {' '.join(arguments)} ended with {ended.returncode}, expected {expect}"
            assert ended.returncode == expect, f"{shown}\n{ended.stdout}\n{ended.stderr}"
        return Ran(ended.returncode, ended.stdout, ended.stderr)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it; the caller waits for it or kills it."""
        return subprocess.Popen(
            [ROLLOUT, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@dataclass
class Ground:
    """A seeded table before its rollout, on the shared pair."""

    pair: Pair
    runbook: Runbook
    shape: Shape
    terminal: Terminal

    def mirrored_by(self, driver: str) -> Ground:
        """The same with another driver of the mirror, in the runbook's file too."""
        path = Path(self.runbook.path)
        tree: Any = deepcopy(read_document(path.read_text(encoding="utf-8"), str(path)).value)
        tree["phases"]["shadow_write"]["driver"] = driver
        path.write_text(document(tree), encoding="utf-8")
        return Ground(self.pair, load(path), self.shape, self.terminal)

    @property
    def table(self) -> str:
        return f"`{self.runbook.table.schema}`.`{self.runbook.table.name}`"

    def sql(self, text: str, *args: Any) -> list[tuple[Any, ...]]:
        return sql(self.pair.primary, text, args or None)

    def events(self) -> int:
        """How many events the history has; 0 before there is one."""
        rows = self.sql(
            "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_rollout' AND TABLE_NAME = 'event'"
        )
        return int(self.sql("SELECT COUNT(*) FROM _rollout.event")[0][0]) if rows[0][0] else 0

    def old_rows(self) -> list[tuple[Any, ...]]:
        """Every old column of every row, timestamps included."""
        names = ", ".join(f"`{c.name}`" for c in self.shape.columns)
        return self.sql(f"SELECT {names} FROM {self.table} ORDER BY {', '.join(f'`{k}`' for k in self.shape.key)}")

    def lost(self, traffic: Traffic) -> list[str]:
        """Every difference from the ledger on primary and replica, both columns of each pair."""
        wait_caught_up(self.pair)
        found = []
        for server in (self.pair.primary, self.pair.replica):
            with closing(Session(settings_of(server), role="ledger")) as session:
                found += [f"{server.name}: {d}" for d in traffic.ledger.compare(session)]
        return found

    def triggers(self) -> list[str]:
        found = self.sql(
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s",
            self.runbook.table.schema,
        )
        return [row[0] for row in found]


@contextmanager
def ground(
    pair: Pair,
    name: str,
    folder: Path,
    *,
    rows: int = 300,
    seed: int = 1,
    wait_s: float = 1.0,
    flagd: Path | None = None,
) -> Iterator[Ground]:
    """The shipped runbook's table with data, and its runbook with short waits; all gone afterwards. ``flagd``:
    applications ask that file where to read."""
    runbook = write_short_copy(runbooks_folder() / f"{name}.yaml", folder / f"{name}.yaml", wait_s, flagd)
    schema = runbook.table.schema
    script(pair.primary, f"DROP DATABASE IF EXISTS `{schema}`; DROP DATABASE IF EXISTS _rollout")
    try:
        with closing(Session(settings_of(pair.primary), role="test")) as session:
            create_tables(session, runbook)
            shape = live_shape(session, runbook.table)
            seed_table(session, runbook, shape, rows, seed)
        wait_caught_up(pair)
        yield Ground(pair, runbook, shape, Terminal(pair.primary, Path(runbook.path)))
    finally:
        script(pair.primary, f"DROP DATABASE IF EXISTS `{schema}`; DROP DATABASE IF EXISTS _rollout")
