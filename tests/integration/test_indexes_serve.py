"""What the decision record of the AiJob contract says of its indexes and its DDL, asked of the server."""

from __future__ import annotations

import re
from typing import Any

from orchestrator.adr.material import Material, Query
from orchestrator.app.decision import material
from orchestrator.model.walking_key import PRIMARY
from orchestrator.mysql.relation import load_relation
from orchestrator.sandbox.server import Server
from tests.support.traffic import Prepared, expand, prepared, sweep
from tests.support.within import opened

ROWS = 1200
# What only the new application writes: kinds, requests, families, snapshots; and a few jobs that somebody claimed.
_LIVED = (
    "UPDATE {table} SET jobType = IF(CRC32(id) % 2, 'ai_analysis', 'summary'), idempotencyKey = CONCAT('k-', id),"
    " queueName = ELT(1 + CRC32(id) % 3, 'default', 'images', 'exports')",
    "UPDATE {table} j JOIN {table} p ON p.userId = j.userId AND CRC32(p.id) % 7 = 0 AND p.id <> j.id"
    " SET j.parentJobId = p.id",
    "UPDATE {table} SET lifecycleStatus = 'locked' WHERE lifecycleStatus = 'running' AND CRC32(id) % 5 = 0",
    "ANALYZE TABLE {table}",
)


def lived_in(at: Prepared) -> None:
    """The table as it is some weeks after the rollout."""
    expand(at)
    sweep(at, load_relation(at.session, at.runbook.contract, at.shape_now()))
    for text in _LIVED:
        at.session.execute(text.format(table=at.table))


def chosen(at: Prepared, query: Query, row: dict[str, Any]) -> str | None:
    """The index that the optimizer takes for the statement, asked with the values of a row that is there."""

    def value(match: re.Match[str]) -> str:
        return f"{match[1]} = {at.session.value('SELECT QUOTE(%s)', (row[match[1]],))}"

    text = re.sub(r"(\w+) = \?", value, query.text).replace("?", "60")
    text = text.replace(at.runbook.table.name, at.table)
    explained = at.session.query(f"EXPLAIN FORMAT=TRADITIONAL {text}")
    return None if explained[0][6] is None else str(explained[0][6])


def a_row(at: Prepared) -> dict[str, Any]:
    """A row with a value in every column that a statement looks up by."""
    names = [c.name for c in at.shape_now().columns]
    found = at.session.query(
        f"SELECT {', '.join(names)} FROM {at.table} WHERE parentJobId IS NOT NULL AND targetId IS NOT NULL LIMIT 1"
    )
    return dict(zip(names, found[0], strict=True))


def planned_sql(at: Prepared, server: Server) -> list[str]:
    """What the plan of stage ddl shows on this server."""
    with opened(at.runbook, server) as app:
        (stage,) = app.planner.plan("ddl").stages
    return [sql for step in stage.steps for sql in step.sql if step.step.kind != "try-ddl"]


def test_each_index_serves_what_the_record_says_and_the_ddl_is_what_the_plan_shows(
    primary: Server, schema: str
) -> None:
    with prepared(primary, "aijob", schema, ROWS) as at:
        record: Material = material(at.runbook)
        assert [sql for planned in record.ddl for sql in planned.sql] == planned_sql(at, primary)
        lived_in(at)
        row = a_row(at)
        found = {
            (index, query.version, query.number): chosen(at, query, row)
            for index, queries in record.served.items()
            for query in queries
        }
    assert {at: key for at, key in found.items() if key != at[0]} == {}
    served = {index for index, _, _ in found}
    added = {i.name for i in at.runbook.contract.indexes}
    assert added - served == {"AiAnalysisJob_snapshotId_idx"}, "the one that serves the foreign key alone"
    assert PRIMARY in served
