"""A table of three rows with a runbook of some lines, for tests that break one thing and look at what is said."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.template import OPERATOR, Account
from tests.support.command import Terminal
from tests.support.servers import script, sql, wait_caught_up

PLAIN = "id INT PRIMARY KEY, status VARCHAR(20) NOT NULL, note VARCHAR(50)"
ROWS = "(1, 'new', NULL), (2, 'done', 'größe'), (3, 'done', '')"
RUNBOOK = """\
apiVersion: rollout/v1
name: {name}
table: {{schema: {schema}, name: orders}}
contract:
  columns:
    - {{name: state, type: varchar(32)}}
  indexes:
    - {{name: orders_state_idx, columns: [state]}}
mappings:
  - old: status
    new: state
    forward: {{values: {{new: pending, done: succeeded}}, unmapped: refuse}}
    backward: {{values: {{pending: new, running: new, succeeded: done, cancelled: done}}, unmapped: refuse}}
phases:
  shadow_write: {{soak: 200ms}}
  read_switch: {{percent: [50, 100], hold: 200ms, ttl: 4s, poll: 200ms, gates: [drift]}}
  verify: {{soak: 200ms}}
  rollback: {{quiet: 200ms}}
  finish: {{quiet: 200ms}}
checks: {{max_wait: 1s}}
"""


@dataclass
class Small:
    """``orders`` in a schema of its own; ``terminal`` is the operator's."""

    pair: Pair
    schema: str
    name: str
    terminal: Terminal

    @property
    def table(self) -> str:
        return f"`{self.schema}`.`orders`"

    def text(self, *changes: tuple[str, str]) -> str:
        """The runbook with pieces replaced, each of which must be there."""
        text = RUNBOOK.format(name=self.name, schema=self.schema)
        for old, new in changes:
            assert old in text, f"{old!r} is not in the runbook"
            text = text.replace(old, new)
        return text

    def write(self, *changes: tuple[str, str], name: str = "rollout.yaml") -> Path:
        """Write the runbook, so changed, beside the first one; its path."""
        path = self.terminal.runbook.with_name(name)
        path.write_text(self.text(*changes), encoding="utf-8")
        return path

    def operator(self, account: Account = OPERATOR, **more: str) -> Terminal:
        """A terminal with another account, or other settings."""
        said = {"ROLLOUT_USER": account.user, "ROLLOUT_PASSWORD": account.password}
        return Terminal(self.terminal.server, self.terminal.runbook, said | more)

    def sql(self, text: str, *args: Any) -> list[tuple[Any, ...]]:
        return sql(self.pair.primary, text, args or None)

    def seen(self) -> dict[str, Any]:
        """Everything that a command could have changed: tables, views, triggers, rows, and whether it began a state."""
        names = self.sql(
            "SELECT TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s ORDER BY 1",
            self.schema,
        )
        found: dict[str, Any] = {"state": self.sql("SHOW DATABASES LIKE '\\_rollout'")}
        for name, kind in names:
            of = f"`{self.schema}`.`{name}`"
            found[f"create {name}"] = self.sql(f"SHOW CREATE TABLE {of}")[0][1]
            if kind == "BASE TABLE":
                found[f"rows {name}"] = self.sql(f"CHECKSUM TABLE {of}")[0][1]
        found["triggers"] = self.sql(
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s", self.schema
        )
        return found

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Nothing of the table, its rows or the server's state schema is changed inside."""
        before = self.seen()
        yield
        assert self.seen() == before


@contextmanager
def small(pair: Pair, folder: Path, columns: str = PLAIN, rows: str = ROWS, options: str = "") -> Iterator[Small]:
    """That table with those columns (or none with ""), and the runbook; all gone afterwards, the tool's state too."""
    schema = f"s_{uuid.uuid4().hex[:12]}"
    drop = f"SET SESSION lock_wait_timeout = 30; DROP DATABASE IF EXISTS {schema}; DROP DATABASE IF EXISTS _rollout"
    script(pair.primary, f"{drop}; CREATE DATABASE {schema} DEFAULT CHARACTER SET utf8mb4")
    try:
        if columns:
            script(pair.primary, f"CREATE TABLE {schema}.orders ({columns}) {options}")
        if rows and columns:
            script(pair.primary, f"INSERT INTO {schema}.orders VALUES {rows}")
        wait_caught_up(pair)
        here = Small(pair, schema, "orders-state", Terminal(pair.primary, folder / "rollout.yaml"))
        here.write()
        yield here
    finally:
        script(pair.primary, drop)
