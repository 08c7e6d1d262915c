"""The verb lint, for people, machines and forges; and with a server behind it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from orchestrator.runbook.examples import EXAMPLES
from orchestrator.sandbox.server import Server
from tests.support.command import ROLLOUT, Terminal
from tests.support.servers import script


def lint(file: Path, *arguments: str, expect: int) -> str:
    ended = subprocess.run(
        [ROLLOUT, "-f", str(file), "lint", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert ended.returncode == expect, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    file = tmp_path / "rollout.yaml"
    file.write_text(EXAMPLES["index-part"].text)
    return file


def test_a_finding_has_file_line_rule_why_and_cure_in_every_format(broken: Path) -> None:
    line = next(n for n, t in enumerate(broken.read_text().splitlines(), 1) if "columns: [note]" in t)
    text = lint(broken, expect=65)
    assert text.startswith(f"index-part: {broken}:{line}: job_state_idx: note is text and has no prefix\n wanted ")
    (words,) = json.loads(lint(broken, "--format", "json", expect=65))["problems"]
    assert (words["rule"], words["severity"], words["line"]) == ("index-part", "error", line)
    assert words["why"]
    assert words["next"]
    forge = lint(broken, "--format", "github", expect=65)
    assert forge.startswith(f"::error file={broken},line={line},title=index-part::job_state_idx: note is text")


def test_what_cannot_be_read_is_shown_beside_its_line_too(tmp_path: Path) -> None:
    file = tmp_path / "rollout.yaml"
    file.write_text("apiVersion: rollout/v1\nname: 100%\ntable: {schema: a}\n")
    out = lint(file, "--format", "github", expect=65)
    assert f"::error file={file},line=3,title=cannot be read::" in out
    assert "%25" in out
    assert lint(file, "--format", "xml", expect=2) == ""


def test_a_warning_is_told_and_ends_with_0(tmp_path: Path) -> None:
    file = tmp_path / "rollout.yaml"
    file.write_text(EXAMPLES["before-unsaid"].text)
    assert lint(file, expect=0).startswith("before-unsaid (warning): ")
    assert lint(file, "--format", "github", expect=0).startswith("::warning file=")


def test_with_a_server_the_values_and_what_names_the_table_are_seen(
    primary: Server, schema: str, tmp_path: Path
) -> None:
    """B50: plan lists views, routines and events that name the table; and a value that no mapping knows."""
    script(
        primary,
        "CREATE TABLE job (id BIGINT PRIMARY KEY, status VARCHAR(9), count INT);"
        "CREATE TABLE box (id BIGINT PRIMARY KEY);"
        "INSERT INTO job VALUES (1, 'odd', 1); CREATE VIEW recent AS SELECT * FROM job;"
        "CREATE PROCEDURE tidy() DELETE FROM job WHERE id < 0; CREATE PROCEDURE other() SELECT 1 FROM jobs",
        schema,
    )
    file = tmp_path / "rollout.yaml"
    file.write_text(
        EXAMPLES["gate-drift"].text.replace("gates: []", "gates: [drift]").replace("schema: app", f"schema: {schema}")
    )
    terminal = Terminal(primary, file)
    told = terminal.run("lint", "--live", "--json", expect=65).json
    by_rule = {w["rule"]: w for w in told["problems"]}
    assert "'odd'" in by_rule["unmapped-value"]["seen"]
    assert by_rule["unmapped-value"]["line"] == 3
    named = [w["seen"].split(": ", 1)[1] for w in told["warnings"]]
    assert named == [f"procedure {schema}.tidy names job", f"view {schema}.recent names job"]
    assert terminal.run("lint").out == "nothing found\n"
    shown = terminal.run("plan", expect=None).out
    assert f"the table is named by: procedure {schema}.tidy, view {schema}.recent" in shown
