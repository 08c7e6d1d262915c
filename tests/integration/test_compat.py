"""Every statement of every version meets every shape on scratch copies, and what comes out is the read/write matrix."""

from __future__ import annotations

from collections.abc import Mapping as Values
from typing import Any

import pytest

from orchestrator.model.contract import Contract, Copy, Index, IndexPart, Mapping, Rename, RenameWay, TableName
from orchestrator.model.matrix import Access, HazardKind, Matrix, ShapeName
from orchestrator.mysql.compat import declared_statements, prove
from orchestrator.sandbox.server import Server
from tests.support.ddl import column, site_on
from tests.support.servers import script, sql

BEFORE, EXPANDED, MIRRORED, ROLLED_BACK, DROPPED = ShapeName
TABLES = """
CREATE TABLE owner (id INT PRIMARY KEY, name VARCHAR(20), priority INT);
CREATE TABLE job (id INT PRIMARY KEY, owner_id INT NOT NULL, status VARCHAR(20) NOT NULL DEFAULT 'new', note VARCHAR(9),
  tries INT NOT NULL DEFAULT 0, ended DATETIME, KEY (owner_id), FOREIGN KEY (owner_id) REFERENCES owner (id));
CREATE TABLE label (job_id INT PRIMARY KEY, status VARCHAR(9), tries INT);
INSERT INTO owner VALUES (1, 'a', 1); INSERT INTO job (id, owner_id, note) VALUES (1, 1, 'x');
"""
MAPPINGS = (Mapping("state", "status", Copy(), Copy()),)


def proven(server: Server, schema: str, old: tuple[str, ...] = (), new: tuple[str, ...] = (), **of: Any) -> Matrix:
    """The matrix; production is as it was, and no copy is left."""
    if not sql(server, f"SHOW TABLES IN {schema} LIKE 'job'"):
        script(server, TABLES, schema)
    kept: Values[str, Any] = {"columns": (column("state", "varchar(20)"),), "mappings": MAPPINGS} | of
    contract = Contract(TableName(schema, "job"), old_statements=old, new_statements=new, **kept)
    before = production(server, schema)
    matrix = prove(site_on(server, contract, id=f"c-{schema[-6:]}"), declared_statements(contract))
    assert production(server, schema) == before
    assert sql(server, f"SHOW DATABASES LIKE '%scratch\\_c-{schema[-6:]}'") == []
    return matrix


def production(server: Server, schema: str) -> list[Any]:
    tables = [row[0] for row in sql(server, f"SHOW TABLES IN {schema}")]
    return [
        (sql(server, f"SHOW CREATE TABLE {schema}.{t}"), sql(server, f"SELECT * FROM {schema}.{t}")) for t in tables
    ]


def numbers(matrix: Matrix) -> set[tuple[str, int]]:
    """(shape, error) of every failure that refuses."""
    return {(f.shape.name, f.number) for f in matrix.refusals}


def test_each_column_is_read_or_written_as_the_server_understands_the_statement(primary: Server, schema: str) -> None:
    old = (
        "UPDATE job SET status = ?, tries = tries + 1 WHERE id = ?",
        "SELECT j.note FROM job AS j JOIN label l ON l.job_id = j.id WHERE l.status = ? ORDER BY l.tries",
        "INSERT INTO job (id, owner_id) VALUES (?, ?) ON DUPLICATE KEY UPDATE note = VALUES(note)",
        "DELETE FROM job WHERE `ended` < NOW() - INTERVAL ? DAY LIMIT 10",
    )
    matrix = proven(primary, schema, old, ("UPDATE job SET state = ? WHERE id = ?",))
    assert matrix.refusals == ()
    assert matrix.unproven == ()
    by_text = {s.text: (s.reads, s.writes) for s in matrix.statements}
    assert by_text[old[0]] == (("id", "tries"), ("status", "tries"))
    # status and tries are another table's there.
    assert by_text[old[1]] == (("id", "note"), ())
    assert by_text[old[2]] == ((), ("id", "owner_id", "note"))
    assert by_text[old[3]] == (("ended",), ())
    assert matrix.access("old", MIRRORED, "tries") is Access.BOTH
    assert matrix.access("old", DROPPED, "ended") is Access.READS
    assert matrix.access("new", EXPANDED, "state") is Access.WRITES
    assert matrix.access("new", BEFORE, "state") is Access.NONE
    assert {f.shape for f in matrix.failures} == {BEFORE, DROPPED}


def test_a_new_column_without_default_fails_the_insert_that_does_not_name_it(primary: Server, schema: str) -> None:
    """B47, as a proof: 1364 shows only when the statement runs."""
    insert = "INSERT INTO job (id, owner_id) VALUES (?, ?)"
    matrix = proven(primary, schema, (insert,), columns=(column("must", "int", null=False),), mappings=())
    assert numbers(matrix) == {(shape.name, 1364) for shape in (EXPANDED, MIRRORED, ROLLED_BACK)}
    assert matrix.refusals[0].statement == insert
    assert matrix.access("old", EXPANDED, "owner_id") is Access.FAILS
    assert matrix.access("old", BEFORE, "owner_id") is Access.WRITES


def test_a_name_that_becomes_ambiguous_fails_where_the_new_column_is(primary: Server, schema: str) -> None:
    """1052: PREPARE shows it."""
    join = "SELECT j.id, priority FROM job j JOIN owner o ON o.id = j.owner_id"
    matrix = proven(primary, schema, (join,), columns=(column("priority", "int"),), mappings=())
    assert numbers(matrix) == {(shape.name, 1052) for shape in (EXPANDED, MIRRORED, ROLLED_BACK)}


def test_a_natural_join_that_would_join_by_a_new_column_fails_without_an_error(primary: Server, schema: str) -> None:
    matrix = proven(
        primary, schema, ("SELECT job.id FROM job NATURAL JOIN owner",), columns=(column("name", "int"),), mappings=()
    )
    assert numbers(matrix) == {(shape.name, 0) for shape in (EXPANDED, MIRRORED, ROLLED_BACK)}
    assert "name, which owner has" in matrix.refusals[0].text
    assert [h.kind for h in matrix.hazards] == [HazardKind.NATURAL_JOIN]


def test_what_names_no_columns_is_a_hazard_and_fails_by_its_number(primary: Server, schema: str) -> None:
    bare, star = "INSERT INTO job VALUES (?, ?, ?, ?, ?, NULL)", "SELECT * FROM job WHERE id = ?"
    counts = "SELECT COUNT(*) FROM job WHERE EXISTS (SELECT * FROM label WHERE label.job_id = job.id)"
    matrix = proven(primary, schema, (bare, star, counts))
    assert numbers(matrix) == {(shape.name, 1136) for shape in (EXPANDED, MIRRORED, ROLLED_BACK)}
    hazards = {h.statement: (h.kind, h.told) for h in matrix.hazards}
    assert hazards.keys() == {bare, star}
    assert hazards[star] == (HazardKind.SELECT_STAR, "it gives 1 more columns after ddl")
    assert matrix.access("old", BEFORE, "note") is Access.BOTH


def test_what_a_trigger_of_theirs_makes_of_a_statement_is_found(primary: Server, schema: str) -> None:
    """1406 in a trigger that fills a new column that is too short; PREPARE does not see it."""
    script(primary, TABLES, schema)
    script(primary, "CREATE TRIGGER theirs BEFORE UPDATE ON job FOR EACH ROW SET NEW.note = CONCAT(NEW.ended)", schema)
    matrix = proven(
        primary,
        schema,
        ("UPDATE job SET status = ? WHERE id = ?",),
        columns=(),
        mappings=(),
        renames=(Rename("ended", "finished", RenameWay.RENAME),),
    )
    assert {(f.shape, f.number) for f in matrix.refusals} == {(s, 1054) for s in (EXPANDED, MIRRORED, ROLLED_BACK)}


def test_a_rename_in_place_fails_what_still_says_the_old_name_and_is_taken_back(primary: Server, schema: str) -> None:
    said = "SELECT ended FROM job WHERE id = ?"
    matrix = proven(
        primary,
        schema,
        (said, "SELECT id FROM job"),
        ("SELECT finished FROM job",),
        renames=(Rename("ended", "finished", RenameWay.RENAME),),
        indexes=(Index("job_finished_idx", (IndexPart("finished"),)),),
    )
    assert {(f.statement, f.shape) for f in matrix.refusals} == {(said, s) for s in (EXPANDED, MIRRORED, ROLLED_BACK)}
    assert {f.number for f in matrix.refusals} == {1054}
    assert matrix.access("old", DROPPED, "ended") is Access.READS
    assert matrix.access("new", EXPANDED, "finished") is Access.READS
    assert matrix.columns[-1] == "ended"


def test_what_our_sample_values_break_is_unproven_and_refuses_nothing(primary: Server, schema: str) -> None:
    odd = (
        "INSERT INTO job (id, owner_id) VALUES (1, 99)",
        "SELECT nothing_of_ours(id) FROM job",
        "SELECT SLEEP(9) FROM job",
        "LOCK TABLES job WRITE",
        "SELECT id FROM gone",
    )
    matrix = proven(primary, schema, odd)
    assert matrix.refusals == ()
    assert len(matrix.unproven) == len(odd)


@pytest.mark.parametrize("version", ["old", "new"])
def test_a_statement_that_names_the_schema_runs_on_the_copy(primary: Server, schema: str, version: str) -> None:
    said = f"DELETE FROM {schema}.job WHERE {schema}.job.status = ?"
    matrix = proven(primary, schema, **{version: (said,)})
    assert (matrix.failures, matrix.unproven) == ((), ())
    assert matrix.statements[0].reads == ("status",)


def test_a_rollout_under_way_is_proven_from_the_start_as_well(primary: Server, schema: str) -> None:
    """The copy of a table that has the new columns is first taken back to what it was."""
    script(primary, TABLES, schema)
    script(primary, "ALTER TABLE job ADD COLUMN state VARCHAR(20) NULL", schema)
    matrix = proven(primary, schema, ("SELECT state FROM job",), ("SELECT state FROM job",))
    assert {f.shape for f in matrix.refusals} == {BEFORE, DROPPED}
