"""The verbs that only look write nothing, need little, and say what others build on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from orchestrator.sandbox.pair import Pair
from tests.support.log import general_log, said
from tests.support.looking import small_account
from tests.support.small import Small, small

READS = ("SELECT ", "SHOW ", "SET SESSION ", "SET AUTOCOMMIT", "SET NAMES ", "EXPLAIN ", "ROLLBACK")
TAKES = (
    " FOR UPDATE",
    " FOR SHARE",
    "GET_LOCK(",
    "INTO OUTFILE",
    "INTO DUMPFILE",
    "INTO @",
    "SET GLOBAL",
    "SET PERSIST",
)


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


def writing(statement: str) -> bool:
    """Whether the statement may change anything, or keep anybody else from changing it."""
    text = " ".join(statement.split()).upper()
    return not text.startswith(READS) or any(word in text for word in TAKES)


@pytest.mark.parametrize(
    ("statement", "writes"),
    [("SELECT 1", False), ("SELECT a FROM t FOR UPDATE", True), ("INSERT INTO t VALUES (1)", True), ("DO 1", True)],
)
def test_the_test_tells_a_writing_statement_from_a_reading_one(statement: str, writes: bool) -> None:
    assert writing(statement) is writes


def test_plan_and_dry_run_write_nothing(here: Small) -> None:
    """Law 3: nothing that writes leaves a command that only looks, before a rollout has begun and while it stands."""
    grants = f"GRANT SELECT ON {here.schema}.* TO {{who}}; GRANT SELECT ON `_rollout`.* TO {{who}}"
    with small_account(here.pair.primary, "reader", grants) as account, general_log(here.pair.primary):
        reader = here.operator(account)
        with here.unchanged():
            for arguments in (("plan",), ("plan", "--sql"), ("next", "--dry-run"), ("rollback", "--dry-run")):
                reader.run(*arguments)
            reader.run("check", expect=75)
            reader.run("status")
            reader.run("doctor", expect=None)
        here.terminal.run("run", "--until", "backfill", "-y")
        before, events = here.seen(), here.sql("SELECT * FROM _rollout.event ORDER BY revision")
        for arguments in (("plan", "--sql"), ("next", "--dry-run"), ("rollback", "--dry-run")):
            reader.run(*arguments)
        reader.run("status", "--meter")
        reader.run("verify")
        reader.run("history")
        assert here.seen() == before
        assert here.sql("SELECT * FROM _rollout.event ORDER BY revision") == events
        seen = said(here.pair.primary, "reader")
        operator = said(here.pair.primary)
    assert len(seen) > 200, "the log has what was sent"
    assert any(writing(s) for s in operator), "the log has what writes"
    assert [s for s in seen if writing(s)] == []


def test_a_plan_that_shows_the_mirror_writes_nothing(here: Small) -> None:
    """Law 3 where an account may see triggers, so that their bodies are written out for the plan."""
    grants = f"GRANT SELECT, TRIGGER ON {here.schema}.* TO {{who}}; GRANT SELECT ON `_rollout`.* TO {{who}}"
    here.terminal.run("run", "--until", "backfill", "-y")
    with small_account(here.pair.primary, "looker", grants) as account, general_log(here.pair.primary):
        looker = here.operator(account)
        before = here.seen()
        shown = [looker.run(*arguments).out for arguments in (("plan", "--sql"), ("next", "--dry-run"))]
        assert here.seen() == before
        seen = said(here.pair.primary, "looker")
    assert all("BEFORE UPDATE ON" in text for text in shown), shown
    assert "fire no trigger: TRUNCATE, ALTER TABLE … TRUNCATE, DROP or EXCHANGE PARTITION" in shown[0], "B56"
    assert len(seen) > 50, "the log has what was sent"
    assert [s for s in seen if writing(s)] == []


def test_whoever_lints_compares_begins_a_runbook_or_serves_metrics_writes_nothing(here: Small) -> None:
    """Law 3 for the other commands that look; and none of them leaves a file that it was not asked for."""
    grants = f"GRANT SELECT ON {here.schema}.* TO {{who}}; GRANT SELECT ON `_rollout`.* TO {{who}}"
    here.terminal.run("run", "--until", "backfill", "-y")
    folder = here.terminal.runbook.parent
    with small_account(here.pair.primary, "finder", grants) as account, general_log(here.pair.primary):
        finder = here.operator(account)
        before, files = here.seen(), listed(folder)
        said_of = [
            finder.run("lint", "--live", expect=None).out,
            finder.run("drift", expect=None).out,
            finder.run("init", f"{here.schema}.orders", "-o", "-").out,
        ]
        exporter = finder.start("metrics", "--port", "0")
        try:
            assert exporter.stdout is not None
            with urlopen(exporter.stdout.readline().strip(), timeout=30) as page:
                assert b"rollout_up 1.0" in page.read()
        finally:
            exporter.terminate()
            exporter.communicate()
        assert here.seen() == before
        assert listed(folder) == files
        seen = said(here.pair.primary, "finder")
    assert all(said_of), said_of
    assert len(seen) > 50, "the log has what was sent"
    assert [s for s in seen if writing(s)] == []


def listed(folder: Path) -> dict[str, bytes]:
    """Every file below it, with what it holds."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_0_for_a_plan_of_an_account_that_may_only_select_from_the_table(here: Small) -> None:
    with small_account(here.pair.primary, "bare", f"GRANT SELECT ON {here.schema}.* TO {{who}}") as account:
        bare = here.operator(account)
        with here.unchanged():
            plan = bare.run("plan", "--json").json
            shown = bare.run("plan").out
    checks = {c["name"]: c for c in plan["checks"]}
    blind = {name: c["next"] for name, c in checks.items() if c["verdict"] == "unseen"}
    who = "`bare`@`127.0.0.1`"
    assert blind["metadata-locks"] == f"GRANT SELECT ON performance_schema.* TO {who};"
    assert blind["replication-lag"] == f"GRANT REPLICATION SLAVE ON *.* TO {who};"
    assert blind["state"].startswith("GRANT SELECT ON `\\_rollout`.* TO ")
    assert all("unseen" in checks[name]["seen"] for name in blind)
    assert "unseen" in shown
    assert f"GRANT SELECT ON performance_schema.* TO {who};" in shown
    assert "ADD COLUMN `state`" in str(plan["stages"][0]["steps"][0]["sql"])


def test_the_keys_that_others_build_on_stand_in_every_answer(here: Small) -> None:
    plan = here.terminal.run("plan", "--json").json
    assert {"digest", "fingerprint", "stages", "budgets", "checks"} <= set(plan)
    assert [s["name"] for s in plan["stages"]] == ["ddl", "backfill", "shadow-write", "read-switch", "verify"]
    assert all(isinstance(line, str) for s in plan["stages"] for step in s["steps"] for line in step["sql"])
    statements = [line for step in plan["stages"][0]["steps"] for line in step["sql"]]
    assert any("ALGORITHM=INSTANT" in line.replace(" = ", "=") for line in statements), statements
    assert any("/* rollout:orders-state" in line for line in statements), "the tag is shown"

    wanted = {"rollout", "table", "phase", "state", "who_must_act", "next_command", "progress", "lag_ms", "drift"}
    wanted |= {"read_percent", "new_writes", "meter"}
    status = here.terminal.run("status", "--json").json
    assert wanted <= set(status)
    assert (status["rollout"], status["state"], status["read_percent"]) == ("orders-state", "new", 0)
    assert status["table"] == f"{here.schema}.orders"

    checks = here.terminal.run("check", "--json").json["checks"]
    assert all({"name", "verdict", "reason", "seen", "limit"} <= set(c) for c in checks)
    assert {c["verdict"] for c in checks} == {"pass"}

    here.terminal.run("run", "--until", "shadow-write", "-y")
    verified = here.terminal.run("verify", "--json").json
    assert {"rows_table", "rows_compared", "mismatches", "classes", "samples", "seconds"} <= set(verified)
    assert (verified["rows_table"], verified["rows_compared"], verified["mismatches"]) == (3, 3, 0)

    here.sql(f"DROP TRIGGER `{here.schema}`.`{trigger(here)}`")
    here.sql(f"UPDATE {here.table} SET state = 'running' WHERE id = 2")
    differs = here.terminal.run("verify", "--json", expect=81).json
    assert differs["mismatches"] == 1
    ((name, rows),) = differs["classes"].items()
    assert rows == 1
    assert "status" in name
    assert "state" in name
    assert differs["samples"] == {name: ["2"]}
    assert "2" in here.terminal.run("verify", expect=81).out

    lines = [json.loads(line) for line in here.terminal.run("history", "--json").out.splitlines()]
    assert {"at", "who", "event", "phase", "state", "note", "revision"} <= set(lines[0])
    assert [e["event"] for e in lines][:2] == ["created", "started"]
    assert [e["revision"] for e in lines] == sorted(e["revision"] for e in lines)


def trigger(here: Small) -> str:
    rows = here.sql(
        "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS"
        " WHERE EVENT_OBJECT_SCHEMA = %s AND EVENT_MANIPULATION = 'UPDATE'",
        here.schema,
    )
    return str(rows[0][0])


def test_verify_before_ddl_says_that_there_is_nothing_to_compare(here: Small) -> None:
    told = here.terminal.run("verify", "--json", expect=75).json
    assert "state" in told["seen"]
    assert told["next"] == "rollout next --phase ddl"
