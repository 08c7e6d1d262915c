"""A table of one hard case, expanded by hand, and its backfill stopped after every batch and begun anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orchestrator.drivers.rows import FillDriver
from orchestrator.model.contract import Column, Contract, Expression, Mapping, TableName
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import Fill
from orchestrator.model.types import parse_type
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.site import Site
from orchestrator.sandbox.server import Server
from tests.support.rows import ROLLOUT, ToldBeat, begin_rollout, paused_after
from tests.support.servers import script, sql
from tests.support.state import settings_of


@dataclass(frozen=True, slots=True)
class Case:
    """``new`` is added with type ``kind`` and follows ``expression``; ``key``: the columns by which rows are told."""

    columns: str
    rows: str
    new: str
    kind: str
    expression: str
    key: str
    wanted: tuple[str, ...] = ()

    def make(self, server: Server, schema: str, before: str = "") -> None:
        """The expanded table ``t``, a rollout, and ``writes``, which counts each write of a row by its key."""
        script(
            server,
            f"{before} CREATE TABLE t ({self.columns}); INSERT INTO t {self.rows};"
            f"ALTER TABLE t ADD COLUMN {self.new} {self.kind} NULL; CREATE TABLE writes (k VARBINARY(200));"
            "CREATE TRIGGER counts AFTER UPDATE ON t FOR EACH ROW INSERT INTO writes VALUES"
            f" (CONCAT_WS(':', {', '.join(f'NEW.{k.strip()}' for k in self.key.split(','))}))",
            schema,
        )
        begin_rollout(server)

    def site(self, server: Server, schema: str) -> Site:
        contract = Contract(
            table=TableName(schema, "t"),
            columns=(Column(self.new, parse_type(self.kind)),),
            mappings=(Mapping(self.new, None, Expression(self.expression), follows=True),),
            key=self.wanted,
        )
        return Site(
            settings_of(server), Runbook(id=ROLLOUT, contract=contract, digest="", text="", path=""), SystemClock()
        )

    def step(self, schema: str, rows: int, pass_name: Any = "backfill") -> Fill:
        return Fill(table=TableName(schema, "t"), walk=1, pass_name=pass_name, target_time_s=60.0, max_batch_rows=rows)

    def backfill(self, server: Server, schema: str, batch_rows: int) -> Outcome:
        """The backfill in batches of that size, each by a driver of its own that is stopped after it."""
        for _ in range(100):
            driver = FillDriver(self.site(server, schema))
            outcome = driver.apply(self.step(schema, batch_rows), ToldBeat(answer=paused_after(1)))
            if outcome.result is not Result.PAUSED:
                return outcome
        raise AssertionError("the backfill does not end")


def writes(server: Server, schema: str) -> list[int]:
    """How often each row that was written was written."""
    return [int(n) for (n,) in sql(server, f"SELECT COUNT(*) FROM {schema}.writes GROUP BY k")]


def positions(server: Server) -> str:
    """The stored position of the backfill."""
    return str(sql(server, "SELECT position FROM _rollout.position")[0][0])
