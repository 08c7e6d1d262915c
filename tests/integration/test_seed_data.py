"""Seeded data: the same for the same seed, within what the mappings carry, and at the edges of it."""

from __future__ import annotations

import pytest

from orchestrator.mysql import quote
from orchestrator.mysql.relation import load_relation
from orchestrator.sandbox.server import Server
from tests.support.servers import script, sql
from tests.support.traffic import RUNBOOKS, Prepared, expand, prepared

ROWS = 600


def _rows(at: Prepared) -> list[tuple[object, ...]]:
    names = quote.names([c.name for c in at.shape.columns])
    return at.session.query(f"SELECT {names} FROM {at.table} ORDER BY {quote.names(list(at.shape.key))}")


@pytest.mark.parametrize("name", RUNBOOKS)
def test_the_same_seed_gives_the_same_rows_and_another_seed_others(primary: Server, schema: str, name: str) -> None:
    found = []
    for seed in (1, 1, 2):
        script(primary, f"DROP DATABASE {schema}; CREATE DATABASE {schema}")
        with prepared(primary, name, schema, ROWS, seed) as at:
            found.append(_rows(at))
    assert len(found[0]) == ROWS
    assert found[0] == found[1]
    assert found[0] != found[2]


@pytest.mark.parametrize("name", RUNBOOKS)
def test_every_seeded_value_is_one_that_the_mapping_can_carry(primary: Server, schema: str, name: str) -> None:
    with prepared(primary, name, schema, ROWS) as at:
        expand(at)
        relation = load_relation(at.session, at.runbook.contract, at.shape_now())
        assert at.session.value(f"SELECT COUNT(*) FROM {at.table} WHERE {relation.unwritable(quote.name)}") == 0


def test_the_job_table_has_all_kinds_of_values_and_relatives(primary: Server, schema: str) -> None:
    with prepared(primary, "aijob", schema, 3000):
        jobs = f"{schema}.AiAnalysisJob"
        statuses = {row[0] for row in sql(primary, f"SELECT DISTINCT status FROM {jobs}")}
        ((owners, longest, multibyte, nulls, highest, lowest, versions),) = sql(
            primary,
            "SELECT COUNT(DISTINCT userId), MAX(LENGTH(errorMessage)),"
            " SUM(LENGTH(errorMessage) > CHAR_LENGTH(errorMessage)), SUM(sessionId IS NULL AND answerId IS NULL),"
            " MAX(timeoutSeconds), MIN(retryCount), COUNT(DISTINCT updatedAt)"
            f" FROM {jobs}",
        )
        relatives = {
            table: sql(primary, f"SELECT COUNT(*) FROM {schema}.{table}")[0][0]
            for table in ("User", "Snapshot", "Artifact", "UsageLog")
        }
    assert statuses == {"pending", "processing", "completed", "failed"}
    assert owners > 50
    assert longest > 60_000
    assert multibyte > 100
    assert nulls > 0
    assert (highest, lowest) == (2147483647, -2147483648)
    assert versions > 2500
    assert relatives == {"User": 150, "Snapshot": 300, "Artifact": 1000, "UsageLog": 1500}
