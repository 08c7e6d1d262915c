"""Every driver of the mirror keeps the same promises: triggers of ours, and the flag for the applications' own double
writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.drivers.shadow import FlagMirrorDriver, TriggerDriver
from orchestrator.model.contract import Contract, Mapping, TableName, ValueMap
from orchestrator.model.facts import MirrorFacts, Need
from orchestrator.model.outcome import Progress, Result, Seen, Signal, SignalKind
from orchestrator.model.runbook import ShadowDriver
from orchestrator.model.step import InstallTrigger, RaiseDoubleWrites, RemoveMirror, Step
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.flags import MysqlFlags
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.mirror import trigger_name
from orchestrator.ports import Driver
from orchestrator.sandbox.server import Server
from orchestrator.store.mysql import MysqlStore
from tests.support.ddl import Beats, column, plain_table, site_on
from tests.support.log import apart, as_run, general_log, said
from tests.support.servers import script
from tests.support.state import begin, settings_of, state_schema

ID = "orders-state"
pytestmark = pytest.mark.integration


@dataclass
class Mirror:
    """A driver, the steps that put its mirror up, the one that takes it down, and how somebody else breaks it."""

    driver: Driver[Any]
    up: Sequence[Step]
    down: RemoveMirror
    look: Callable[[], MirrorFacts]
    lose: Callable[[], None]
    server: Server

    def raised(self) -> None:
        for step in self.up:
            outcome = self.driver.apply(step, Beats())
            assert outcome.result is Result.DONE, outcome

    def seen(self) -> list[Seen]:
        return [self.driver.observe(step, Beats()) for step in (*self.up, self.down)]


@pytest.fixture(params=["triggers", "flag"])
def mirror(request: pytest.FixtureRequest, primary: Server, schema: str) -> Iterator[Mirror]:
    kind: ShadowDriver = request.param
    table = plain_table(primary, schema)
    script(primary, "ALTER TABLE t ADD COLUMN state VARCHAR(20) NULL", schema)
    forward, backward = ValueMap((("x", "new"), ("y", "done"))), ValueMap((("new", "x"), ("done", "y")))
    contract = Contract(table, (column("state", "varchar(20)"),), mappings=(Mapping("state", "b", forward, backward),))
    with state_schema(primary) as state:
        bare = site_on(primary, contract, id=ID)
        runbook = replace(bare.runbook, phases=replace(bare.runbook.phases, shadow=kind))
        site = replace(bare, runbook=runbook, settings=settings_of(primary, state))
        with closing(MysqlStore(site.settings, SystemClock())) as store, closing(_flags(site)) as flags:
            store.install()
            store.create(*begin(ID))
            with store.lease(ID, "kim"), closing(MysqlObserver(site)) as observer:
                yield _mirror(site, flags, observer, table, primary)


def _flags(site: Site) -> MysqlFlags:
    return MysqlFlags(site.settings, ID, site.clock)


def _mirror(site: Site, flags: MysqlFlags, observer: MysqlObserver, table: TableName, server: Server) -> Mirror:
    def look() -> MirrorFacts:
        reading = observer.look(frozenset({Need.MIRROR})).mirror
        assert reading is not None, "nobody looked"
        assert reading.value is not None, reading.unseen
        return reading.value

    kind = site.runbook.phases.shadow
    down = RemoveMirror(table=table, accepted=(), family=(table,), driver=kind)
    if kind == "flag":
        lower = f"UPDATE {site.settings.state_schema}.flag SET double_writes = 0"
        up: tuple[Step, ...] = (RaiseDoubleWrites(table=table),)
        return Mirror(FlagMirrorDriver(site, flags), up, down, look, lambda: script(server, lower), server)
    up = tuple(InstallTrigger(table=table, event=event, family=(table,)) for event in ("update", "insert"))
    drop = f"DROP TRIGGER {table.schema}.`{trigger_name(ID, 'insert')}`"
    return Mirror(TriggerDriver(site), up, down, look, lambda: script(server, drop), server)


def test_it_stands_when_its_steps_are_done_and_is_gone_when_it_was_taken_down(mirror: Mirror) -> None:
    ups = len(mirror.up)
    assert mirror.seen() == [*[Seen.ABSENT] * ups, Seen.PRESENT]
    assert (mirror.look().stands, mirror.look().intact) == (False, False)
    mirror.raised()
    assert mirror.seen() == [*[Seen.PRESENT] * ups, Seen.ABSENT]
    assert (mirror.look().stands, mirror.look().intact) == (True, True)
    assert mirror.driver.apply(mirror.down, Beats()).result is Result.DONE
    assert mirror.seen() == [*[Seen.ABSENT] * ups, Seen.PRESENT]
    assert (mirror.look().stands, mirror.look().missing) == (False, tuple(part for part, _ in mirror.look().parts))


def test_what_stands_or_is_gone_already_is_said_and_not_done_again(mirror: Mirror) -> None:
    assert mirror.driver.apply(mirror.down, Beats()).note == "was there already"
    mirror.raised()
    with general_log(mirror.server):
        assert {mirror.driver.apply(step, Beats()).note for step in mirror.up} == {"was there already"}
        changes = [s for s in said(mirror.server) if s.startswith(("CREATE", "DROP", "UPDATE", "INSERT"))]
    # The lease is kept alive meanwhile.
    assert [s for s in changes if "`lease`" not in s and "`heartbeat`" not in s] == []


def test_a_part_that_somebody_else_took_away_is_seen_and_goes_up_again(mirror: Mirror) -> None:
    mirror.raised()
    mirror.lose()
    assert not mirror.look().intact
    assert mirror.driver.observe(mirror.up[-1], Beats()) is Seen.ABSENT
    mirror.raised()
    assert mirror.look().intact


def test_what_is_shown_is_what_runs(mirror: Mirror) -> None:
    for step in (*mirror.up, mirror.down):
        shown = [s for text in mirror.driver.describe(step) for s in apart(text)]
        with general_log(mirror.server):
            assert mirror.driver.apply(step, Beats()).result is Result.DONE
            ran = said(mirror.server)
        assert [text for text in shown if not any(as_run(text).fullmatch(r.rstrip(";")) for r in ran)] == []


def test_abandoning_a_step_that_puts_it_up_leaves_nothing_of_that_step(mirror: Mirror) -> None:
    mirror.raised()
    assert mirror.driver.abandon(mirror.up[-1], Beats()).result is Result.DONE
    assert mirror.driver.observe(mirror.up[-1], Beats()) is Seen.ABSENT
    mirror.raised()
    mirror.driver.abandon(mirror.down, Beats())
    assert mirror.look().intact, "a mirror that was coming down is left as it is"


def test_who_is_told_to_stop_before_it_began_changes_nothing(mirror: Mirror) -> None:
    def pause(_: Progress) -> Signal:
        return Signal(SignalKind.PAUSE, "somebody asked")

    for step in mirror.up:
        assert mirror.driver.apply(step, Beats(pause)).result is Result.PAUSED
    assert not mirror.look().stands
    mirror.raised()
    assert mirror.driver.apply(mirror.down, Beats(pause)).result is Result.PAUSED
    assert mirror.look().intact
