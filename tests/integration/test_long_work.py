"""Work that takes longer than a holder may be silent, on real servers: the lease stays ours, or nothing is done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.drivers.ddl import leftovers
from orchestrator.drivers.ddl.ghost.tool import GhostTool
from orchestrator.drivers.ddl.leftovers import Leftovers
from orchestrator.drivers.shadow import TriggerDriver
from orchestrator.errors import Fenced
from orchestrator.model.contract import Contract, Mapping, TableName, ValueMap
from orchestrator.model.copying import CopyChange
from orchestrator.model.facts import Need
from orchestrator.model.outcome import GO, Progress, Result, Signal, SignalKind
from orchestrator.model.state import State
from orchestrator.model.step import InstallTrigger
from orchestrator.mysql import scan
from orchestrator.mysql.keyset import BatchSize, stretches
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.site import Site
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from orchestrator.store import place
from tests.support.ddl import Beats, column, held, plain_table, site_on
from tests.support.ghost import BUILT, orders, site_for
from tests.support.servers import script, sql
from tests.support.small import Small, small
from tests.support.within import opened

SHORT = place.LeaseTimes(silence_s=3.0)


def fenced(progress: Progress) -> Signal:
    raise Fenced("the lease was lost", "a lease that is ours", "rollout status")


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


def row_by_row(monkeypatch: pytest.MonkeyPatch, each_s: float) -> None:
    """Scans of the observer take so long for each row."""

    def slowly(reader: Any, span: Any, size: Any, patience: Any) -> Iterator[Any]:
        for found in stretches(reader, span, BatchSize.start(scan.TARGET_S, 1), patience):
            time.sleep(each_s)
            yield found

    monkeypatch.setattr(scan, "stretches", slowly)


def test_a_meter_that_is_scanned_for_longer_than_the_silence_keeps_the_lease(
    here: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        for phase in ("ddl", "backfill", "shadow-write"):
            app.commands.next(phase)
    monkeypatch.setattr(place, "LeaseTimes", lambda: SHORT)
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        row_by_row(monkeypatch, SHORT.silence_s / 3)
        app.commands.rollback("", ())
        record = app.store.load(app.parts.runbook.id)
    assert record is not None
    assert record.state is State.ROLLED_BACK
    assert here.seen()["triggers"] == []


def test_a_scan_asks_whether_it_goes_on_and_whoever_is_asked_may_look(
    here: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checks are judged by the same observer. A lease that was lost is no reading that could not be had."""
    script(here.pair.primary, f"ALTER TABLE {here.table} ADD COLUMN state VARCHAR(32)")
    row_by_row(monkeypatch, 0.0)
    with opened(load(here.terminal.runbook), here.pair.primary) as app, closing(MysqlObserver(app.site)) as observer:
        told: list[int] = []

        def looks(progress: Progress) -> bool:
            facts = observer.look(frozenset({Need.SHAPE, Need.LOAD}))
            assert facts.shape is not None
            assert facts.shape.seen
            told.append(progress.done)
            return True

        meter = frozenset({Need.METER, Need.SHAPE})
        whole = observer.look(meter, looks)
        assert whole.meter is not None
        assert whole.meter.value is not None
        assert told == [1, 2, 3]
        stopped = observer.look(meter, lambda progress: progress.done < 2).meter
        assert stopped is not None
        assert stopped.unseen.endswith("was stopped after 2 rows")
        with pytest.raises(Fenced):
            observer.look(meter, fenced)  # type: ignore[arg-type]  # it never answers


def test_a_trigger_is_abandoned_under_beats_and_by_nobody_whose_lease_is_lost(primary: Server, schema: str) -> None:
    """Behind a transaction that holds the table: somebody who took over meanwhile may count on that trigger."""
    table = plain_table(primary, schema)
    script(primary, "ALTER TABLE t ADD COLUMN state VARCHAR(20) NULL", schema)
    maps = Mapping("state", "b", ValueMap((("x", "new"),)), ValueMap((("new", "x"),)))
    contract = Contract(table, (column("state", "varchar(20)"),), mappings=(maps,))
    driver = TriggerDriver(site_on(primary, contract, max_wait_s=1.5))
    update = InstallTrigger(table=table, event="update", family=(table,))
    assert driver.apply(update, Beats()).result is Result.DONE
    standing = "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s"
    with held(primary, "BEGIN", f"SELECT * FROM {table}"):
        beats = Beats()
        assert driver.abandon(update, beats).result is Result.HELD
    assert len(beats.heard) >= 2
    assert beats.longest_silence_s < 1.0
    with pytest.raises(Fenced):
        driver.abandon(update, Beats(lambda p: fenced(p) if "about to ask" in p.note else GO))
    assert sql(primary, standing, (schema,)) == [(1,)]
    assert driver.abandon(update, Beats(lambda p: Signal(SignalKind.GO))).result is Result.DONE
    assert sql(primary, standing, (schema,)) == [(0,)]


def old_table(site: Site, table: TableName, beats: Beats) -> Leftovers:
    change = CopyChange(
        rollout=site.runbook.id,
        table=table,
        alter="",
        host="127.0.0.1",
        port=site.settings.port,
        server_version=(9, 0, 0),
        replicas=(),
        gtid=True,
        encrypted=False,
        chunk_rows=100,
        max_lag_s=1.0,
        threads_running=10,
    )
    return Leftovers(site, GhostTool(site.settings, site.clock, BUILT), site.connect("look"), change, beats)


@pytest.mark.parametrize("kind", [None, SignalKind.PAUSE, SignalKind.STOP])
def test_an_old_table_is_emptied_under_beats_that_hold_it_back_and_end_it(
    primary: Server, schema: str, kind: SignalKind | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_SMALL_BYTES", 0)
    monkeypatch.setattr(leftovers, "_SHRINK_ROWS", 50)
    table = orders(primary, schema, 500)
    old = TableName(schema, f"_{table.name}_del")
    script(primary, f"CREATE TABLE {old} LIKE {table}; INSERT INTO {old} SELECT * FROM {table}; ANALYZE TABLE {old}")
    counts: list[int] = []

    def says(progress: Progress) -> Signal:
        if "empties" not in progress.note:
            return GO
        counts.append(sql(primary, f"SELECT COUNT(*) FROM {old}")[0][0])
        if len(counts) in (3, 4):
            return Signal(SignalKind.HOLD, "replication-lag 9 s")
        return Signal(kind, "asked for by kim") if kind is not None and len(counts) > 4 else GO

    beats = Beats(says)
    told = old_table(site_for(primary, table), table, beats).tidy(drop_old=True)
    assert counts[:5] == [500, 450, 400, 400, 400], "nothing is deleted while a check holds"
    assert all(p.total >= p.done for p in beats.heard)
    tables = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s ORDER BY 1"
    left = sql(primary, tables, (schema,))
    if kind is None:
        assert told == f"the old table {old} is gone"
        assert left == [(table.name,)]
    else:
        assert told.startswith(f"the old table {old} stays, partly emptied (asked for by kim)")
        assert "DROP TABLE" in told
        assert counts[-1] == 400
        assert left == [(old.name,), (table.name,)]
