"""The trial finds on an empty scratch copy what the server would refuse or break, and leaves nothing behind."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from pymysql.connections import Connection

from orchestrator.drivers.ddl.trial import TrialDriver
from orchestrator.errors import ServerUnreachable
from orchestrator.model.contract import (
    Column,
    Contract,
    Default,
    ForeignKey,
    Index,
    IndexPart,
    Rename,
    RenameWay,
    TableName,
)
from orchestrator.model.outcome import Outcome, Result, Seen
from orchestrator.model.runbook import Waiver
from orchestrator.model.step import AddColumns, AddForeignKey, AddIndex, ChangeColumn, RenameColumn, SetDefault, TryDdl
from orchestrator.model.types import parse_type
from orchestrator.model.way import INPLACE
from orchestrator.mysql.site import Site
from orchestrator.sandbox.server import Server
from tests.support.ddl import Beats, column, columns_of, plain_table, site_on
from tests.support.servers import script, sql

USERS = """
CREATE TABLE team (id INT PRIMARY KEY, name VARCHAR(9) NOT NULL);
CREATE TABLE user (id INT PRIMARY KEY, team_id INT NULL,
 CONSTRAINT user_team FOREIGN KEY (team_id) REFERENCES team (id));
CREATE TABLE job (id VARCHAR(30) PRIMARY KEY, user_id INT NOT NULL, body JSON NOT NULL, at DATETIME NOT NULL,
 mail VARCHAR(9) NOT NULL, UNIQUE KEY mail (mail), KEY user_id (user_id), CONSTRAINT job_user FOREIGN KEY (user_id)
 REFERENCES user (id) ON DELETE CASCADE, CHECK (at > '2000-01-01'));
CREATE TABLE bill (id INT PRIMARY KEY, job_id VARCHAR(30) NULL, KEY job_id (job_id), CONSTRAINT bill_job FOREIGN KEY
 (job_id) REFERENCES job (id) ON DELETE SET NULL);
CREATE TABLE snap (id VARCHAR(30) COLLATE utf8mb4_bin PRIMARY KEY, code VARCHAR(30) NOT NULL, KEY code (code));
"""


@pytest.fixture(scope="module")
def jobs(primary: Server) -> Iterator[str]:
    name = f"tr_{uuid.uuid4().hex[:10]}"
    script(primary, f"CREATE DATABASE {name} DEFAULT CHARACTER SET utf8mb4")
    script(primary, USERS, name)
    yield name
    script(primary, f"DROP DATABASE {name}")


class Ground:
    def __init__(self, server: Server, schema: str, *waived: str) -> None:
        self.server = server
        self.table = TableName(schema, "job")
        self.family = tuple(TableName(schema, n) for n in ("job", "user", "bill", "snap"))
        base = site_on(server, Contract(self.table, ()), id=f"t-{uuid.uuid4().hex[:6]}")
        waivers = tuple(Waiver(rule, "chains are short") for rule in waived)
        self.site = Site(base.settings, replace(base.runbook, waivers=waivers), base.clock)
        self.driver = TrialDriver(self.site)

    def columns(self, *columns: Column) -> AddColumns:
        return AddColumns(table=self.table, columns=columns, family=self.family)

    def index(self, name: str, *parts: str) -> AddIndex:
        index = Index(name, tuple(IndexPart(p) for p in parts))
        return AddIndex(table=self.table, index=index, final_lock_budget_s=1, tries=1, family=self.family)

    def key(self, name: str, child: str, parent: str, on_delete: str = "RESTRICT", on_update: str = "RESTRICT",
            to: str = "id") -> AddForeignKey:  # fmt: skip
        key = ForeignKey(name, (child,), TableName(self.table.schema, parent), (to,), on_delete, on_update)
        return AddForeignKey(table=self.table, foreign_key=key, family=self.family)

    def tried(self, *steps: AddColumns | AddIndex | AddForeignKey | SetDefault | ChangeColumn) -> Outcome:
        before = self.production()
        outcome = self.driver.apply(TryDdl(table=self.table, family=self.family, steps=steps), Beats())
        assert self.production() == before
        assert self.copies() == []
        return outcome

    def production(self) -> list[str]:
        return [sql(self.server, f"SHOW CREATE TABLE {t}")[0][1] for t in self.family]

    def copies(self) -> list[str]:
        return [row[0] for row in sql(self.server, "SHOW DATABASES LIKE '%scratch%'")]


@pytest.fixture
def ground(primary: Server, jobs: str) -> Ground:
    return Ground(primary, jobs)


PARENT = column("parent_id", "varchar(30)")


def test_what_the_server_takes_is_done_and_nothing_is_left(ground: Ground) -> None:
    made = Column("meta", parse_type("json"), default=Default("(json_object())", True))
    outcome = ground.tried(
        ground.columns(PARENT, replace(made, default=None)),
        SetDefault(table=ground.table, column=made, family=ground.family),
        ground.index("job_parent_idx", "parent_id"),
        ground.key("job_bill_fk", "parent_id", "job", "RESTRICT"),
    )
    assert outcome.result is Result.FAILED  # deleting a user whose job is a parent
    assert "1451" in outcome.note
    waived = Ground(ground.server, ground.table.schema, "foreign-key-effects")
    done = waived.tried(ground.columns(PARENT), ground.index("i", "parent_id"), ground.key("f", "parent_id", "job"))
    assert done.result is Result.DONE, done
    assert "waived: DELETE of a row of user" in done.note


def test_1118_and_1071_are_refused_with_both_reasons_and_the_scratch_copy_is_removed(ground: Ground) -> None:
    wide = [column(f"w{n}", "varchar(9000)") for n in range(3)]
    narrow, index = ground.columns(column("v", "varchar(900)")), ground.index("too_long_idx", "v")
    outcome = ground.tried(ground.columns(*wide), ground.index("long_idx", "id", "mail"), narrow, index)
    assert outcome.result is Result.FAILED
    assert [row[:2] for row in outcome.evidence] == [("add-columns", "1118"), ("add-index:too_long_idx", "1071")]


def test_a_row_that_could_outgrow_its_page_is_refused(ground: Ground) -> None:
    many = [column(f"m{n}", "varchar(63)") for n in range(60)]
    outcome = ground.tried(ground.columns(*many))
    assert [row[1] for row in outcome.evidence] in (["4157"], ["1118"])


def test_an_algorithm_that_the_server_refuses_is_a_clear_stop(ground: Ground) -> None:
    before, after = column("mail", "varchar(9)", null=False), column("mail", "varchar(90)", null=False)
    change = ChangeColumn(table=ground.table, before=before, after=after, family=ground.family, way=INPLACE)
    outcome = ground.tried(change)
    assert outcome.evidence[0][1] in ("1845", "1846")
    assert "never chosen by itself" in outcome.next


def test_a_parent_of_another_collation_or_without_a_unique_key_is_refused(ground: Ground) -> None:
    outcome = ground.tried(
        ground.columns(column("snap_id", "varchar(30)"), column("code", "varchar(30)")),
        ground.index("s_idx", "snap_id"),
        ground.index("c_idx", "code"),
        ground.key("s_fk", "snap_id", "snap"),
        ground.key("c_fk", "code", "snap", to="code"),
    )
    assert [row[1] for row in outcome.evidence] == ["3780", "6125"]


def test_a_self_reference_under_a_cascade_is_refused_or_waived_with_its_shape(ground: Ground) -> None:
    steps = (ground.columns(PARENT), ground.index("i", "parent_id"), ground.key("f", "parent_id", "job", "SET NULL"))
    outcome = ground.tried(*steps)
    assert outcome.result is Result.FAILED
    assert "6575" in outcome.note
    assert "chain of 4 rows" in outcome.note
    assert "self-reference-cascade" in outcome.next
    waived = Ground(ground.server, ground.table.schema, "self-reference-cascade")
    assert waived.tried(*steps).result is Result.DONE


def test_a_key_that_changes_with_itself_is_refused(ground: Ground) -> None:
    outcome = ground.tried(
        ground.columns(PARENT),
        ground.index("i", "parent_id"),
        ground.key("f", "parent_id", "job", "RESTRICT", "CASCADE"),
    )
    assert "UPDATE of the key of a row of job" in outcome.note
    assert "1451" in outcome.note


def test_a_default_that_has_no_parent_is_refused(ground: Ground) -> None:
    child = column("snap_id", "int", "7", null=False)
    outcome = ground.tried(ground.columns(child), ground.index("i", "snap_id"), ground.key("f", "snap_id", "user"))
    assert "INSERT of a row that names no new column would fail with 1452" in outcome.note


def test_what_a_crash_left_is_removed_by_whoever_looks_next(ground: Ground) -> None:
    left = f"_rollout_scratch_{ground.site.runbook.id}"
    script(ground.server, f"CREATE DATABASE `{left}`; CREATE TABLE `{left}`.job (id INT)")
    assert ground.copies() == [left]
    step = TryDdl(table=ground.table, family=ground.family, steps=(ground.columns(PARENT),))
    assert ground.driver.observe(step, Beats()) is Seen.ABSENT
    assert ground.copies() == []
    script(ground.server, f"CREATE DATABASE `{left}`; CREATE TABLE `{left}`.job (id INT)")
    assert ground.tried(ground.columns(PARENT)).result is Result.DONE


def test_who_cannot_remove_his_copy_has_not_done_his_work(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by ``make crash``: cut off at the last statement of a trial, which was done then, and the copy stayed."""
    sent, copied = Connection.query, list[str]()

    def query(self: Any, text: Any, unbuffered: bool = False) -> Any:
        if "LIKE" in (words := str(text)) and words.startswith("CREATE"):
            copied.append(words)
        if copied and words.startswith("DROP"):
            monkeypatch.undo()
            self._sock.shutdown(socket.SHUT_RDWR)
        return sent(self, text, unbuffered)

    monkeypatch.setattr(Connection, "query", query)
    with pytest.raises(ServerUnreachable, match="scratch copy was removed"):
        ground.tried(ground.columns(PARENT))
    assert len(copied) == len(ground.family)
    assert ground.copies() != []
    assert ground.tried(ground.columns(PARENT)).result is Result.DONE


def test_a_declared_statement_that_ddl_breaks_is_refused_with_its_words(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    bare, good = "INSERT INTO t VALUES (?, NULL, 1, 'x')", "UPDATE t SET a = ? WHERE id = ?"
    new = column("more", "int")
    site = site_on(
        primary, Contract(table, (new,), old_statements=(bare, good), new_statements=("SELECT more FROM t",))
    )
    step = TryDdl(table=table, family=(table,), steps=(AddColumns(table=table, columns=(new,), family=(table,)),))
    outcome = TrialDriver(site).apply(step, Beats())
    assert outcome.result is Result.FAILED
    assert [(said, number) for said, number, _ in outcome.evidence] == [(bare, "1136")]
    assert "more" not in columns_of(primary, table)


def test_a_rename_that_a_trigger_or_a_statement_of_theirs_would_miss_is_refused(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    script(primary, "CREATE TRIGGER theirs BEFORE UPDATE ON t FOR EACH ROW SET NEW.b = LOWER(NEW.b)", schema)
    rename = RenameColumn(table=table, old="b", new="c", family=(table,))
    contract = Contract(
        table, (), renames=(Rename("b", "c", RenameWay.RENAME),), old_statements=("SELECT b FROM t WHERE id = ?",)
    )
    script(primary, "TRUNCATE performance_schema.events_statements_summary_by_digest")
    # A migration, or an earlier walk and its way back, is no statement of an application.
    script(primary, "ALTER TABLE t RENAME COLUMN b TO z; ALTER TABLE t RENAME COLUMN z TO b", schema)
    step = TryDdl(table=table, family=(table,), steps=(rename,))
    outcome = TrialDriver(site_on(primary, contract)).apply(step, Beats())
    assert outcome.result is Result.FAILED
    assert [number for _, number, _ in outcome.evidence] == ["1054", "0"]
    assert "the trigger theirs was left out: 1054" in outcome.note
    assert "b" in columns_of(primary, table)
