"""Columns renamed in place: it walks when no declared statement says them, and is refused with the statements else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pymysql
import pytest

from orchestrator.model.contract import TableName
from orchestrator.runbook.shorten import write_short_copy
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.sandbox.server import Server
from tests.support.command import Terminal, ground
from tests.support.ddl import columns_of
from tests.support.servers import connect, script, sql

pytestmark = [pytest.mark.walk, pytest.mark.timeout(300)]
RENAMED = {"completedAt": "finishedAt", "errorMessage": "internalErrorMessage"}
TABLE = TableName("app", "AiAnalysisJob")
STILL_SAID = "SELECT id, status, resultJson, errorMessage, createdAt, completedAt FROM"


@contextmanager
def terminal(pair: Pair, folder: Path, **changes: str) -> Iterator[Terminal]:
    """A shell on the seeded table, with the shipped runbook in which each of ``changes`` was put for ``said``."""
    with ground(pair, "aijob", folder, rows=120):
        script(pair.primary, "TRUNCATE performance_schema.events_statements_summary_by_digest")
        written = folder / "written.yaml"
        text = (runbooks_folder() / "aijob-rename.yaml").read_text(encoding="utf-8")
        if changes:
            assert changes["said"] in text
            text = text.replace(changes["said"], changes["instead"], 1)
        written.write_text(text, encoding="utf-8")
        write_short_copy(written, folder / "aijob-rename.yaml", 1.0)
        yield Terminal(pair.primary, folder / "aijob-rename.yaml")


def names(server: Server) -> set[str]:
    return set(columns_of(server, TABLE))


class OldApplication:
    """The declared statements of the old application, over and over, with every error that they meet."""

    def __init__(self, server: Server) -> None:
        self.errors: list[str] = []
        self.said = 0
        self._server, self._stop = server, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> OldApplication:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        (user,), (job,) = (
            sql(self._server, f"SELECT id FROM app.{table} LIMIT 1")[0] for table in ("User", "AiAnalysisJob")
        )
        texts = (
            ("INSERT IGNORE INTO AiAnalysisJob (id, userId) VALUES (UUID(), %s)", (user,)),
            ("UPDATE AiAnalysisJob SET status = 'processing' WHERE id = %s", (job,)),
            ("UPDATE AiAnalysisJob SET status = 'completed', resultJson = '{}' WHERE id = %s", (job,)),
            ("SELECT id, status, resultJson, createdAt FROM AiAnalysisJob WHERE userId = %s LIMIT 20", (user,)),
        )
        with closing(connect(self._server, database="app")) as session, session.cursor() as cursor:
            while not self._stop.wait(0.02):
                for text, arguments in texts:
                    try:
                        cursor.execute(text, arguments)
                        self.said += 1
                    except pymysql.err.MySQLError as error:
                        self.errors.append(str(error))


def test_it_walks_under_the_old_application_and_the_way_back_is_a_rename_too(pair: Pair, tmp_path: Path) -> None:
    with terminal(pair, tmp_path, said="rollback: {ddl: keep", instead="rollback: {ddl: drop") as shell:
        assert "rename-unproven" in shell.run("plan", "--json", expect=65).out
        shell.run("next", "--phase", "ddl", "-y", expect=65)
        proof = shell.run("compat", "--json").json
        assert (proof["refused"], proof["same"]) == ([], True)
        assert proof["matrix"]["new"]["after ddl"]["finishedAt"] == "both"
        planned = shell.run("plan", "--json").json
        assert "none fails where its version runs" in planned["compat"]
        assert len(planned["renames"]) == 2
        kept = sql(pair.primary, "SELECT id, completedAt, errorMessage FROM app.AiAnalysisJob ORDER BY id")
        script(pair.primary, "TRUNCATE performance_schema.events_statements_summary_by_digest")
        with OldApplication(pair.primary) as old:
            shell.run("run", "-y")
            assert names(pair.primary) >= {*RENAMED.values(), "status", "retryCount"}
            assert not names(pair.primary) & RENAMED.keys()
            shell.run("rollback", "-y", "--accept-loss=no-way-back=10000")
        assert (old.errors, old.said > 50) == ([], True)
        assert names(pair.primary) >= RENAMED.keys()
        assert not names(pair.primary) & {*RENAMED.values(), "lifecycleStatus"}
        same = sql(
            pair.primary,
            "SELECT id, completedAt, errorMessage FROM app.AiAnalysisJob WHERE CHAR_LENGTH(id) < 36 ORDER BY id",
        )
        assert set(same) <= set(kept)


def test_it_is_refused_with_the_statements_when_a_declared_one_says_a_name(pair: Pair, tmp_path: Path) -> None:
    said = "SELECT id, status, resultJson, createdAt FROM"
    with terminal(pair, tmp_path, said=said, instead=STILL_SAID) as shell:
        refused = shell.run("compat", "--json", expect=65).json["refused"]
        assert refused
        assert all("1054" in line and STILL_SAID in line for line in refused)
        assert {line.split(":")[0] for line in refused} == {
            "old, after ddl",
            "old, mirror on",
            "old, after rollback",
        }
        plan = shell.run("plan", "--json", expect=65).json
        assert [p["rule"] for p in plan["problems"]] == ["statement-fails"]
        shell.run("next", "--phase", "ddl", "-y", expect=65)
        assert names(pair.primary) >= RENAMED.keys()


def test_an_untrue_claim_is_caught_before_production_is_touched(pair: Pair, tmp_path: Path) -> None:
    """No declared statement says the names, but the server has seen one that does."""
    with terminal(pair, tmp_path) as shell:
        shell.run("compat")
        with closing(connect(pair.primary, database="app")) as session, session.cursor() as cursor:
            cursor.execute("UPDATE AiAnalysisJob SET completedAt = NOW(3) WHERE id = 'nobody'")
        before = columns_of(pair.primary, TABLE)
        failed = shell.run("next", "--phase", "ddl", "-y", expect=76)
        assert "UPDATE `AiAnalysisJob` SET `completedAt`" in failed.err
        assert columns_of(pair.primary, TABLE) == before
