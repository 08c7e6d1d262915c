"""The applications' own double writes as the mirror, on a real server: who obeys, who does not, and what is seen."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pymysql
import pytest

from orchestrator.app.watch import open_watch
from orchestrator.app.wiring import App
from orchestrator.cli.render_past import status_words
from orchestrator.errors import Held, PhaseFailed
from orchestrator.model.facts import Need, OldStatement
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.template import ROOT
from tests.support.servers import connect, script, wait_for
from tests.support.small import Small, small
from tests.support.within import FORWARD, opened

BY_FLAG = ("shadow_write: {soak: 200ms}", "shadow_write: {driver: flag, soak: 500ms}")
DROP = ("rollback: {quiet: 200ms}", "rollback: {quiet: 200ms, ddl: drop}")
QUESTION = (
    "SELECT IF(expires_at > UTC_TIMESTAMP(6), new_writes, 0), double_writes FROM _rollout.flag"
    " WHERE rollout = 'orders-state'"
)
PROOF_BEGUN = "SELECT COUNT(*) FROM _rollout.progress WHERE body LIKE '%double writes%'"
BOTH = "UPDATE orders SET status = 'done', state = 'succeeded' WHERE id = 2"
OLD = "UPDATE orders SET status = 'done' WHERE id = 2"
NEW = "UPDATE orders SET state = 'succeeded' WHERE id = 2"


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        made.write(BY_FLAG, DROP)
        # Other tests spoke of tables of this name.
        script(pair.primary, "TRUNCATE performance_schema.events_statements_summary_by_digest")
        yield made


@pytest.fixture
def app(here: Small) -> Iterator[App]:
    with opened(load(here.terminal.runbook), here.pair.primary) as opened_app:
        yield opened_app


class Writer:
    """An application of one statement, said all the time. ``obeys``: as the flag says, else always ``text``."""

    def __init__(self, here: Small, text: str = "", *, obeys: bool = False) -> None:
        self._here, self._text, self._obeys = here, text, obeys
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.said: list[str] = []
        self.errors: list[str] = []

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(connect(self._here.pair.primary, ROOT, self._here.schema)) as session:
            while not self._stop.wait(0.05):
                with session.cursor() as cursor:
                    try:
                        text = self._asked(cursor) if self._obeys else self._text
                        cursor.execute(text)
                        self.said.append(text)
                    except pymysql.err.MySQLError as error:
                        self.errors.append(str(error))

    def _asked(self, cursor: pymysql.cursors.Cursor) -> str:
        try:
            cursor.execute(QUESTION)
            new_writes, both = cursor.fetchone() or (0, 0)
        except pymysql.err.MySQLError:
            return OLD  # nothing was installed yet
        return BOTH if both else NEW if new_writes else OLD


def go(app: App, phases: Sequence[str]) -> None:
    for phase in phases:
        app.commands.next(phase)


def old_statements(app: App) -> Sequence[OldStatement]:
    reading = app.observer.look(frozenset({Need.READERS})).readers
    assert reading is not None, "nobody looked"
    assert reading.value is not None, reading.unseen
    return reading.value


def test_who_obeys_is_walked_there_and_back_and_there_and_to_the_end(here: Small, app: App) -> None:
    """No trigger is made, nobody gets an error (also not when the column goes), and the end comes without vouching."""
    with Writer(here, obeys=True) as writer:
        go(app, FORWARD)
        assert here.sql("SELECT double_writes, read_percent FROM _rollout.flag") == [(1, 100)]
        assert here.seen()["triggers"] == []
        with closing(open_watch(app.parts.runbook, app.site.settings)) as watch:
            words = status_words(watch.status())
        assert words["old_readers"] == [], "who stores both columns needs none of them"
        app.commands.rollback("", ())
        assert here.sql("SELECT double_writes, read_percent, new_writes FROM _rollout.flag") == [(0, 0, 0)]
        assert [row[0] for row in here.sql(f"SHOW COLUMNS FROM {here.table} LIKE 'state'")] == []
        go(app, FORWARD)
        app.commands.finish(False, ())
        wait_for(lambda: writer.said[-1] == NEW, 5, "the application hears that it may leave the old column")
    assert writer.errors == []
    assert BOTH in writer.said
    assert here.sql("SELECT double_writes, new_writes, read_percent FROM _rollout.flag") == [(0, 1, 100)]


def test_b59_a_writer_that_never_got_the_flag_is_named_before_it_does_harm(here: Small, app: App) -> None:
    """B59: its rows still correspond, so only its statement shows it. The stage waits, and goes on when it is gone."""
    go(app, FORWARD[:2])
    with Writer(here, "UPDATE orders SET status = 'done' WHERE id = 3"), pytest.raises(Held) as held:
        app.commands.next("shadow-write")
    assert "UPDATE `orders` SET STATUS = ? WHERE `id` = ? stores status without state (last seen" in held.value.seen
    with Writer(here, BOTH):
        app.commands.next("shadow-write")
    assert app.planner.present().done[-1] == "shadow-write"


def test_b59_rows_of_such_a_writer_stop_the_stage_and_are_swept_by_the_next_try(here: Small, app: App) -> None:
    """B59, where it does harm: found with its keys and its statement, and never taken for proven."""
    go(app, FORWARD[:2])
    stray = "UPDATE orders SET status = 'new' WHERE id = 3"
    longer = load(here.write((BY_FLAG[0], BY_FLAG[1].replace("500ms", "30s"))))
    stopped = pytest.raises(PhaseFailed)
    with opened(longer, here.pair.primary) as patient, once(here, PROOF_BEGUN, stray), stopped as failed:
        patient.commands.next("shadow-write")
    assert "rows are wrong: stale status ↔ state: 1 (key 3)" in failed.value.seen
    assert "stores status without state" in failed.value.seen
    app.commands.next("shadow-write")
    assert here.sql(f"SELECT state FROM {here.table} WHERE id = 3") == [("pending",)]


def test_b59_rows_that_went_apart_after_the_proof_keep_readers_where_they_are(here: Small, app: App) -> None:
    """B59, the read switch: a comparison of before is not believed, every row is compared again."""
    go(app, FORWARD[:3])
    here.sql(f"UPDATE {here.table} SET status = 'new' WHERE id = 3")
    with pytest.raises(PhaseFailed, match=r"status ↔ state: 1 \(key 3\)"):
        app.commands.next("read-switch")
    assert here.sql("SELECT new_writes, read_percent FROM _rollout.flag") == [(0, 0)]


def test_where_statements_are_not_remembered_nothing_is_proven(here: Small, app: App) -> None:
    go(app, FORWARD[:2])
    consumer = "UPDATE performance_schema.setup_consumers SET ENABLED = '{}' WHERE NAME = 'statements_digest'"
    script(here.pair.primary, consumer.format("NO"))
    try:
        with pytest.raises(Held, match="keeps no statement digests"):
            app.commands.next("shadow-write")
    finally:
        script(here.pair.primary, consumer.format("YES"))


def test_a_flag_that_somebody_lowers_in_the_ramp_takes_readers_back_and_is_raised_again(here: Small, app: App) -> None:
    go(app, FORWARD[:3])
    moved, lower = "SELECT read_percent = 50 FROM _rollout.flag", "UPDATE _rollout.flag SET double_writes = 0"
    with once(here, moved, lower), pytest.raises(PhaseFailed, match="double writes missing"):
        app.commands.next("read-switch")
    assert here.sql("SELECT new_writes, read_percent FROM _rollout.flag") == [(0, 0)]
    assert app.planner.present().done == ("ddl", "backfill")
    go(app, FORWARD[2:4])
    assert here.sql("SELECT double_writes, read_percent FROM _rollout.flag") == [(1, 100)]


def test_who_still_needs_old_columns_is_told_with_when_how_often_and_by_whom(here: Small) -> None:
    """What finish calls quiet is how far it looks back. Our own walks over the table are nobody's need."""
    here.write(BY_FLAG, DROP, ("finish: {quiet: 200ms}", "finish: {quiet: 10m}"))
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        go(app, FORWARD[:4])
        assert old_statements(app) == ()
        with closing(connect(here.pair.primary, ROOT, here.schema)) as session, session.cursor() as cursor:
            old = "SELECT status FROM orders WHERE id = 1"
            for text in (old, "SELECT state FROM orders", "SELECT * FROM orders", BOTH):
                cursor.execute(text)
                cursor.execute(text)
            every, named = sorted(old_statements(app), key=lambda s: s.text)
    assert (named.text, named.reads, named.count) == ("SELECT STATUS FROM `orders` WHERE `id` = ?", ("status",), 2)
    assert [who.partition("@")[0] for who in named.by] == [ROOT.user]
    assert 0 <= named.age_s < 60
    assert (every.every, every.reads) == (True, ())
    shown = here.terminal.run("status").out
    assert "old columns: named by 2 kinds of statements (sampled):" in shown
    assert "2 times: reads status: SELECT STATUS FROM `orders` WHERE `id` = ?" in shown


@contextmanager
def once(here: Small, question: str, text: str) -> Iterator[None]:
    """Say the text, once, when the question's answer is not 0."""

    def say() -> None:
        wait_for(lambda: (rows := here.sql(question)) and rows[0][0], 20, question)
        script(here.pair.primary, text, here.schema)

    thread = threading.Thread(target=say, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
