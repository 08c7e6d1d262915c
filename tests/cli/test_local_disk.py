"""This machine's disk is full: said as that, nothing half written, and what was done is done."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from orchestrator.journal import last_line
from orchestrator.sandbox.pair import Pair
from tests.support.command import ROLLOUT
from tests.support.small import Small, small

_FILE_BYTES = 4096


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


def limited() -> None:
    """In the child: every file that would grow beyond the limit meets a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))


def test_2_for_a_full_disk_where_the_plan_or_the_answer_goes_and_nothing_half_written_stays(here: Small) -> None:
    # A compiled module that was cut short would be found by every command after it.
    environment = here.terminal.environment | {"PYTHONDONTWRITEBYTECODE": "1"}
    run = partial(subprocess.run, env=environment, stdin=subprocess.DEVNULL, text=True, timeout=60, check=False)
    plan = here.terminal.runbook.with_name("plan.json")
    ended = run([ROLLOUT, "plan", "-o", str(plan)], capture_output=True, preexec_fn=limited)
    assert ended.returncode == 2, ended.stderr
    assert f"{plan} cannot be written: File too large" in ended.stderr
    assert [f.name for f in plan.parent.iterdir()] == ["rollout.yaml"]
    with Path("/dev/full").open("w") as full:
        ended = run([ROLLOUT, "next", "-y"], stdout=full, stderr=subprocess.PIPE)
    assert ended.returncode == 2, ended.stderr
    assert "standard output cannot be written: No space left on device" in ended.stderr
    assert "Traceback" not in ended.stderr
    status = here.terminal.run("status", "--json").json
    assert (status["done"], status["state"]) == (["ddl"], "done"), "what was done is done"


def test_a_journal_that_has_no_room_says_so_and_one_that_has_holds_the_whole_line(tmp_path: Path) -> None:
    body = "x" * 100_000
    path = tmp_path / "new" / "journal.log"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, before[1]))
    try:
        assert last_line(body, path) == f"not written ({path}: File too large)"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert last_line(body, path) == str(path)
    assert path.read_text().endswith(f"{body}\n")
