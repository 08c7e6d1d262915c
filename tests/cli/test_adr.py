"""The verb adr: written, printed, and compared with what is committed; without a server."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.test_drift import rollout

RUNBOOKS = Path(__file__).resolve().parents[2] / "runbooks"
ADR = ("-f", RUNBOOKS / "orders.yaml", "adr")


def test_a_record_is_current_until_one_word_of_it_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "orders.md"
    assert rollout(*ADR, file, expect=0).stdout == f"{file}: written\n"
    rollout(*ADR, file, "--check", expect=0)
    file.write_text(file.read_text().replace("ON DELETE", "ON REMOVE"))
    told = rollout(*ADR, file, "--check", expect=1).stdout
    assert told.startswith(f"{file}: differs from what the contract and its proof say\n")
    assert "  +| # | Relation | Foreign key | ON DELETE |" in told
    assert "ON REMOVE" in file.read_text(), "a check changes nothing"


def test_what_is_not_translated_is_told_and_shown_as_it_is_written() -> None:
    ended = rollout(*ADR, "--lang", "zh", "--json", expect=0)
    assert "not translated, and shown as written" in ended.stderr
    words = json.loads(ended.stdout)
    assert words["language"] == "zh"
    assert "A state that the warehouse can read, and timeouts finer than a second。" in words["text"]


def test_a_check_needs_a_file_and_a_missing_one_differs(tmp_path: Path) -> None:
    assert rollout(*ADR, "--check", expect=2).stdout == ""
    assert "differs" in rollout(*ADR, tmp_path / "none.md", "--check", expect=1).stdout
