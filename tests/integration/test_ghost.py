"""A change by a real gh-ost: what it does to the table, what it leaves, and who gives the cut-over."""

from __future__ import annotations

import re
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.drivers.ddl.ghost.process import GhostRun
from orchestrator.errors import Fenced
from orchestrator.model.contract import Index, IndexPart, TableName
from orchestrator.model.outcome import GO, Progress, Result, Seen, Signal
from orchestrator.model.step import GhostAlter
from orchestrator.mysql.stand_in import StandIn
from orchestrator.sandbox.pair import Pair
from orchestrator.settings import Secret, TlsSettings
from tests.support.certificates import made, served
from tests.support.ddl import Application, Beats, column, held, later
from tests.support.ghost import (
    as_before,
    beside,
    children,
    done,
    driver_for,
    files,
    needs_real,
    orders,
    own_folder,
    ready,
    site_for,
    type_of,
    wider,
)
from tests.support.log import general_log, said
from tests.support.servers import script, sql, wait_caught_up

# What a watch that is late on a loaded machine may add to the stall budget.
STALLED_S = 0.5
pytestmark = [needs_real, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    with own_folder(monkeypatch) as here:
        yield here


def test_the_table_is_swapped_under_traffic_and_only_the_old_one_stays(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)
    driver, beats = driver_for(site_for(pair.primary, table)), Beats()
    with Application(pair.primary, table) as application:
        outcome = driver.apply(wider(table), beats)
    assert outcome.result is Result.DONE, outcome
    assert application.errors == []
    assert "_orders_del" in outcome.note
    done(pair, table)
    assert driver.observe(wider(table), Beats()) is Seen.PRESENT
    assert beats.longest_silence_s < 2
    before = sql(pair.primary, f"SELECT SUM(a) FROM {table}")
    wait_caught_up(pair)
    assert sql(pair.replica, f"SELECT SUM(a) FROM {table}") == before


@pytest.mark.slow(reason="a second whole run of gh-ost; tests/unit/test_ghost_command.py has its words")
@pytest.mark.parametrize("over", ["tcp", "socket"])
def test_it_logs_in_as_an_account_that_must_show_a_certificate(
    pair: Pair, schema: str, tmp_path: Path, over: str
) -> None:
    table = orders(pair.primary, schema)
    site = site_for(pair.primary, table)
    with served(pair.primary, made(tmp_path / "tls")) as shown, served(pair.replica, shown):
        who = f"x509{uuid.uuid4().hex[:8]}"
        create = f"CREATE USER {who}@'%' IDENTIFIED BY 'shown'"
        # A session over a socket shows none.
        script(pair.primary, f"{create}{' REQUIRE X509' if over == 'tcp' else ''}; GRANT ALL ON *.* TO {who}@'%'")
        paths = [shown.path(name) for name in ("ca.pem", "client.pem", "client.key")]
        settings = replace(
            site.settings, user=who, password=Secret("shown"), tls=TlsSettings("VERIFY_IDENTITY", *paths)
        )
        if over == "socket":
            settings = replace(settings, socket=str(sql(pair.primary, "SELECT @@socket")[0][0]))
        try:
            outcome = driver_for(replace(site, settings=settings)).apply(wider(table), Beats())
        finally:
            script(pair.primary, f"DROP USER {who}@'%'")
    assert outcome.result is Result.DONE, outcome


def test_a_rebuild_without_any_other_change_is_known_by_its_old_table(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)
    step = GhostAlter(table=table, rebuild=True, family=(table,), why="a test")
    driver = driver_for(site_for(pair.primary, table))
    assert driver.observe(step, Beats()) is Seen.ABSENT
    outcome = driver.apply(step, Beats())
    assert outcome.result is Result.DONE, outcome
    assert set(beside(pair.primary, table)) == {"_orders_del"}
    assert driver.observe(step, Beats()) is Seen.PRESENT


def test_the_old_table_goes_only_when_the_runbook_says_so(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)
    outcome = driver_for(site_for(pair.primary, table, drop_old_table=True)).apply(wider(table), Beats())
    assert outcome.result is Result.DONE, outcome
    assert beside(pair.primary, table) == {}
    assert type_of(pair.primary, table, "small") == "bigint"


def test_a_holder_that_goes_lets_the_cut_over_through(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)
    with (
        held(pair.primary, "BEGIN", f"SELECT a FROM {table} LIMIT 1") as session,
        later(5.0, session.rollback),
    ):
        outcome = driver_for(site_for(pair.primary, table)).apply(wider(table), Beats())
    assert outcome.result is Result.DONE, outcome
    done(pair, table)


def test_a_fenced_beat_ends_it_at_once(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)

    def fenced(progress: Progress) -> Signal:
        if progress.elapsed_s > 1.0:
            raise Fenced("the lease is somebody else's", "ours", "nothing")
        return GO

    driver = driver_for(site_for(pair.primary, table))
    with pytest.raises(Fenced):
        driver.apply(wider(table), Beats(fenced))
    assert children() == []
    assert type_of(pair.primary, table, "small") == "smallint"
    assert driver.abandon(wider(table), Beats()).result is Result.DONE
    as_before(pair, table)


def test_a_run_that_died_goes_on_from_its_checkpoint_when_nothing_changed(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)

    def fenced(progress: Progress) -> Signal:
        late = "ours to give" in progress.note
        if late and sql(pair.primary, f"SELECT COUNT(*) FROM {schema}._orders_ghk") != [(0,)]:
            raise Fenced("killed", "", "")
        return GO

    driver = driver_for(site_for(pair.primary, table, max_wait_s=60.0))
    with held(pair.primary, "BEGIN", f"SELECT a FROM {table} LIMIT 1"), pytest.raises(Fenced):
        driver.apply(wider(table), Beats(fenced))
    sql(pair.primary, f"UPDATE {table} SET note = 'while nobody copied' WHERE id = 7")
    assert driver.observe(wider(table), Beats()) is Seen.PARTIAL
    outcome = driver.apply(wider(table), Beats())
    assert outcome.result is Result.DONE, outcome
    assert "checkpoint" in outcome.note
    assert re.search(
        rf"took over from a run that died: .*files of the process \d+, .*{schema}\._orders_ghk", outcome.note
    )
    done(pair, table)
    assert sql(pair.primary, f"SELECT note FROM {table} WHERE id = 7") == [("while nobody copied",)]


def test_a_run_that_died_is_begun_anew_when_the_table_changed_meanwhile(pair: Pair, schema: str) -> None:
    """Resumed, it would drop in silence what somebody added in between."""
    table = orders(pair.primary, schema)

    def fenced(progress: Progress) -> Signal:
        if progress.elapsed_s > 1.5:
            raise Fenced("killed", "", "")
        return GO

    driver = driver_for(site_for(pair.primary, table))
    with held(pair.primary, "BEGIN", f"SELECT a FROM {table} LIMIT 1"), pytest.raises(Fenced):
        driver.apply(wider(table), Beats(fenced))
    script(pair.primary, f"ALTER TABLE {table} ADD COLUMN theirs INT DEFAULT 5")
    outcome = driver.apply(wider(table), Beats())
    assert outcome.result is Result.DONE, outcome
    assert "checkpoint" not in outcome.note
    done(pair, table)
    assert type_of(pair.primary, table, "theirs") == "int"


def test_duplicates_are_found_before_a_unique_index_eats_them(pair: Pair, schema: str) -> None:
    """B70: REFUSE with groups; row count before = after."""
    table = orders(pair.primary, schema)
    sql(pair.primary, f"UPDATE {table} SET note = 'same' WHERE id <= 3")
    step = GhostAlter(
        table=table,
        indexes=(Index("orders_note_uq", (IndexPart("note"),), unique=True),),
        family=(table,),
        why="a test",
    )
    outcome = driver_for(site_for(pair.primary, table)).apply(step, Beats())
    assert outcome.result is Result.FAILED, outcome
    assert "1 value" in outcome.note
    assert sql(pair.primary, f"SELECT COUNT(*) FROM {table}") == [(500,)]
    as_before(pair, table)


def test_duplicates_that_come_while_it_copies_end_it_without_a_lost_row(pair: Pair, schema: str) -> None:
    """B70: a duplicate that is written after the count makes gh-ost stop instead of dropping it."""
    table = orders(pair.primary, schema)
    step = GhostAlter(
        table=table,
        indexes=(Index("orders_note_uq", (IndexPart("note"),), unique=True),),
        family=(table,),
        why="a test",
    )
    wrote: list[bool] = []

    def writes(progress: Progress) -> Signal:
        if not wrote and ready(progress):
            wrote.append(True)
            sql(pair.primary, f"INSERT INTO {table} (id, a, note) VALUES (900, 1, '7')")
        return GO

    with held(pair.primary, "BEGIN", f"SELECT a FROM {table} LIMIT 1"):
        outcome = driver_for(site_for(pair.primary, table)).apply(step, Beats(writes))
    assert wrote
    assert outcome.result is Result.FAILED, outcome
    assert sql(pair.primary, f"SELECT COUNT(*) FROM {table}") == [(501,)]
    as_before(pair, table)


@pytest.mark.parametrize(
    ("ground", "says"),
    [
        ("CREATE TABLE child (id INT PRIMARY KEY, o BIGINT, FOREIGN KEY (o) REFERENCES orders (id))", "foreign key"),
        ("CREATE TRIGGER tr BEFORE INSERT ON orders FOR EACH ROW SET NEW.a = 1", "trigger tr"),
        ("ALTER TABLE orders MODIFY id BIGINT NULL, DROP PRIMARY KEY", "no unique key"),
    ],
)
def test_a_table_that_it_cannot_have_is_refused_before_anything_is_made(
    ground: str, says: str, pair: Pair, schema: str
) -> None:
    """B61: refused up front with the reason and the other choice."""
    table = orders(pair.primary, schema)
    script(pair.primary, ground, schema)
    before = set(beside(pair.primary, table))
    outcome = driver_for(site_for(pair.primary, table)).apply(wider(table), Beats())
    assert outcome.result is Result.FAILED, outcome
    assert says in outcome.note
    assert "native" in outcome.next
    assert set(beside(pair.primary, table)) == before
    assert files() == []


@pytest.mark.parametrize(
    ("setting", "usual"), [("binlog_row_image = MINIMAL", "FULL"), ("binlog_row_value_options = PARTIAL_JSON", "''")]
)
def test_a_session_whose_changes_would_be_lost_is_named(setting: str, usual: str, pair: Pair, schema: str) -> None:
    """B93: refuse unless FULL, no PARTIAL_JSON, ROW, also for SESSION overrides seen."""
    table = orders(pair.primary, schema)
    with held(pair.primary, f"SET SESSION {setting}"):
        outcome = driver_for(site_for(pair.primary, table)).apply(wider(table), Beats())
    assert outcome.result is Result.FAILED, outcome
    assert setting.split(" ")[0] in outcome.note
    assert "session" in outcome.note
    script(pair.primary, f"SET GLOBAL {setting}")
    try:
        globally = driver_for(site_for(pair.primary, table)).apply(wider(table), Beats())
    finally:
        script(pair.primary, f"SET GLOBAL {setting.split(' ')[0]} = {usual}")
    assert globally.result is Result.FAILED, globally
    as_before(pair, table)


def test_the_row_with_id_0_keeps_its_id(pair: Pair, schema: str) -> None:
    """B49: id 0 still there afterwards."""
    table = orders(pair.primary, schema, 10)
    script(
        pair.primary,
        f"SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_VALUE_ON_ZERO');"
        f"INSERT INTO {table} (id, a, note) VALUES (0, 42, 'zero')",
    )
    assert driver_for(site_for(pair.primary, table)).apply(wider(table), Beats()).result is Result.DONE
    assert sql(pair.primary, f"SELECT a, note FROM {table} WHERE id = 0") == [(42, "zero")]


@pytest.mark.parametrize("text", ["a;b", "alter table x", "back\\slash"])
def test_a_clause_that_would_be_read_as_another_is_never_sent(text: str, pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema, 5)
    step = GhostAlter(table=table, columns=(column("c", "varchar(20)", text),), family=(table,), why="a test")
    driver = driver_for(site_for(pair.primary, table))
    outcome = driver.apply(step, Beats())
    assert outcome.result is Result.FAILED, outcome
    assert any("cannot be told" in line for line in driver.describe(step))
    as_before(pair, table)


def test_the_old_table_of_another_change_stops_it_and_is_kept(pair: Pair, schema: str) -> None:
    """B128: default: keep and list left-overs with age; drop only on an explicit command."""
    table = orders(pair.primary, schema, 5)
    script(pair.primary, "CREATE TABLE _orders_del (id INT PRIMARY KEY); INSERT INTO _orders_del VALUES (1)", schema)
    driver = driver_for(site_for(pair.primary, table, drop_old_table=True))
    outcome = driver.apply(wider(table), Beats())
    assert outcome.result is Result.FAILED, outcome
    assert "_orders_del" in outcome.note
    assert "since" in outcome.note
    assert "RENAME TABLE" in outcome.next
    driver.abandon(wider(table), Beats())
    assert set(beside(pair.primary, table)) == {"_orders_del"}


def test_somebody_elses_copy_is_left_alone(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema, 5)
    script(pair.primary, "CREATE TABLE _orders_gho (id INT); CREATE TABLE _orders_ghc (id INT)", schema)
    driver = driver_for(site_for(pair.primary, table))
    outcome = driver.apply(wider(table), Beats())
    assert outcome.result is Result.FAILED, outcome
    assert "somebody else" in outcome.note
    driver.abandon(wider(table), Beats())
    assert set(beside(pair.primary, table)) == {"_orders_gho", "_orders_ghc"}
    script(pair.primary, "ALTER TABLE _orders_ghc COMMENT = 'rollout:other-one 12ab'", schema)
    assert driver.apply(wider(table), Beats()).result is Result.FAILED
    assert set(beside(pair.primary, table)) == {"_orders_gho", "_orders_ghc"}


def test_a_flag_file_that_somebody_removes_ends_the_run_or_meets_a_finished_swap(pair: Pair, schema: str) -> None:
    """B129: it says schema, table and rollout; progress shows which flag is waited for; gone while we run, nothing is
    swapped behind our back unseen."""
    table = orders(pair.primary, schema)
    gone: list[str] = []

    def removes(progress: Progress) -> Signal:
        if not gone and ready(progress):
            for path in files():
                if path.name.startswith("postpone") and f"({path} holds it back)" in progress.note:
                    gone.append(path.name)
                    path.unlink()
        return GO

    with held(pair.primary, "BEGIN", f"SELECT a FROM {table} LIMIT 1"):
        outcome = driver_for(site_for(pair.primary, table)).apply(wider(table), Beats(removes))
    assert gone
    assert all(word in gone[0] for word in (schema, table.name, "ghost-test"))
    assert outcome.result is Result.FAILED, outcome
    assert "is gone" in outcome.note
    as_before(pair, table)


def test_ddl_by_somebody_else_while_it_copies_is_not_lost(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)
    changed: list[bool] = []

    def changes(progress: Progress) -> Signal:
        if not changed:
            changed.append(True)
            script(pair.primary, f"CREATE INDEX theirs ON {table} (note)")
        return GO

    outcome = driver_for(site_for(pair.primary, table)).apply(wider(table), Beats(changes))
    assert outcome.result is Result.FAILED, outcome
    assert "changed by somebody" in outcome.note
    as_before(pair, table)
    assert sql(pair.primary, f"SHOW INDEX FROM {table} WHERE Key_name = 'theirs'")


def test_the_plan_shows_the_whole_command_and_no_secret(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema, 5)
    why, about, command = driver_for(site_for(pair.primary, table)).describe(wider(table))
    assert "smallint to bigint copies the table" in why
    assert "1.1.10" in about
    for word in ("--postpone-cut-over-flag-file=", "--assume-rbr", "--panic-on-warnings", "--exact-rowcount"):
        assert word in command
    assert f"--throttle-control-replicas=127.0.0.1:{pair.replica.port}" in command
    assert "MODIFY COLUMN `small` bigint" in command
    for word in ("--revert", "--initially-drop", "--serve-tcp-port", "--attempt-instant-ddl", "--password"):
        assert word not in command
    assert files() == []


def test_an_attempt_that_meets_somebody_unseen_is_taken_back_and_made_again(
    pair: Pair, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B84: whoever takes the table between our look and gh-ost's lock costs the application no more than the budget."""
    table = orders(pair.primary, schema)
    let_go = StandIn.let_go
    with held(pair.primary) as session, session.cursor() as cursor:
        blocked: list[bool] = []

        def blocks(stand_in: StandIn) -> None:
            if not blocked:
                blocked.append(True)
                cursor.execute("BEGIN")
                cursor.execute(f"SELECT a FROM {table} LIMIT 1")
            let_go(stand_in)

        def goes(progress: Progress) -> Signal:
            if "ours to give" in progress.note:
                session.rollback()
            return GO

        monkeypatch.setattr(StandIn, "let_go", blocks)
        outcome = driver_for(site_for(pair.primary, table)).apply(wider(table), Beats(goes))
    assert blocked
    assert outcome.result is Result.DONE, outcome
    assert outcome.figures["cut_over_taken_back"] >= 1, outcome
    assert outcome.figures["longest_pending_s"] < STALLED_S, outcome
    done(pair, table)


def test_no_attempt_begins_before_our_word(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)
    with general_log(pair.primary):
        outcome = driver_for(site_for(pair.primary, table)).apply(wider(table), Beats())
        told = said(pair.primary)
    assert outcome.result is Result.DONE, outcome
    words = [t for t in told if t == "UNLOCK TABLES" or t.startswith("lock /* gh-ost */ tables")]
    locks = [i for i, w in enumerate(words) if w != "UNLOCK TABLES"]
    assert len(locks) == outcome.figures["cut_over_tries"]
    assert all(i and words[i - 1] == "UNLOCK TABLES" for i in locks), words
    done(pair, table)


def test_ddl_by_somebody_in_the_moment_of_the_swap_is_said_and_its_table_kept(
    pair: Pair, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody writes after it, so that gh-ost does not notice."""
    table = orders(pair.primary, schema)
    takes_up = GhostRun.takes_up
    changed: list[bool] = []

    def slips_in(run: GhostRun, after_s: float) -> float | None:
        if not changed:
            changed.append(True)
            script(pair.primary, f"ALTER TABLE {table} ADD COLUMN theirs INT DEFAULT 5, ADD KEY theirs_too (note)")
        return takes_up(run, after_s)

    monkeypatch.setattr(GhostRun, "takes_up", slips_in)
    # Not taken back: the next look would see what was changed.
    driver = driver_for(site_for(pair.primary, table, drop_old_table=True, stall_budget_s=10.0))
    outcome = driver.apply(wider(table), Beats())
    assert outcome.result is Result.FAILED, outcome
    assert "column theirs came; index theirs_too came" in outcome.note
    assert "_orders_del" in outcome.next
    done(pair, table)
    assert driver.observe(wider(table), Beats()) is Seen.PRESENT
    assert type_of(pair.primary, TableName(schema, "_orders_del"), "theirs") == "int"


def test_the_plan_says_what_becomes_of_documents(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema, 5)
    script(pair.primary, f"ALTER TABLE {table} ADD COLUMN doc JSON")
    assert "documents in doc" in driver_for(site_for(pair.primary, table)).describe(wider(table))[0]


def test_gh_ost_of_somebody_else_on_the_table_is_waited_for(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema, 5)
    with held(pair.primary, f"SELECT GET_LOCK('gh-ost::{table}', 0)"):
        outcome = driver_for(site_for(pair.primary, table)).apply(wider(table), Beats())
    assert outcome.result is Result.HELD, outcome
    assert "runs on" in outcome.note
    as_before(pair, table)


def test_files_are_ours_alone_and_hold_no_password(pair: Pair, schema: str, folder: Path) -> None:
    table = orders(pair.primary, schema)
    seen: dict[str, int] = {}
    texts: list[bytes] = []

    def looks(progress: Progress) -> Signal:
        for path in files():
            seen[path.name] = max(seen.get(path.name, 0), path.stat().st_mode & 0o077)
            if path.is_file():
                texts.append(path.read_bytes())
        return GO

    assert driver_for(site_for(pair.primary, table)).apply(wider(table), Beats(looks)).result is Result.DONE
    assert {"sock", "out", "err"} <= set(seen)
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    assert "conf" not in [p.name for p in files()]
    assert not any(b"password" in t.lower() and b"rollout-secret" in t for t in texts)
    assert Path(tempfile.gettempdir()) == folder


@pytest.mark.parametrize("name", ["we ird-%s", *(pytest.param(n, marks=pytest.mark.slow) for n in ("select", "größe"))])
def test_names_of_every_kind_go_through(name: str, pair: Pair, schema: str) -> None:
    """B97: quote everything; no % formatting over names."""
    plain = orders(pair.primary, schema, 20)
    sql(pair.primary, f"RENAME TABLE {plain} TO `{schema}`.`{name}`")
    table = TableName(schema, name)
    outcome = driver_for(site_for(pair.primary, table)).apply(wider(table), Beats())
    assert outcome.result is Result.DONE, outcome
    assert type_of(pair.primary, table, "small") == "bigint"
    assert set(beside(pair.primary, table)) == {f"_{name}_del"}
    assert files() == []


def test_a_server_with_other_quotes_by_default_gets_the_same_change(pair: Pair, schema: str) -> None:
    """B100: ANSI_QUOTES, PIPES_AS_CONCAT, NO_BACKSLASH_ESCAPES as server default."""
    table = orders(pair.primary, schema, 20)
    before = sql(pair.primary, "SELECT @@GLOBAL.sql_mode")[0][0]
    script(pair.primary, f"SET GLOBAL sql_mode = '{before},ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'")
    step = GhostAlter(
        table=table, columns=(column("c", "varchar(20)", 'it\'s || "so"'),), family=(table,), why="a test"
    )
    try:
        outcome = driver_for(site_for(pair.primary, table)).apply(step, Beats())
    finally:
        script(pair.primary, f"SET GLOBAL sql_mode = '{before}'")
    assert outcome.result is Result.DONE, outcome
    assert sql(pair.primary, f"SELECT DISTINCT c FROM {table}") == [('it\'s || "so"',)]
