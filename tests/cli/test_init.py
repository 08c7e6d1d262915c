"""The verb init: what was seen stands in the runbook, what was not is marked, and lint stops on every mark."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from orchestrator.contract.ddl import read_tables
from orchestrator.contract.drift import compare
from orchestrator.contract.prisma.write import write_schema
from orchestrator.contract.target import Source
from orchestrator.model.contract import Contract
from orchestrator.runbook.load import load
from orchestrator.sandbox.server import Server
from tests.support.command import ROLLOUT, Terminal
from tests.support.servers import script

RUNBOOKS = Path(__file__).resolve().parents[2] / "runbooks"
BEFORE = RUNBOOKS / "sandbox" / "documents.sql"
EXPAND = Path(__file__).with_name("documents_expand.sql")


def rollout(*arguments: str | Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [ROLLOUT, *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert ended.returncode == expect, f"{arguments}\n{ended.stdout}\n{ended.stderr}"
    return ended


def answered(file: Path) -> Contract:
    """The contract once every mark has its answer."""
    file.write_text(re.sub(r"\?\? ", "", file.read_text()))
    return load(file).contract


def after(tmp_path: Path) -> Path:
    file = tmp_path / "after.sql"
    file.write_text(BEFORE.read_text() + EXPAND.read_text())
    return file


def test_two_files_of_ddl_become_a_contract_that_names_both(tmp_path: Path) -> None:
    file = tmp_path / "rollout.yaml"
    rollout("-f", file, "init", "docs.document", "--from-ddl", BEFORE, "--to-ddl", after(tmp_path))
    assert file.read_text().startswith("# yaml-language-server: $schema=schema.json\n")
    marks = [n for n, line in enumerate(file.read_text().splitlines(), 1) if "?? " in line]
    told = json.loads(rollout("-f", file, "lint", "--json", expect=65).stdout)["problems"]
    assert [p["line"] for p in told if p["rule"] == "mark-left"] == [n for n in marks if n != 2]
    contract = answered(file)
    shipped = load(RUNBOOKS / "documents.yaml").contract
    assert contract.before == shipped.before
    assert [c.name for c in contract.columns] == [c.name for c in shipped.columns]
    assert {i.name for i in contract.indexes} == {i.name for i in shipped.indexes}
    (target,) = [
        t for t in read_tables([Source("a", after(tmp_path).read_text())], "docs") if t.shape.table == contract.table
    ]
    assert compare(contract, target) == ()


def test_two_prisma_schemas_become_a_contract(tmp_path: Path) -> None:
    shipped = load(RUNBOOKS / "documents.yaml").contract
    head, base, file = tmp_path / "head.prisma", tmp_path / "base.prisma", tmp_path / "rollout.yaml"
    head.write_text(write_schema(shipped))
    added = {c.name for c in shipped.columns}
    kept = [
        line
        for line in head.read_text().splitlines()
        if not (line.split() and line.split()[0] in added) and not any(i.name in line for i in shipped.indexes)
    ]
    base.write_text("\n".join(kept))
    rollout("-f", file, "init", "docs.document", "--from-prisma", base, "--to-prisma", head)
    contract = answered(file)
    assert [c.name for c in contract.columns] == [c.name for c in shipped.columns]
    assert {i.name for i in contract.indexes} == {i.name for i in shipped.indexes}
    rollout("-f", file, "drift", "--prisma", head)


def test_a_live_table_gives_values_and_statements_as_evidence(primary: Server, schema: str, tmp_path: Path) -> None:
    script(
        primary,
        "CREATE TABLE job (id INT PRIMARY KEY, status VARCHAR(9) NOT NULL, secret VARCHAR(200));"
        "INSERT INTO job VALUES (1, 'new', 'a'), (2, 'new', 'b'), (3, 'it''s', 'c');"
        "SELECT id FROM job WHERE status = 'new'",
        schema,
    )
    (tmp_path / "after.sql").write_text(
        "CREATE TABLE job (id INT PRIMARY KEY, status VARCHAR(9) NOT NULL, secret VARCHAR(200), job_status VARCHAR(20))"
        " CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci"
    )
    terminal = Terminal(primary, tmp_path / "rollout.yaml")
    terminal.run("init", f"{schema}.job", "--to-ddl", str(tmp_path / "after.sql"))
    text = terminal.runbook.read_text()
    assert "evidence: 'new' in 2 rows, \"it's\" in 1 rows" in text
    assert 'forward: {values: {"new": "new", "it\'s": "it\'s"}}' in text
    assert "SELECT `id` FROM `job` WHERE STATUS = ?" in text
    assert "secret" not in text.split("mappings:")[1].split("applications:")[0]
    assert [c.name for c in answered(terminal.runbook).columns] == ["job_status"]
    terminal.run("drift", expect=1)
    assert "is there already" in terminal.run("init", f"{schema}.job", expect=2).err


def test_what_cannot_be_meant_is_told(tmp_path: Path) -> None:
    file = tmp_path / "rollout.yaml"
    assert "SCHEMA.TABLE" in rollout("-f", file, "init", "document", "--from-ddl", BEFORE, expect=2).stderr
    assert "no table Document" in rollout("-f", file, "init", "docs.Document", "--from-ddl", BEFORE, expect=65).stderr
    assert (
        "one kind of both"
        in rollout(
            "-f", file, "init", "docs.document", "--from-ddl", BEFORE, "--to-prisma", "x.prisma", expect=2
        ).stderr
    )
    assert not file.exists()
    printed = rollout("init", "docs.document", "--from-ddl", BEFORE, "-o", "-").stdout
    assert "?? a new column" in printed
