"""Whoever holds the table, nobody in the application waits for us longer than the stall budget."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import pymysql
import pytest
from msgspec.structs import replace
from pymysql.connections import Connection
from pymysql.constants import CR, ER
from pymysql.cursors import Cursor

from orchestrator.errors import Fenced, PrivilegeMissing, ServerUnreachable
from orchestrator.model.contract import Contract, TableName
from orchestrator.model.facts import BlockerKind, Reading, ReplicaFacts
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Signal, SignalKind
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.guard import Build, Exclusive, Guard, take_back
from orchestrator.mysql.locks import blindness, find_tagged, read_holders
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from orchestrator.settings import Secret
from tests.support.ddl import Application, Beats, columns_of, held, later, plain_table, site_on
from tests.support.servers import connect, script, sql, wait_caught_up, wait_for

BUDGET_S = 0.25
# What a busy machine adds to a figure of ours, and to one that the application measured.
NOISE_S = 0.25
LOOSE_S = 0.9
# How a statement ends that somebody took away: interrupted, or with its connection.
KILLED = {ER.QUERY_INTERRUPTED, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST}
Blocker = Callable[[Server, TableName], AbstractContextManager[object]]


def holding(*statements: str) -> Blocker:
    def block(server: Server, table: TableName) -> AbstractContextManager[object]:
        return held(server, *(s.format(t=f"{table.schema}.{table.name}") for s in statements), database=table.schema)

    return block


@contextmanager
def slow_statement(server: Server, table: TableName) -> Iterator[None]:
    text = f"SELECT SLEEP(30) FROM {table.schema}.{table.name} WHERE id = 1"
    with closing(connect(server)) as session:
        said = Said(session, text)
        try:
            yield
        finally:
            sql(server, f"KILL {session.thread_id()}")
            said.join()
    assert said.told in KILLED


class Said(threading.Thread):
    """A statement in a thread of its own; ``told`` is the error that it ended with, None when it took effect."""

    def __init__(self, session: Connection[Cursor], text: str) -> None:
        super().__init__(daemon=True)
        self.told: int | None = None
        self._session = session
        self._text = text
        self.start()

    def run(self) -> None:
        try:
            with self._session.cursor() as cursor:
                cursor.execute(self._text)
        except pymysql.err.MySQLError as error:
            self.told = error.args[0]


@contextmanager
def orphan_xa(server: Server, table: TableName) -> Iterator[None]:
    of = f"{table.schema}.{table.name}"
    with held(server, "XA START 'gone'", f"UPDATE {of} SET b = 'y' WHERE id = 3", "XA END 'gone'", "XA PREPARE 'gone'"):
        pass
    try:
        yield
    finally:
        script(server, "XA ROLLBACK 'gone'")


BLOCKERS: dict[BlockerKind, Blocker] = {
    BlockerKind.TRANSACTION: holding("BEGIN", "SELECT * FROM {t}"),
    BlockerKind.STATEMENT: slow_statement,
    BlockerKind.LOCK_TABLES: holding("LOCK TABLES {t} READ"),
    BlockerKind.GLOBAL_READ_LOCK: holding("FLUSH TABLES WITH READ LOCK"),
    BlockerKind.BACKUP_LOCK: holding("LOCK INSTANCE FOR BACKUP"),
    BlockerKind.HANDLER: holding("HANDLER t OPEN"),
    BlockerKind.PREPARED_XA: orphan_xa,
}


def add_column(table: TableName, name: str = "n", family: tuple[TableName, ...] = ()) -> Exclusive:
    tag = f"/* rollout:ddl-test {name} */"
    text = f"ALTER {tag} TABLE {table.schema}.{table.name} ADD COLUMN {name} INT NULL, ALGORITHM=INSTANT"
    return Exclusive(text, tag, family or (table,))


def build_index(table: TableName, budget_s: float = 1.0, tries: int = 3) -> Exclusive:
    tag = "/* rollout:ddl-test index */"
    text = f"ALTER {tag} TABLE {table.schema}.{table.name} ADD INDEX b_idx (b, a), ALGORITHM=INPLACE, LOCK=NONE"
    return Exclusive(text, tag, (table,), build=Build(budget_s, tries))


def guard_on(server: Server, table: TableName, max_wait_s: float = 20.0, **options: object) -> Guard:
    return Guard(site_on(server, Contract(table, ()), max_wait_s), **options)  # type: ignore[arg-type]


def wait_until_known(server: Server, table: TableName, kind: BlockerKind) -> None:
    """Until the holder is seen, and is no longer young enough to be one of the application's short transactions."""
    young = (BlockerKind.TRANSACTION, BlockerKind.STATEMENT)

    def known() -> bool:
        holders = read_holders(session, (table,), frozenset())
        return any(h.kind is kind and (kind not in young or h.age_s > 0.2) for h in holders)

    with closing(site_on(server, Contract(table, ())).connect("test")) as session:
        wait_for(known, what=str(kind))


@pytest.mark.parametrize("kind", BLOCKERS, ids=lambda k: k.name.lower())
def test_a_known_holder_costs_the_application_nothing(primary: Server, schema: str, kind: BlockerKind) -> None:
    table = plain_table(primary, schema)
    outcomes: list[Outcome] = []
    beats = Beats()

    def alter() -> None:
        outcomes.append(guard_on(primary, table, max_wait_s=60).run(add_column(table), beats))

    thread = threading.Thread(target=alter, daemon=True)
    # Writers that FLUSH TABLES WITH READ LOCK stops wait for it, not for us: only readers are measured then.
    with BLOCKERS[kind](primary, table):
        wait_until_known(primary, table, kind)
        readers = Application(
            primary, table, writes=kind not in (BlockerKind.GLOBAL_READ_LOCK, BlockerKind.LOCK_TABLES)
        )
        with readers:
            thread.start()
            wait_for(lambda: outcomes or len(beats.heard) >= 4, 40)
            assert not outcomes, f"it took effect under {kind.value}"
            assert "n" not in columns_of(primary, table)
    thread.join(20)
    (outcome,) = outcomes
    assert outcome.result is Result.DONE, outcome
    assert "n" in columns_of(primary, table)
    assert readers.errors == []
    assert readers.longest_wait_s < LOOSE_S
    assert outcome.figures["tries"] == 1, "it tried while the holder was known"


def test_a_holder_that_does_not_go_is_named_after_the_longest_wait(primary: Server, schema: str) -> None:
    """B79: name the blocker (id, user, age); the stall seen by others stays inside the budget; default no KILL."""
    table = plain_table(primary, schema)
    with held(primary, "BEGIN", f"SELECT * FROM {schema}.t") as blocker, Application(primary, table) as application:
        began = time.monotonic()
        outcome = guard_on(primary, table, max_wait_s=1.5).run(add_column(table), Beats())
        assert time.monotonic() - began < 5
        assert outcome.result is Result.HELD
        assert f"id {blocker.thread_id()}" in outcome.note
        assert "open transaction, idle" in outcome.note
        assert f"KILL {blocker.thread_id()}" in outcome.next
    assert application.errors == []
    assert application.longest_wait_s < LOOSE_S
    assert "n" not in columns_of(primary, table)


def test_a_holder_that_nobody_has_seen_costs_one_try_inside_the_budget(primary: Server, schema: str) -> None:
    """The look is made blind for this test by a family that does not name the table: so the try meets the holder."""
    table = plain_table(primary, schema)
    other = TableName(schema, "p")
    with (
        held(primary, "BEGIN", f"SELECT * FROM {schema}.t") as blocker,
        Application(primary, table) as application,
        later(2.0, blocker.rollback),
    ):
        outcome = guard_on(primary, table).run(add_column(table, family=(other,)), Beats())
    assert outcome.result is Result.DONE
    assert outcome.figures["tries"] >= 2
    assert 0.1 < outcome.figures["longest_pending_s"] <= BUDGET_S + NOISE_S
    assert application.errors == []
    assert application.longest_wait_s < LOOSE_S


def test_a_transaction_on_a_relative_is_waited_for(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    family = (table, TableName(schema, "p"), TableName(schema, "k"))
    with held(primary, "BEGIN", f"SELECT * FROM {schema}.k") as blocker:
        outcome = guard_on(primary, table, max_wait_s=0.6).run(add_column(table, family=family), Beats())
        assert outcome.result is Result.HELD
        assert f"{schema}.k" in outcome.note
        assert outcome.figures["tries"] == 0
        assert str(blocker.thread_id()) in outcome.note


def test_short_transactions_are_no_reason_to_wait(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    with Application(primary, table, threads=4):
        outcome = guard_on(primary, table, max_wait_s=5).run(add_column(table), Beats())
    assert outcome.result is Result.DONE
    assert outcome.figures["seconds"] < 4


def test_a_reader_on_a_replica_is_waited_for(pair: Pair, schema: str) -> None:
    table = plain_table(pair.primary, schema)
    wait_caught_up(pair)
    on_replica = site_on(pair.replica, Contract(table, ()))

    def look() -> Reading[tuple[ReplicaFacts, ...]]:
        with closing(on_replica.connect("test")) as session:
            holders = read_holders(session, (table,), frozenset())
        return Reading(time.monotonic(), (ReplicaFacts("replica-1", True, holders=holders),))

    guard = guard_on(pair.primary, table, max_wait_s=2.5, replicas=look)
    with held(pair.replica, "BEGIN", f"SELECT * FROM {schema}.t"):
        outcome = guard.run(add_column(table), Beats())
        assert outcome.result is Result.HELD
        assert "on replica-1" in outcome.note
        assert outcome.figures["tries"] == 0
    assert guard.run(add_column(table), Beats()).result is Result.DONE


def test_replicas_that_cannot_be_seen_are_not_taken_for_free(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    guard = guard_on(primary, table, max_wait_s=0.5, replicas=lambda: Reading(0.0, None, unseen="no route"))
    outcome = guard.run(add_column(table), Beats())
    assert outcome.result is Result.HELD
    assert "no route" in outcome.note
    assert "n" not in columns_of(primary, table)


def test_without_the_instrument_nothing_is_tried(primary: Server, schema: str) -> None:
    """B80: "cannot see locks" is a hold with its reason, never "clear"."""
    table = plain_table(primary, schema)
    instrument = (
        "UPDATE performance_schema.setup_instruments SET ENABLED = '{}' WHERE NAME = 'wait/lock/metadata/sql/mdl'"
    )
    script(primary, instrument.format("NO"))
    try:
        outcome = guard_on(primary, table).run(add_column(table), Beats())
    finally:
        script(primary, instrument.format("YES"))
    assert outcome.result is Result.HELD
    assert "instrument" in outcome.note
    assert "n" not in columns_of(primary, table)


@pytest.mark.parametrize(
    ("kind", "result"),
    [
        (SignalKind.PAUSE, Result.PAUSED),
        (SignalKind.ABORT, Result.PAUSED),
        (SignalKind.STOP, Result.HELD),
        (SignalKind.BACK, Result.BACK),
    ],
)
def test_a_beat_ends_the_wait(primary: Server, schema: str, kind: SignalKind, result: Result) -> None:
    table = plain_table(primary, schema)
    with held(primary, "BEGIN", f"SELECT * FROM {schema}.t"):
        beats = Beats(lambda p: Signal(kind, "asked") if p.elapsed_s > 0.3 else GO)
        outcome = guard_on(primary, table).run(add_column(table), beats)
    assert (outcome.result, outcome.note) == (result, "asked")


def test_a_hold_on_a_beat_keeps_the_statement_back(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    beats = Beats(lambda p: Signal(SignalKind.HOLD, "lag") if p.elapsed_s < 0.8 else GO)
    outcome = guard_on(primary, table).run(add_column(table), beats)
    assert outcome.result is Result.DONE
    assert len(beats.heard) >= 2


def test_a_lost_lease_takes_the_statement_back(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    other = TableName(schema, "p")

    def says(_: object) -> Signal:
        if len(beats.heard) > 1:
            raise Fenced("taken over", "our lease", "rollout status")
        return GO

    beats = Beats(says)
    with held(primary, "BEGIN", f"SELECT * FROM {schema}.t"), pytest.raises(Fenced):
        guard_on(primary, table).run(add_column(table, family=(other,)), beats)
    assert "n" not in columns_of(primary, table)
    site = site_on(primary, Contract(table, ()))
    with closing(site.connect("test")) as session:
        assert find_tagged(session, site.tag_prefix) == ()


def test_it_beats_at_least_once_a_second(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    beats = Beats()
    with held(primary, "BEGIN", f"SELECT * FROM {schema}.t"):
        guard_on(primary, table, max_wait_s=3).run(add_column(table), beats)
    assert len(beats.heard) >= 4
    assert beats.longest_silence_s <= 1.0


def test_a_refusal_of_the_server_is_not_tried_again(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    with pytest.raises(ServerError) as seen:
        guard_on(primary, table).run(add_column(table, "a"), Beats())
    assert seen.value.number == 1060


@contextmanager
def opened_during_build(server: Server, table: TableName) -> Iterator[None]:
    """A transaction that opens as soon as a tagged statement is seen building, and stays open until the block ends."""
    site = site_on(server, Contract(table, ()))
    with closing(connect(server)) as late, closing(site.connect("test")) as looking:

        def open_it() -> None:
            wait_for(lambda: any("alter" in t.state for t in find_tagged(looking, site.tag_prefix)), 20)
            with late.cursor() as cursor:
                cursor.execute("BEGIN")
                cursor.execute(f"SELECT * FROM {table.schema}.{table.name} WHERE id = 1")

        thread = threading.Thread(target=open_it, daemon=True)
        thread.start()
        try:
            yield
        finally:
            thread.join()


def test_a_build_that_is_blocked_at_its_end_is_lost_inside_its_budget(primary: Server, schema: str) -> None:
    """A transaction that opens during the build blocks its last step: nobody waits longer than that step may wait."""
    table = plain_table(primary, schema, rows=60_000)
    with opened_during_build(primary, table), Application(primary, table) as application:
        outcome = guard_on(primary, table, max_wait_s=4).run(build_index(table, budget_s=0.5), Beats())
    assert outcome.result is Result.HELD, outcome
    assert outcome.figures["lost_builds"] == 1
    assert outcome.figures["build_s"] > 0
    assert outcome.figures["longest_pending_s"] <= 0.5 + NOISE_S
    assert application.errors == []
    assert application.longest_wait_s < 0.5 + LOOSE_S


def test_builds_are_lost_a_bounded_number_of_times(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema, rows=60_000)
    with opened_during_build(primary, table):
        outcome = guard_on(primary, table).run(build_index(table, budget_s=0.3, tries=1), Beats())
    assert outcome.result is Result.HELD
    assert "built 1 times" in outcome.note
    assert "final_lock_budget" in outcome.next


def test_a_pause_takes_a_build_back(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema, rows=60_000)
    beats = Beats(lambda p: Signal(SignalKind.PAUSE, "asked") if p.note == "building" else GO)
    with opened_during_build(primary, table):
        outcome = guard_on(primary, table).run(build_index(table, budget_s=30), beats)
    assert (outcome.result, outcome.note) == (Result.PAUSED, "asked")
    assert outcome.figures["longest_pending_s"] < 5


def _fenced(progress: Progress) -> Signal:
    raise Fenced("the lease was lost", "a lease that is ours", "rollout status")


def test_what_a_dead_client_left_running_is_taken_back(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    site = site_on(primary, Contract(table, ()))
    work = add_column(table)
    with held(primary, "BEGIN", f"SELECT * FROM {schema}.t"), closing(connect(primary)) as dead:
        said = Said(dead, work.statement)
        with closing(site.connect("test")) as session:
            wait_for(lambda: find_tagged(session, work.tag))
            with pytest.raises(Fenced):
                take_back(session, work.tag, site.clock, Beats(_fenced))
            assert find_tagged(session, work.tag), "whoever took over says it by now"
            assert take_back(session, work.tag, site.clock, Beats())
            assert find_tagged(session, work.tag) == ()
        said.join()
    assert said.told in KILLED
    assert "n" not in columns_of(primary, table)


def test_an_account_that_may_not_look_is_told_so(primary: Server, schema: str) -> None:
    table = plain_table(primary, schema)
    script(primary, f"CREATE USER blind IDENTIFIED BY 'blind'; GRANT ALL ON {schema}.* TO blind")
    try:
        site = site_on(primary, Contract(table, ()))
        blind = replace(site, settings=replace(site.settings, user="blind", password=Secret("blind")))
        with pytest.raises(PrivilegeMissing):
            Guard(blind).run(add_column(table), Beats())
    finally:
        script(primary, "DROP USER blind")
    assert "n" not in columns_of(primary, table)
    with closing(site.connect("test")) as session:
        assert blindness(session) == ""


def test_a_session_that_is_lost_before_a_count_is_sent_is_a_server_out_of_reach(primary: Server, schema: str) -> None:
    class Cut(Site):
        def connect(self, role: str, timeout_s: float = 30.0, **options: object) -> Session:  # type: ignore[override]
            session = super().connect(role, timeout_s, **options)  # type: ignore[arg-type]
            if role == "prove":
                sql(primary, f"KILL {session.connection_id}")
                wait_for(lambda: not _is_there(primary, session.connection_id), 10, "the session is gone")
            return session

    of = site_on(primary, Contract(plain_table(primary, schema), ()), 3.0)
    with pytest.raises(ServerUnreachable, match="while the rows were read"):
        Guard(Cut(of.settings, of.runbook, of.clock)).read("SELECT 1", Beats())


def _is_there(server: Server, connection_id: int) -> bool:
    return bool(sql(server, "SELECT 1 FROM performance_schema.processlist WHERE ID = %s", (connection_id,)))
