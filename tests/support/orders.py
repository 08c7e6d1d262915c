"""A small table of orders with a contract of every kind of mapping, as ddl leaves it; and the steps on it."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from orchestrator.model.contract import (
    Column,
    Contract,
    Expression,
    Invariant,
    Mapping,
    TableName,
    ValueMap,
)
from orchestrator.model.runbook import Limits, Runbook
from orchestrator.model.step import Compare, Fill, Purpose, Truth
from orchestrator.model.types import parse_type
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.site import Site
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import OPERATOR, Account
from tests.support.rows import ROLLOUT
from tests.support.servers import script
from tests.support.state import settings_of

FORWARD = (("new", "pending"), ("work", "running"), ("done", "succeeded"), ("err", "failed"))
BACKWARD = (
    ("pending", "new"),
    ("running", "work"),
    ("locked", "work"),
    ("succeeded", "done"),
    ("failed", "err"),
    ("cancelled", "err"),
)
OLD_COLUMNS = (
    "id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, status VARCHAR(20) NOT NULL DEFAULT 'new',"
    " timeout_s INT NOT NULL DEFAULT 30, note VARCHAR(200) NULL,"
    " made_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),"
    " changed_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),"
    " PRIMARY KEY (id), KEY changed (changed_at)"
)
NEW_COLUMNS = "state VARCHAR(32) NULL, timeout_ms BIGINT NULL, kind VARCHAR(16) NULL, label VARCHAR(60) NULL"


def contract(schema: str) -> Contract:
    def new(name: str, kind: str) -> Column:
        return Column(name, parse_type(kind), null=True)

    return Contract(
        table=TableName(schema, "orders"),
        columns=(
            new("state", "varchar(32)"),
            new("timeout_ms", "bigint"),
            new("kind", "varchar(16)"),
            new("label", "varchar(60)"),
        ),
        mappings=(
            Mapping("state", "status", ValueMap(FORWARD), ValueMap(BACKWARD)),
            Mapping(
                "timeout_ms",
                "timeout_s",
                Expression("timeout_s * 1000"),
                Expression("LEAST(CEIL(timeout_ms / 1000), 2147483647)"),
            ),
            Mapping("kind", None, Expression("'order'")),
            Mapping("label", None, Expression("CONCAT(status, '-', id)"), follows=True),
        ),
        invariants=(Invariant("timeout-is-positive", "timeout_s >= 0"),),
    )


def runbook(schema: str, limits: Limits | None = None) -> Runbook:
    return Runbook(
        id=ROLLOUT,
        contract=contract(schema),
        digest="d" * 64,
        text="",
        path="rollout.yaml",
        limits=limits or Limits(),
    )


def site(server: Server, schema: str, account: Account = OPERATOR, max_wait_s: float = 600.0) -> Site:
    return Site(
        settings_of(server, account=account), runbook(schema, replace(Limits(), max_wait_s=max_wait_s)), SystemClock()
    )


def make_orders(server: Server, schema: str, rows: int, *, expanded: bool = True) -> None:
    """``rows`` orders with ids 1.. and all four statuses, changed long ago; with the new columns when ``expanded``."""
    more = f", {NEW_COLUMNS}" if expanded else ""
    script(
        server,
        f"CREATE TABLE orders ({OLD_COLUMNS}{more});"
        " SET SESSION cte_max_recursion_depth = 1000000;"
        " INSERT INTO orders (status, timeout_s, note, changed_at)"
        " WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < GREATEST(1, %d))"
        " SELECT ELT(1 + i %% 4, 'new', 'work', 'done', 'err'), i %% 90, REPEAT('ä', i %% 50), '2025-01-01' FROM n"
        " WHERE %d > 0;" % (rows, rows),
        database=schema,
    )


def fill(
    schema: str,
    pass_name: Literal["backfill", "sweep"] = "backfill",
    rows: int = 200,
    on_conflict: Literal["", "refuse", "new_wins", "old_wins"] = "",
    workers: int = 1,
) -> Fill:
    return Fill(
        table=TableName(schema, "orders"),
        walk=1,
        pass_name=pass_name,
        # Long, so that a busy machine does not change the size of a batch.
        target_time_s=60.0,
        max_batch_rows=rows,
        on_conflict=on_conflict,
        workers=workers,
    )


def compare(
    schema: str,
    purpose: Purpose = "drift",
    relation: Truth = "old-is-truth",
) -> Compare:
    return Compare(table=TableName(schema, "orders"), walk=1, purpose=purpose, relation=relation, target_time_s=0.08)
