"""``next`` does what it was asked for or nothing: order, confirmation, a plan that is bound, and what is left to do."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.sandbox.pair import Pair
from tests.support.command import ROLLOUT, Terminal
from tests.support.looking import small_account
from tests.support.servers import script
from tests.support.small import Small, small


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


Answer = Callable[[subprocess.Popen[bytes], int], object]


def line(text: str) -> Answer:
    return lambda _, terminal: os.write(terminal, text.encode() + b"\n")


def typed(terminal: Terminal, answer: Answer, *arguments: str) -> tuple[int, str]:
    """The exit code and all that a terminal showed, when a person answers the question like that."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [ROLLOUT, *arguments],
        env=terminal.environment,
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
    os.close(follower)
    shown, answered = b"", False
    try:
        while True:
            ready, _, _ = select.select([leader], [], [], 60)
            assert ready, shown
            try:
                piece = os.read(leader, 65536)
            except OSError:
                piece = b""
            if not piece:
                break
            shown += piece
            if not answered and (b"[y/N]" in shown or b"to accept that:" in shown):
                answered = True
                answer(process, leader)
        return process.wait(60), shown.decode()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(leader)


def test_2_for_a_stage_that_is_not_the_next_with_the_command_to_type(here: Small) -> None:
    with here.unchanged():
        told = here.terminal.run("next", "--phase", "backfill", "-y", "--json", expect=2).json
        assert told["error"] == "usage"
        assert told["seen"].startswith("backfill is not the next stage")
        assert told["next"] == "rollout next --phase ddl"
        assert "there is no stage 'ddk'" in here.terminal.run("next", "--phase", "ddk", "-y", expect=2).err
        assert "one of ddl, backfill" in here.terminal.run("plan", "--phase", "ddk", expect=2).err


def test_2_without_a_terminal_and_without_y_and_nothing_is_begun(here: Small) -> None:
    with here.unchanged():
        ran = here.terminal.run("next", expect=2)
        assert "there is no terminal to confirm on" in ran.err
        assert "add -y" in ran.err
        assert "ADD COLUMN" not in ran.out
        here.terminal.run("run", expect=2)
        code, shown = typed(here.terminal, line(""), "next")
        assert code == 2, shown
        assert "nothing was changed" in shown
        assert "5 stages" not in shown


def test_0_for_a_person_who_says_yes(here: Small) -> None:
    code, shown = typed(here.terminal, line("y"), "next")
    assert code == 0, shown
    assert "1 columns INSTANT" in shown, "the plan is shown before the question"
    assert (
        shown.index("1 columns INSTANT")
        < shown.index("Do ddl now?")
        < shown.index("Next: rollout next --phase backfill")
    )


def test_ctrl_c_at_the_question_ends_the_command(here: Small) -> None:
    with here.unchanged():
        code, shown = typed(here.terminal, lambda process, _: process.send_signal(signal.SIGINT), "next")
    assert code == 130, shown


def test_yes_is_said_to_the_stage_that_was_shown_and_to_no_other(here: Small) -> None:
    """Somebody else did it while the question stood there."""

    def meanwhile(_: object, terminal: int) -> None:
        here.terminal.run("run", "--until", "ddl", "-y")
        os.write(terminal, b"y\n")

    code, shown = typed(here.terminal, meanwhile, "next")
    assert code == 0, shown
    assert "ddl is already done" in shown
    assert here.terminal.run("status", "--json").json["done"] == ["ddl"]


def test_what_cannot_be_done_is_not_shown_as_a_plan(here: Small) -> None:
    """A dry run says what the command itself would say."""
    for more in (("--dry-run",), ("-y",)):
        assert "nothing was begun" in here.terminal.run("rollback", *more).out
        told = here.terminal.run("next", "--on-conflict", "new_wins", *more, "--json", expect=2).json
        assert told["seen"] == "--on-conflict new_wins, and in ddl there is nothing to decide"
    saved = here.terminal.runbook.with_name("saved.plan")
    saved.write_text('{"fingerprint": "a:b:c:d:e"}')
    assert "the plan is stale" in here.terminal.run("next", "--plan", str(saved), "--dry-run", expect=2).err


def test_0_for_run_until_a_stage_that_is_done_and_it_goes_no_further(here: Small) -> None:
    here.terminal.run("run", "--until", "ddl", "-y")
    assert here.terminal.run("run", "--until", "ddl", "-y").out == "ddl is already done\n"
    assert "nothing of that is left to do" in here.terminal.run("plan", "--phase", "ddl").out
    assert "Next: rollout rollback --to ddl" in here.terminal.run("rollback", "--to", "ddl", "--dry-run").out
    status = here.terminal.run("status", "--json").json
    assert (status["phase"], status["next_command"]) == ("ddl", "rollout next --phase backfill")


def test_0_for_what_is_done_already_and_when_nothing_is_left(here: Small) -> None:
    assert here.terminal.run("plan", "--detailed-exitcode", "--json", expect=3).json["stages"]
    lines = here.terminal.run("run", "-y", "--json").out.splitlines()
    assert [json.loads(line).get("phase") for line in lines[:5]] == [
        "ddl",
        "backfill",
        "shadow-write",
        "read-switch",
        "verify",
    ]
    before = here.sql("SELECT COUNT(*) FROM _rollout.event")
    assert here.terminal.run("next", "--phase", "backfill").out == "backfill is already done\n"
    assert "nothing is left to do" in here.terminal.run("next", "--json").json["note"]
    assert "nothing is left to do" in here.terminal.run("run", "-y").out
    assert here.terminal.run("plan", "--detailed-exitcode", "--json").json["stages"] == []
    assert here.sql("SELECT COUNT(*) FROM _rollout.event") == before
    status = here.terminal.run("status", "--json").json
    assert (status["state"], status["next_command"], status["read_percent"]) == ("done", "rollout finish", 100)

    told = here.terminal.run("finish", expect=2).err
    assert "there is no terminal" in told
    here.terminal.run("finish", "--old-application-gone", "-y", expect=2)
    here.terminal.run("finish", "--old-application-gone", "--flag-retired", "-y")
    assert here.terminal.run("status", "--json").json["state"] == "finished"
    assert here.terminal.run("next").out == "this rollout is finished\n"
    assert here.terminal.run("finish", "-y").code == 0
    assert "this rollout is finished" in here.terminal.run("rollback", "-y", expect=2).err
    here.terminal.run("purge", "-y")
    assert here.sql("SELECT COUNT(*) FROM _rollout.rollout") == [(0,)]
    assert here.sql("SELECT COUNT(*) FROM _rollout.flag") == [(0,)]
    assert here.terminal.run("status", "--json").json["state"] == "new"


def test_2_for_a_stale_plan_with_the_difference(here: Small) -> None:
    saved = here.terminal.runbook.with_name("saved.plan")
    here.terminal.run("plan", "-o", str(saved))
    assert saved.stat().st_mode & 0o077 == 0
    here.sql(f"ALTER TABLE {here.table} ADD COLUMN extra INT")
    with here.unchanged():
        told = here.terminal.run("next", "--plan", str(saved), "-y", "--json", expect=2).json
    assert told["seen"].startswith("the plan is stale: live shape was ")
    assert told["next"].startswith("read a new one: rollout plan -o")
    here.terminal.run("plan", "-o", str(saved))
    here.sql(f"INSERT INTO {here.table} (id, status) VALUES (9, 'new')")  # counts are no part of it
    here.terminal.run("next", "--plan", str(saved), "-y")
    told = here.terminal.run("next", "--plan", str(saved), "-y", "--json", expect=2).json
    assert "state was 0, is " in told["seen"]
    saved.write_text("{}")
    here.terminal.run("next", "--plan", str(saved), "-y", expect=2)
    here.terminal.run("next", "--plan", str(saved.with_name("none")), "-y", expect=2)


def test_a_plan_of_a_small_account_binds_the_operator(here: Small) -> None:
    """What only the operator may see, here a child in another schema, makes the plan of somebody else not stale."""
    saved = here.terminal.runbook.with_name("saved.plan")
    child = f"CREATE TABLE {here.schema}_c.k (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES {here.table} (id))"
    script(here.pair.primary, f"CREATE DATABASE {here.schema}_c; {child}")
    try:
        with small_account(here.pair.primary, "planner", f"GRANT SELECT ON {here.schema}.* TO {{who}}") as account:
            here.operator(account).run("plan", "-o", str(saved))
        here.terminal.run("next", "--plan", str(saved), "-y")
    finally:
        script(here.pair.primary, f"DROP DATABASE {here.schema}_c")


def test_65_for_a_contract_that_changed_after_the_start_with_the_way_to_the_old_one(here: Small) -> None:
    here.terminal.run("next", "-y")
    first = here.terminal.runbook.read_text(encoding="utf-8")
    here.write(("varchar(32)", "varchar(33)"))
    before = here.seen()
    told = here.terminal.run("next", "-y", "--json", expect=65).json
    assert "the contract differs from the one that orders-state began with" in told["seen"]
    assert "--runbook-text" in told["next"]
    assert here.seen() == before
    assert here.terminal.run("status", "--runbook-text").out == first


def test_65_for_a_runbook_that_is_gone_while_its_rollout_stands_and_the_state_gives_it_back(here: Small) -> None:
    """All readers are on the new column, and the way back needs the file."""
    flags = "SELECT new_writes, read_percent FROM _rollout.flag"
    here.terminal.run("run", "--until", "read-switch", "-y")
    first = here.terminal.runbook.read_text(encoding="utf-8")
    here.terminal.runbook.unlink()
    told = here.terminal.run("rollback", "-y", "--json", expect=65).json
    assert "status --runbook-text --of NAME" in told["next"]
    assert here.sql(flags) == [(1, 100)]
    assert "begun: orders-state" in here.terminal.run("status", "--runbook-text", "--of", "nobody", expect=2).err
    given = here.terminal.run("status", "--runbook-text", "--of", here.name).out
    assert given == first
    here.terminal.runbook.write_text(given, encoding="utf-8")
    here.terminal.run("rollback", "-y")
    assert here.sql(flags) == [(0, 0)]
