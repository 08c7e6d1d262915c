"""The trial of the mirror finds on scratch copies what the application would notice, and measures what it costs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.drivers.shadow import MirrorTrialDriver
from orchestrator.model.contract import Contract, Copy, Expression, Mapping, TableName, ValueMap
from orchestrator.model.outcome import Outcome, Result, Seen, Signal, SignalKind
from orchestrator.model.step import AddColumns, TryMirror
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.alter import alter
from orchestrator.runbook.load import load
from orchestrator.sandbox.server import Server
from tests.support.ddl import Beats, column, site_on
from tests.support.servers import connect, script, sql
from tests.support.shapes import live_shape

RUNBOOKS = Path(__file__).parents[2] / "runbooks"

TABLES = """
CREATE TABLE p (id INT PRIMARY KEY);
CREATE TABLE t (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, p_id INT NULL, status VARCHAR(20) NOT NULL DEFAULT 'new',
  big INT NULL, k INT NOT NULL DEFAULT 0, at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE
  CURRENT_TIMESTAMP(6), state VARCHAR(32) NULL, small TINYINT NULL, label VARCHAR(90) NULL,
  KEY p (p_id), CONSTRAINT t_p FOREIGN KEY (p_id) REFERENCES p (id));
CREATE TRIGGER theirs BEFORE INSERT ON t FOR EACH ROW SET NEW.status = LOWER(TRIM(NEW.status));
INSERT INTO p VALUES (1); INSERT INTO t (p_id, status, big) VALUES (1, 'new', 5);
"""
FORWARD, BACKWARD = ValueMap((("new", "pending"), ("done", "over"))), ValueMap((("pending", "new"), ("over", "done")))
MAPPINGS = (
    Mapping("state", "status", FORWARD, BACKWARD),
    Mapping("small", "big", Copy(), Copy()),
    Mapping("label", None, Expression("CONCAT(status, '-', k)"), follows=True),
)
OLD = (
    "UPDATE t SET status = ?, k = k + 1 WHERE id = ?",
    "INSERT INTO t (status, big) VALUES (?, ?) ON DUPLICATE KEY UPDATE k = k + 1",
    "SELECT * FROM t WHERE id = ?",
)


@pytest.fixture
def ground(primary: Server) -> Iterator[Ground]:
    schema = f"mt_{uuid.uuid4().hex[:10]}"
    script(primary, f"CREATE DATABASE {schema} DEFAULT CHARACTER SET utf8mb4; USE {schema}; {TABLES}")
    yield Ground(primary, schema)
    script(primary, f"DROP DATABASE {schema}")


class Ground:
    def __init__(self, server: Server, schema: str) -> None:
        self.server, self.schema = server, schema
        self.table = TableName(schema, "t")

    def site(self, *mappings: Mapping, old: tuple[str, ...] = ()) -> Site:
        columns = (column("state", "varchar(32)"), column("small", "tinyint"), column("label", "varchar(90)"))
        contract = Contract(self.table, columns, mappings=mappings or MAPPINGS, old_statements=old)
        return site_on(self.server, contract, id=f"m-{uuid.uuid4().hex[:6]}")

    def tried(self, *mappings: Mapping, old: tuple[str, ...] = (), beats: Beats | None = None) -> Outcome:
        """The outcome; production is as before, and no copy is left."""
        before = self.production()
        driver, step = MirrorTrialDriver(self.site(*mappings, old=old)), self.step()
        outcome = driver.apply(step, beats or Beats())
        assert self.production() == before
        assert sql(self.server, "SHOW DATABASES LIKE '%scratch%'") == []
        assert driver.observe(step, Beats()) is Seen.ABSENT
        return outcome

    def step(self) -> TryMirror:
        return TryMirror(table=self.table, family=(self.table, TableName(self.schema, "p")))

    def production(self) -> object:
        return sql(self.server, f"SHOW CREATE TABLE {self.schema}.t") + sql(
            self.server, f"SELECT * FROM {self.schema}.t"
        )


def test_a_mirror_that_hurts_nobody_passes_with_what_it_costs_and_what_does_not_fit(ground: Ground) -> None:
    outcome = ground.tried(old=OLD)
    assert outcome.result is Result.DONE, outcome.evidence
    assert outcome.figures["statements"] > 100
    assert outcome.figures["update_with_us"] > 0 < outcome.figures["update_without_us"]
    warned = [e[0] for e in outcome.evidence]
    assert any("LEAST(GREATEST(big, -128), 127)" in w for w in warned), warned
    assert "µs" in outcome.note
    assert "LOAD DATA was not tried: local_infile is off on this server" in warned


def test_a_server_gets_the_file_that_was_meant_and_no_other(ground: Ground, tmp_path: Path) -> None:
    """The server names the file: one that lies, or is lied to, must not have any."""
    meant, other = tmp_path / "meant", tmp_path / "other"
    meant.write_text("7\n")
    other.write_text("8\n")
    script(ground.server, "SET GLOBAL local_infile = 1")
    load = f"LOAD DATA LOCAL INFILE '{{}}' INTO TABLE {ground.schema}.p (id)"
    try:
        with closing(ground.site().connect("test", sends=str(meant))) as session:
            session.packet([load.format(meant), "SELECT 1"])
            with pytest.raises(ServerError, match="which it may not have"):
                session.execute(load.format(other))
        with closing(ground.site().connect("test")) as session, pytest.raises(ServerError):
            session.execute(load.format(meant))
    finally:
        script(ground.server, "SET GLOBAL local_infile = 0")
    assert sql(ground.server, f"SELECT id FROM {ground.schema}.p ORDER BY id") == [(1,), (7,)]


def test_load_data_is_tried_where_the_server_takes_it(ground: Ground) -> None:
    script(ground.server, "ALTER TABLE t ADD UNIQUE KEY state_uq (state); SET GLOBAL local_infile = 1", ground.schema)
    try:
        harmless, harmful = ground.tried(MAPPINGS[1]), ground.tried(Mapping("state", "status", Copy(), Copy()))
    finally:
        script(ground.server, "SET GLOBAL local_infile = 0")
    assert not any("LOAD DATA" in e[0] for e in harmless.evidence), harmless.evidence
    said = {what: how for what, _, _, how in harmful.evidence}
    assert any(what.startswith("LOAD DATA with `status`") and "rows" in how for what, how in said.items()), said


def test_a_partner_in_a_unique_key_is_found_with_statement_and_error(ground: Ground) -> None:
    script(ground.server, "ALTER TABLE t ADD UNIQUE KEY state_uq (state)", ground.schema)
    outcome = ground.tried(Mapping("state", "status", Copy(), Copy()))
    assert outcome.result is Result.FAILED
    said = {what: how for what, _, _, how in outcome.evidence}
    assert "with it error 1062" in said["UPDATE of all rows with `status` = _utf8mb4'7'"], said


def test_a_trigger_of_theirs_that_meets_what_the_mirror_sets_is_found(ground: Ground) -> None:
    script(
        ground.server,
        "CREATE TRIGGER guard AFTER UPDATE ON t FOR EACH ROW"
        " IF NOT (NEW.state <=> OLD.state) THEN SIGNAL SQLSTATE '45000'; END IF",
        ground.schema,
    )
    outcome = ground.tried(MAPPINGS[0])
    assert outcome.result is Result.FAILED
    assert "without the mirror it passes, with it error 1644" in outcome.note


def test_a_trigger_of_theirs_that_reaches_out_is_left_out_and_said(ground: Ground) -> None:
    body = f"FOR EACH ROW INSERT INTO {ground.schema}.p VALUES (NEW.id + 1000)"
    script(ground.server, f"CREATE TRIGGER reaches AFTER INSERT ON t {body}", ground.schema)
    outcome = ground.tried(MAPPINGS[0])
    assert outcome.result is Result.DONE, outcome
    assert any("reaches" in e[0] for e in outcome.evidence)


def test_the_settings_of_live_clients_are_tried_too(ground: Ground) -> None:
    session = connect(ground.server, database=ground.schema)
    try:
        with session.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES', time_zone = '+09:00'")
        outcome = ground.tried(MAPPINGS[0])
    finally:
        session.close()
    assert outcome.result is Result.DONE, outcome
    assert "ANSI_QUOTES,NO_BACKSLASH_ESCAPES at +09:00" in outcome.evidence[0][0]


def test_a_pause_ends_the_trial_and_leaves_nothing(ground: Ground) -> None:
    asked = Beats(lambda p: Signal(SignalKind.PAUSE, "asked") if p.done else Signal(SignalKind.GO))
    assert ground.tried(MAPPINGS[0], beats=asked).result is Result.PAUSED


@pytest.mark.parametrize("name", ["aijob", "orders", "documents", "readings"])
def test_no_application_would_notice_the_mirror_of_a_shipped_runbook(primary: Server, schema: str, name: str) -> None:
    runbook = load(RUNBOOKS / f"{name}.yaml")
    script(primary, (RUNBOOKS / "sandbox" / f"{name}.sql").read_text(), schema)
    table = TableName(schema, runbook.table.name)
    site = site_on(primary, replace(runbook.contract, table=table), id=f"m-{uuid.uuid4().hex[:6]}")
    with closing(site.connect("test")) as session:
        missing = tuple(c for c in runbook.contract.columns if live_shape(session, table).column(c.name) is None)
        session.execute(alter(AddColumns(table=table, columns=missing, family=()), ""))
        family = live_shape(session, table).family
    outcome = MirrorTrialDriver(site).apply(TryMirror(table=table, family=family), Beats())
    assert outcome.result is Result.DONE, outcome.evidence
