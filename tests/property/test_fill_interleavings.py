"""Whatever the application does between batches, in whatever sizes these come: the backfill and one sweep leave every
row right, and no row that nobody touched was written twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.drivers.rows import FillDriver
from orchestrator.drivers.rows.gathering import Gathering
from orchestrator.drivers.rows.passes import FillPass, Halt
from orchestrator.model.contract import Column, Contract, Expression, Mapping, TableName
from orchestrator.model.outcome import GO, Progress, Result, Signal, SignalKind
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import Fill
from orchestrator.model.types import parse_type
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.filling import FillRule
from orchestrator.mysql.keyset import BatchSize
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.packets import Write
from orchestrator.mysql.sql.positions import PassName
from orchestrator.sandbox.server import Server
from tests.support.keys import KINDS
from tests.support.rows import ROLLOUT, ToldBeat, begin_rollout, paused_after, reader_of, work_over
from tests.support.servers import script, sql
from tests.support.state import settings_of

TABLE = TableName("walked", "t")
FEWER = max(6, settings().max_examples // 10)
IDS = st.integers(-3, 40)
# What an application does to a row, or to the row of another key; it never writes the new column.
SAID = {
    "update": "UPDATE IGNORE walked.t SET v = v + 10 WHERE id = {a}",
    "insert": "INSERT IGNORE INTO walked.t (id, v) VALUES ({a}, {b})",
    "delete": "DELETE FROM walked.t WHERE id = {a}",
    "move": "UPDATE IGNORE walked.t SET id = {b} WHERE id = {a}",
}
SPEECH = st.tuples(st.sampled_from(sorted(SAID)), IDS, IDS)


@pytest.fixture(scope="module")
def walked(primary: Server) -> Iterator[Server]:
    script(primary, "DROP DATABASE IF EXISTS walked; CREATE DATABASE walked DEFAULT CHARACTER SET utf8mb4")
    begin_rollout(primary)
    yield primary
    script(primary, "DROP DATABASE IF EXISTS walked; DROP DATABASE IF EXISTS _rollout")


def site_of(server: Server) -> Site:
    mapping = Mapping("v_n", None, Expression("v + 1"), follows=True)
    contract = Contract(TABLE, (Column("v_n", parse_type("int")),), mappings=(mapping,))
    return Site(settings_of(server), Runbook(ROLLOUT, contract, "", "", ""), SystemClock())


def made(server: Server, ids: set[int]) -> None:
    """Rows with ``w``, which counts how often the tool wrote them: it is the only one that writes ``v_n``."""
    rows = "".join(f" INSERT INTO walked.t (id, v) VALUES ({id}, {id});" for id in sorted(ids))
    script(
        server,
        "DELETE FROM _rollout.position; DROP TABLE IF EXISTS walked.t;"
        "CREATE TABLE walked.t (id INT PRIMARY KEY, v INT NOT NULL, v_n INT NULL, w INT NOT NULL DEFAULT 0);"
        f"{rows} CREATE TRIGGER walked.counts BEFORE UPDATE ON walked.t FOR EACH ROW"
        " SET NEW.w = OLD.w + IF(OLD.v_n <=> NEW.v_n, 0, 1)",
    )


@given(
    ids=st.sets(IDS, max_size=25),
    speeches=st.lists(st.lists(SPEECH, max_size=4), max_size=12),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    paused=st.booleans(),
)
@settings(max_examples=FEWER, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_said_between_batches_one_sweep_makes_every_row_right(
    walked: Server, ids: set[int], speeches: list[list[tuple[str, int, int]]], sizes: list[int], paused: bool
) -> None:
    made(walked, ids)
    touched: set[int] = set()
    left = iter(speeches)

    def speaks(beats: int, _: Progress) -> Signal:
        for kind, a, b in next(left, []):
            touched.update((a, b))
            sql(walked, SAID[kind].format(a=a, b=b))
        return GO if not paused or beats < 3 else Signal(SignalKind.PAUSE)

    for turn in range(60):
        size = sizes[turn % len(sizes)]
        step = Fill(table=TABLE, walk=1, pass_name="backfill", target_time_s=60.0, max_batch_rows=size)
        outcome = FillDriver(site_of(walked)).apply(step, ToldBeat(answer=speaks))
        if outcome.result is Result.DONE:
            break
    assert outcome.result is Result.DONE
    step = Fill(table=TABLE, walk=1, pass_name="sweep", target_time_s=60.0, max_batch_rows=sizes[0])
    assert FillDriver(site_of(walked)).apply(step, ToldBeat()).result is Result.DONE
    assert sql(walked, "SELECT id, v, v_n FROM walked.t WHERE NOT v_n <=> v + 1") == []
    assert {w for id, w in sql(walked, "SELECT id, w FROM walked.t") if id not in touched} <= {1}


PENDING = FillRule(Write("t.v = 0", "s.v = 0", (("v", "t.v + 1"),), ()), "0", "t.v = 0", (), "", "")


@pytest.mark.parametrize("name", KINDS)
@given(seed=st.integers(0, 2**32), drawn=st.data())
@settings(max_examples=max(3, FEWER // 3), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_sweep_writes_each_row_that_is_pending_once_and_no_other(
    name: str, walked: Server, seed: int, drawn: st.DataObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few or many they are, whatever the key, and wherever it is stopped. What is not a key comes from a seed:
    the simplest draw of all of it would never come to where keys are cut."""
    draw, kind, gathering = Random(seed), KINDS[name], "orchestrator.drivers.rows.gathering"
    monkeypatch.setattr(f"{gathering}._TELLING_ROWS", draw.choice([0, 50, 50]))
    monkeypatch.setattr(f"{gathering}._MOST_KEYS", draw.randint(1, 4))
    monkeypatch.setattr(f"{gathering}._MOST_KEY_BYTES", draw.choice([1, 99_999]))
    monkeypatch.setattr("orchestrator.mysql.keyset.FIRST_ROWS", draw.randint(1, 9))
    sql(walked, "DELETE FROM _rollout.position")
    keys = [*kind.wrapped, *drawn.draw(st.lists(kind.key, max_size=15))]
    rows = kind.make(walked, "walked.t", draw.sample(keys, len(keys)))
    right = draw.randint(0, rows)
    sql(walked, f"UPDATE walked.t SET v = 1 ORDER BY RAND({draw.randint(0, 99)}) LIMIT {right}")
    of, cut = PassName("_rollout", ROLLOUT, 1, "sweep-1"), draw.randint(1, 6)
    size = BatchSize(1000.0, 4, 4)
    for turn in range(200):
        beat = ToldBeat(answer=paused_after(cut) if turn < 150 else None)
        with closing(Session(settings_of(walked))) as session:
            reader = reader_of(session, TABLE, PENDING.counted)
            run = FillPass(work_over(reader, beat, PENDING), of, size, Gathering(reader, PENDING, size, lambda: 0.0))
            try:
                position = run.run()
                break
            except Halt:
                continue
    assert sql(walked, "SELECT COALESCE(MIN(v), 1), COALESCE(MAX(v), 1) FROM walked.t") == [(1, 1)]
    assert (position.rows_done, position.rows_changed, position.rows_skipped) == (rows, rows - right, 0)
    assert turn < 150, "each command gets on"
