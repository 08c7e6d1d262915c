"""The first ranges of a backfill are a sample: what fills wrongly stops there."""

from __future__ import annotations

from contextlib import closing

import pytest

from orchestrator.drivers.rows import FillDriver
from orchestrator.model.contract import TableName
from orchestrator.model.keys import Key
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Signal, SignalKind
from orchestrator.mysql.keyset import Reader
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.bounds import Span
from orchestrator.mysql.sql.rows import counts
from orchestrator.sandbox.server import Server
from tests.support.keys import KINDS
from tests.support.orders import fill, make_orders, site
from tests.support.rows import VISIT, ToldBeat, begin_rollout, reader_of
from tests.support.servers import script, sql
from tests.support.state import settings_of


@pytest.fixture
def orders(primary: Server, schema: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A thousand orders, which is large enough here."""
    monkeypatch.setattr("orchestrator.drivers.rows.canary.LEAST_ROWS", 500)
    monkeypatch.setattr("orchestrator.drivers.rows.canary.ROWS_A_PLACE", 10)
    make_orders(primary, schema, 1000)
    sql(primary, f"ANALYZE TABLE {schema}.orders")
    begin_rollout(primary)
    return schema


def run(server: Server, schema: str, beat: ToldBeat | None = None) -> Outcome:
    return FillDriver(site(server, schema)).apply(fill(schema), beat or ToldBeat())


def filled(server: Server, schema: str) -> list[int]:
    return [int(id) for (id,) in sql(server, f"SELECT id FROM {schema}.orders WHERE state IS NOT NULL ORDER BY id")]


def test_the_sample_is_spread_over_the_keys_proven_and_timed(primary: Server, orders: str) -> None:
    after: list[list[int]] = []

    def look(beats: int, progress: Progress) -> Signal:
        if progress.note == "backfill" and not after:
            after.append(filled(primary, orders))
        return GO

    outcome = run(primary, orders, ToldBeat(answer=look))
    assert outcome.result is Result.DONE
    assert len(after[0]) == 80
    assert min(after[0]) < 150
    assert max(after[0]) > 850
    assert "canary: 80 rows in 8 places, " in outcome.note
    assert outcome.figures["rows_done"] == 1000
    assert outcome.figures["rows_changed"] == 920, "the pass finds them right"
    assert len(filled(primary, orders)) == 1000


def test_a_row_that_does_not_hold_what_it_was_given_stops_the_backfill_there(primary: Server, orders: str) -> None:
    script(
        primary,
        "CREATE TRIGGER meddles BEFORE UPDATE ON orders FOR EACH ROW"
        " SET NEW.state = IF(NEW.status = 'done', 'pending', NEW.state)",
        orders,
    )
    outcome = run(primary, orders)
    assert outcome.result is Result.FAILED
    assert "rows of the canary do not hold what they were given" in outcome.note
    assert outcome.evidence[0][0] == "canary"
    assert len(filled(primary, orders)) <= 80
    assert sql(primary, "SELECT COUNT(*) FROM _rollout.position WHERE pass = 'backfill'") == [(0,)]
    script(primary, "DROP TRIGGER meddles", orders)
    assert run(primary, orders).result is Result.DONE
    assert sql(primary, f"SELECT COUNT(*) FROM {orders}.orders WHERE status = 'done' AND state <> 'succeeded'") == [
        (0,)
    ]


def test_what_the_application_writes_meanwhile_is_no_mismatch(primary: Server, orders: str) -> None:
    def write(beats: int, progress: Progress) -> Signal:
        if progress.note == "canary":
            sql(primary, f"UPDATE {orders}.orders SET status = 'err', state = NULL WHERE state IS NOT NULL LIMIT 3")
        return GO

    assert run(primary, orders, ToldBeat(answer=write)).result is Result.DONE


def test_a_canary_that_was_cut_short_goes_on(primary: Server, orders: str) -> None:
    for _ in range(4):
        paused = run(primary, orders, ToldBeat(answer=lambda n, _: GO if n < 3 else Signal(SignalKind.PAUSE)))
        assert paused.result is Result.PAUSED
    assert run(primary, orders).result is Result.DONE
    assert len(filled(primary, orders)) == 1000


@pytest.mark.parametrize("name", KINDS)
def test_places_between_two_keys_can_be_asked_for_in_every_kind_of_key(primary: Server, schema: str, name: str) -> None:
    rows = KINDS[name].make(primary, f"{schema}.t")
    with closing(Session(settings_of(primary))) as session:
        reader = reader_of(session, TableName(schema, "t"), VISIT.counted)
        first, last = reader.ends()
        assert first is not None
        assert last is not None
        for key in reader.spread(first, last, 8):
            behind = session.query(f"EXPLAIN FORMAT=TREE {_behind(reader, key)}")[0][0]
            assert "Table scan" not in behind, "the index serves it"
            assert 0 <= int(session.value(_behind(reader, key))) <= rows


def _behind(reader: Reader, key: Key) -> str:
    return counts(reader.space, Span(key), ())
