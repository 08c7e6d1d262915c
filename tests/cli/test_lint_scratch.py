"""What only shows when it is tried: the server's limits, and cascades on rows, on a scratch copy of the family."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.sandbox.server import Server
from tests.support.command import Terminal
from tests.support.servers import script, sql

HEAD = "apiVersion: rollout/v1\nname: tried\ntable: {schema: SCHEMA, name: TABLE}\ncontract:\n"
CASES = {
    "B64": (
        "CREATE TABLE owner (id VARCHAR(191) COLLATE utf8mb4_unicode_ci NOT NULL PRIMARY KEY);"
        "CREATE TABLE task (id INT NOT NULL PRIMARY KEY, title VARCHAR(20))",
        "task",
        "  columns:\n    - {name: ownerId, type: varchar(191)}\n"
        "  indexes:\n    - {name: task_owner_idx, columns: [ownerId]}\n"
        "  foreign_keys:\n    - {name: fk_owner, columns: [ownerId], references: owner(id)}\n",
        ["3780"],
    ),
    "B69": (
        "CREATE TABLE prof (id INT NOT NULL PRIMARY KEY, nick VARCHAR(1000), a VARCHAR(7500), b VARCHAR(7500))",
        "prof",
        "  columns:\n    - {name: bio_n, type: varchar(500)}\n  indexes:\n    - {name: ix_bio, columns: [nick]}\n",
        ["1118", "1071"],
    ),
    "a chain of four": (
        "CREATE TABLE person (id INT PRIMARY KEY);"
        "CREATE TABLE job (id INT PRIMARY KEY, person_id INT NOT NULL, KEY (person_id),"
        " FOREIGN KEY (person_id) REFERENCES person (id) ON DELETE CASCADE)",
        "job",
        "  columns:\n    - {name: up, type: int}\n  indexes:\n    - {name: job_up_idx, columns: [up]}\n"
        "  foreign_keys:\n    - {name: job_up_fk, columns: [up], references: job(id), on_delete: restrict}\n",
        ["1451"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_server_would_refuse_is_a_finding_and_nothing_stays(
    primary: Server, schema: str, tmp_path: Path, case: str
) -> None:
    tables, table, contract, numbers = CASES[case]
    script(primary, tables, schema)
    file = tmp_path / "rollout.yaml"
    file.write_text((HEAD + contract).replace("SCHEMA", schema).replace("TABLE", table))
    before = sql(primary, f"SHOW CREATE TABLE {schema}.{table}")
    words = Terminal(primary, file).run("lint", "--live", "--scratch", "--json", expect=65).json["problems"]
    seen = " · ".join(w["seen"] for w in words if w["severity"] == "error")
    assert [n for n in numbers if n not in seen] == [], words
    assert sql(primary, f"SHOW CREATE TABLE {schema}.{table}") == before
    assert [row for row in sql(primary, "SHOW DATABASES") if "scratch" in row[0] or "tried" in row[0]] == []
