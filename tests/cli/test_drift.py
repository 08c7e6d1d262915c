"""The verb drift: exit 0 for the same, 1 for a difference, 65 for what cannot be read; without a server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from orchestrator.contract.prisma.write import write_schema
from orchestrator.runbook.load import load
from tests.support.command import ROLLOUT

RUNBOOKS = Path(__file__).resolve().parents[2] / "runbooks"
SANDBOX = RUNBOOKS / "sandbox"


def rollout(*arguments: str | Path, expect: int) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        [ROLLOUT, *map(str, arguments)], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert ended.returncode == expect, f"{arguments}\n{ended.stdout}\n{ended.stderr}"
    assert "Traceback" not in ended.stderr
    return ended


@pytest.fixture
def after(tmp_path: Path) -> Path:
    """The documents before and after, as one file of DDL."""
    text = (SANDBOX / "documents.sql").read_text()
    file = tmp_path / "after.sql"
    file.write_text(text + EXPAND)
    return file


EXPAND = (Path(__file__).with_name("documents_expand.sql")).read_text()
DOCUMENTS = ("-f", RUNBOOKS / "documents.yaml", "drift")


def test_the_same_is_0_and_a_difference_is_1_with_its_line(after: Path) -> None:
    assert "is what the contract says" in rollout(*DOCUMENTS, "--ddl", after, expect=0).stdout
    changed = after.with_name("changed.sql")
    changed.write_text(after.read_text() + "\nALTER TABLE document ADD COLUMN later INT;\n")
    told = rollout(*DOCUMENTS, "--ddl", changed, expect=1).stdout
    line = len(changed.read_text().splitlines())
    assert told == (
        f"{changed}:{line}: contract-lacks: column later: int: the target has it, the contract does not name it\n"
    )


def test_a_change_is_shown_beside_its_line_on_the_forge(after: Path) -> None:
    head = after.with_name("head.sql")
    head.write_text(after.read_text() + "\nALTER TABLE document ADD INDEX later (title);\n")
    told = rollout(*DOCUMENTS, "--base", after, "--head", head, "--format", "github", expect=1).stdout
    assert told.startswith(f"::error file={head},line=")
    assert ",title=drift contract-lacks::index later: (title)" in told
    rollout(*DOCUMENTS, "--base", after, "--head", after, expect=0)


def test_a_prisma_schema_is_compared_too(tmp_path: Path) -> None:
    schema = tmp_path / "schema.prisma"
    schema.write_text(write_schema(load(RUNBOOKS / "documents.yaml").contract, "Document"))
    assert "is what the contract says" in rollout(*DOCUMENTS, "--prisma", schema, expect=0).stdout
    head = tmp_path / "head.prisma"
    head.write_text(schema.read_text().replace("  locale String?", "  later Int?\n  locale String?"))
    told = rollout(*DOCUMENTS, "--base", schema, "--head", head, expect=1).stdout
    assert f"{head}:" in told
    assert "contract-lacks: column later: int" in told
    schema.write_text("model A {\n id Strin @id\n}")
    assert f"{schema}:2:" in rollout(*DOCUMENTS, "--prisma", schema, expect=65).stderr


def test_json_is_one_object(after: Path) -> None:
    words = json.loads(rollout(*DOCUMENTS, "--ddl", SANDBOX / "documents.sql", "--json", expect=1).stdout)
    assert words["same"] is False
    assert {d["kind"] for d in words["differences"]} == {"target-lacks"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--ddl", "nothing.sql"), 65, "there is no such file"),
        (("--base", "x.sql"), 2, "more than one thing"),
        (("--ddl", "x.sql", "--prisma", "y.prisma"), 2, "more than one thing"),
    ],
)
def test_what_cannot_be_meant_is_told(arguments: tuple[str, ...], code: int, words: str) -> None:
    assert words in rollout(*DOCUMENTS, *arguments, expect=code).stderr


def test_a_file_without_the_table_offers_the_one_in_another_case(tmp_path: Path) -> None:
    file = tmp_path / "t.sql"
    file.write_text("CREATE TABLE Document (id INT PRIMARY KEY)")
    assert "did you mean Document?" in rollout(*DOCUMENTS, "--ddl", file, expect=65).stderr
