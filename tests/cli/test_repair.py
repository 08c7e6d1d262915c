"""``rollout verify --repair``: shown, confirmed, mended by the sweep's batches, recorded, and compared again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.sandbox.pair import Pair
from tests.support.log import general_log, said
from tests.support.small import Small, small

COLUMNS = (
    "id INT PRIMARY KEY, status VARCHAR(20) NOT NULL, note VARCHAR(50),"
    " changed_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)"
)
ROWS = "(1, 'new', NULL, '2001-01-01'), (2, 'done', 'größe', '2001-01-01'), (3, 'done', '', '2001-01-01')"
WRONG = "UPDATE {} SET state = 'nobody knows it', changed_at = '2001-01-01' WHERE id IN (1, 3)"


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path, COLUMNS, ROWS) as made:
        made.terminal.run("run", "--until", "shadow-write", "-y")
        yield made


def test_what_does_not_hold_is_shown_confirmed_mended_and_compared_again(here: Small) -> None:
    here.sql(WRONG.format(here.table))
    found = here.terminal.run("verify", "--json", expect=81).json
    assert found["samples"] == {"status ↔ state: stale": ["1", "3"]}

    before, events = here.seen(), here.sql("SELECT COUNT(*) FROM _rollout.event")
    shown = here.terminal.run("verify", "--repair", "--dry-run").out
    assert "UPDATE" in shown
    assert "SKIP LOCKED" in shown
    refused = here.terminal.run("verify", "--repair", expect=2)
    assert "no terminal to confirm on" in refused.err
    assert here.seen() == before
    assert here.sql("SELECT COUNT(*) FROM _rollout.event") == events

    with general_log(here.pair.primary):
        ended = here.terminal.run("verify", "--repair", "-y", "--json").json
        ran = said(here.pair.primary)
    assert (ended["state"], ended["phase"]) == ("done", "repair")
    assert any("SKIP LOCKED" in s for s in ran)
    states = here.sql(f"SELECT state, changed_at = '2001-01-01' FROM {here.table} ORDER BY id")
    assert states == [("pending", 1), ("succeeded", 1), ("succeeded", 1)]
    assert here.terminal.run("verify", "--json").json["mismatches"] == 0
    lines = [json.loads(line) for line in here.terminal.run("history", "--json").out.splitlines()]
    mended = [e for e in lines if e["phase"] == "repair"]
    assert [e["event"] for e in mended] == ["started", "intended", "step-done", "intended", "step-done", "phase-done"]
    assert mended[2]["figures"]["rows_changed"] == 2
    status = here.terminal.run("status", "--json").json
    assert status["next_command"] == "rollout next --phase read-switch"
    here.terminal.run("next", "--phase", "read-switch", "-y")


def test_75_before_the_mirror_stands_and_2_for_words_that_do_not_go_together(here: Small) -> None:
    here.terminal.run("rollback", "--to", "backfill", "-y")
    told = here.terminal.run("verify", "--repair", "-y", "--json", expect=75).json
    assert told["next"].startswith("rollout next --phase shadow-write")
    for words in (("--on", "x", "--repair"), ("-y",), ("--dry-run",), ("--on-conflict", "new_wins")):
        here.terminal.run("verify", *words, expect=2)
