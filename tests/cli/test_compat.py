"""The verb compat: the proof lies beside the runbook, refuses by its exit code, and sees what is said to the server."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.sandbox.server import Server
from tests.support.command import Terminal
from tests.support.servers import connect, script, sql

TEXT = """\
apiVersion: rollout/v1
name: proven
table: {schema: SCHEMA, name: job}
contract:
  columns: [{name: state, type: varchar(20)}]
mappings: [{old: status, new: state, forward: copy, backward: copy}]
applications:
  old: [UPDATE job SET status = ? WHERE id = ?, "SELECT * FROM job"]
  new: [UPDATE job SET state = ? WHERE id = ?]
"""


@pytest.fixture
def shell(primary: Server, schema: str, tmp_path: Path) -> Terminal:
    script(primary, "CREATE TABLE job (id INT PRIMARY KEY, status VARCHAR(20), note VARCHAR(9))", schema)
    file = tmp_path / "job.yaml"
    file.write_text(TEXT.replace("SCHEMA", schema), encoding="utf-8")
    return Terminal(primary, file)


def test_the_proof_is_written_shown_and_held_to(shell: Terminal, tmp_path: Path) -> None:
    text = shell.run("compat").out
    assert "old application" in text
    assert "writes" in text
    assert "hazard   old: select-star" in text
    proof = tmp_path / "job.proof"
    assert f"{proof}: 3 statements tried" in text
    shell.run("compat", "--check")
    written = proof.read_text(encoding="utf-8")
    assert proof.stat().st_mode & 0o777 == 0o644
    assert [p for p in tmp_path.iterdir() if p.name.startswith(".")] == [], "nothing is left beside it"
    (tmp_path / "more.sql").write_text("-- a job\nSELECT note\nFROM job;\nDELETE FROM job WHERE gone = 1;")
    found = shell.run("compat", "--check", "--json", "--old", str(tmp_path / "more.sql"), expect=65).json
    assert proof.read_text(encoding="utf-8") == written
    assert {f["number"] for f in found["failures"] if f["refuses"]} == {1054}
    assert found["matrix"]["old"]["before"]["note"] == "reads"
    assert len(found["refused"]) == 5


def test_what_is_said_to_the_table_meanwhile_is_tried_too(shell: Terminal, primary: Server, schema: str) -> None:
    done = threading.Event()

    def application() -> None:
        with closing(connect(primary, database=schema)) as session, session.cursor() as cursor:
            while not done.wait(0.05):
                cursor.execute("SELECT note FROM job WHERE id IN (1, 2, 3) AND status = 'x'")
                cursor.execute("INSERT IGNORE INTO job (id, note) VALUES (1, 'a'), (2, 'b')")

    thread = threading.Thread(target=application)
    thread.start()
    try:
        found = shell.run("compat", "--capture", "1s", "--json").json
    finally:
        done.set()
        thread.join()
    said = {s["text"].replace("`", ""): s for s in found["statements"]}
    assert said["INSERT IGNORE INTO job (id, note) VALUES(?, ?)"]["writes"] == ["id", "note"]
    assert said["SELECT note FROM job WHERE id IN(?) AND STATUS = ?"]["reads"] == ["id", "status", "note"]
    assert any("keeps no account" in line for line in found["unproven"])
    assert shell.run("compat", "--capture", "10", expect=2).err
    assert sql(primary, f"SELECT COUNT(*) FROM {schema}.job")[0][0] == 2


def test_a_small_account_is_told_what_it_lacks(shell: Terminal, primary: Server, schema: str) -> None:
    script(primary, f"CREATE USER sees@'%' IDENTIFIED BY 'x'; GRANT SELECT ON {schema}.* TO sees@'%'")
    try:
        shell.more = {"ROLLOUT_USER": "sees", "ROLLOUT_PASSWORD": "x"}
        assert "GRANT ALL ON" in shell.run("compat", expect=77).err
    finally:
        script(primary, "DROP USER sees@'%'")
