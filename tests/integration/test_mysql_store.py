"""What only a real server can show: lost answers, small accounts, other versions, and two installers at once."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.errors import CannotSay, ConfigurationError, Held, PrivilegeMissing, ServerUnreachable
from orchestrator.model.outcome import Progress
from orchestrator.model.state import Event, EventKind, Record
from orchestrator.mysql import quote
from orchestrator.mysql.clock import SystemClock
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import ROOT, Account
from orchestrator.store.mysql import MysqlStore
from tests.support.lossy import Loss, LossyWay, lossy_way
from tests.support.servers import connect, script, sql, wait_for
from tests.support.state import begin, moved, settings_of

ID = "orders-state"
READER = Account("store_reader", "secret", "")
pytestmark = pytest.mark.integration


@pytest.fixture
def store(primary: Server, schema_name: str) -> Iterator[MysqlStore]:
    made = MysqlStore(settings_of(primary, schema_name), SystemClock())
    made.install()
    yield made
    made.close()


@pytest.fixture
def way(primary: Server) -> Iterator[LossyWay]:
    with lossy_way(primary) as made:
        yield made


@pytest.fixture
def far(primary: Server, schema_name: str, way: LossyWay, tmp_path: Path) -> Iterator[MysqlStore]:
    """A store behind a way that can lose things."""
    settings = replace(settings_of(primary, schema_name), port=way.port)
    made = MysqlStore(settings, SystemClock(), timeout_s=2.0, journal_path=tmp_path / "state" / "journal.log")
    yield made
    made.close()


@pytest.fixture
def reader(primary: Server) -> Iterator[Account]:
    script(primary, f"CREATE USER '{READER.user}'@'127.0.0.1' IDENTIFIED BY '{READER.password}'")
    yield READER
    script(primary, f"DROP USER '{READER.user}'@'127.0.0.1'")


def _begun(store: MysqlStore) -> tuple[Record, Event]:
    """A rollout that has begun, and its next move, not yet saved."""
    store.create(*begin())
    record = store.load(ID)
    assert record is not None
    return moved(record, EventKind.STARTED)


def test_a_save_whose_answer_was_lost_is_found_by_asking(store: MysqlStore, far: MysqlStore, way: LossyWay) -> None:
    record, event = _begun(store)
    assert far.load(ID) is not None
    way.lose = Loss.ANSWER
    assert far.save(record, event) == record
    assert way.lost == 1
    assert store.load(ID) == record
    assert len(store.history(ID)) == 2


def test_a_save_that_never_arrived_is_sent_again_once(store: MysqlStore, far: MysqlStore, way: LossyWay) -> None:
    record, event = _begun(store)
    assert far.load(ID) is not None
    way.lose = Loss.REQUEST
    assert far.save(record, event) == record
    assert way.lost == 1
    assert store.load(ID) == record
    assert len(store.history(ID)) == 2


def test_a_create_whose_answer_was_lost_is_found_by_asking(store: MysqlStore, far: MysqlStore, way: LossyWay) -> None:
    assert far.load(ID) is None
    way.lose = Loss.ANSWER
    record, event = begin()
    assert far.create(record, event) == record
    assert way.lost == 1
    assert len(store.history(ID)) == 1


def test_a_save_without_any_answer_cannot_say_and_leaves_a_last_line(
    store: MysqlStore, far: MysqlStore, way: LossyWay, tmp_path: Path
) -> None:
    record, event = _begun(store)
    assert far.load(ID) is not None
    way.lose = Loss.SILENCE
    with pytest.raises(CannotSay) as unknown:
        far.save(record, event)
    journal = tmp_path / "state" / "journal.log"
    assert str(journal) in unknown.value.seen
    assert journal.stat().st_mode & 0o777 == 0o600
    (line,) = journal.read_text().splitlines()
    assert f"{ID} revision {record.revision} epoch {record.epoch} started" in line


def test_a_save_that_still_runs_on_the_server_is_not_taken_for_lost_nor_killed(
    primary: Server, schema_name: str, store: MysqlStore, tmp_path: Path
) -> None:
    record, event = _begun(store)
    hasty = MysqlStore(settings_of(primary, schema_name), SystemClock(), timeout_s=1.0, journal_path=tmp_path / "j")
    hasty.load(ID)
    with closing(connect(primary, autocommit=False)) as blocker, blocker.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {schema_name}.rollout WHERE id = %s FOR UPDATE", (ID,))
        with pytest.raises(CannotSay):
            hasty.save(record, event)
        waits = "SELECT COUNT(*) FROM performance_schema.processlist WHERE INFO LIKE 'SELECT COUNT(*) INTO%%'"
        assert sql(primary, waits, account=ROOT) == [(1,)]
        blocker.rollback()
    wait_for(lambda: sql(primary, waits, account=ROOT) == [(0,)], 10)
    hasty.close()
    found = store.load(ID)
    assert found is not None
    assert found.revision - record.revision + 2 == len(store.history(ID))


def test_a_record_does_not_move_without_its_event_when_the_client_is_gone_before_the_answer(
    primary: Server, schema_name: str, store: MysqlStore, tmp_path: Path
) -> None:
    """The server goes on with the packet; of a statement whose answer cannot be given ROW_COUNT() is -1."""
    record, event = _begun(store)
    gone = MysqlStore(settings_of(primary, schema_name), SystemClock(), timeout_s=1.0, journal_path=tmp_path / "j")
    gone.load(ID)
    (session,) = gone._sessions.values()
    waits = (
        f"SELECT COUNT(*) FROM performance_schema.processlist WHERE ID = {session.connection_id} AND INFO IS NOT NULL"
    )
    with closing(connect(primary, autocommit=False)) as blocker, blocker.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {schema_name}.rollout WHERE id = %s FOR UPDATE", (ID,))
        sock = session._connection._sock
        # Closed, it is reset at once, as that of a machine that was switched off.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with pytest.raises(CannotSay):
            gone.save(record, event)
        assert sql(primary, waits, account=ROOT) == [(1,)]
        blocker.rollback()
    wait_for(lambda: sql(primary, waits, account=ROOT) == [(0,)], 10)
    gone.close()
    found = store.load(ID)
    assert found is not None
    assert found.revision == len(store.history(ID)) - 1


def test_a_locked_record_holds_and_nothing_was_written(primary: Server, schema_name: str, store: MysqlStore) -> None:
    record, event = _begun(store)
    with closing(connect(primary, autocommit=False)) as blocker, blocker.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {schema_name}.rollout WHERE id = %s FOR UPDATE", (ID,))
        with pytest.raises(Held):
            store.save(record, event)
    assert len(store.history(ID)) == 1
    store.save(record, event)


def test_progress_never_raises_and_never_waits_long(primary: Server, schema_name: str, store: MysqlStore) -> None:
    record, _ = _begun(store)
    store.progress(ID, record.epoch, Progress(done=1))
    with closing(connect(primary, autocommit=False)) as blocker, blocker.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {schema_name}.progress WHERE rollout = %s FOR UPDATE", (ID,))
        for _ in range(50):
            store.progress(ID, record.epoch, Progress(done=2))
    shown = store.read_progress(ID)
    assert shown is not None
    assert shown[0].done == 1


def test_without_a_server_reading_says_unreachable(primary: Server) -> None:
    store = MysqlStore(replace(settings_of(primary), port=1), SystemClock())
    with pytest.raises(ServerUnreachable):
        store.load(ID)


def test_a_reading_account_sees_the_state_and_before_it_there_is_none(
    primary: Server, schema_name: str, store: MysqlStore, reader: Account
) -> None:
    script(primary, f"GRANT SELECT ON *.* TO '{reader.user}'@'127.0.0.1'")
    record, event = _begun(store)
    store.save(record, event)
    small = MysqlStore(settings_of(primary, schema_name, reader), SystemClock())
    assert small.load(ID) == record
    assert small.holder(ID) is None
    with store.lease(ID, "kim"):
        held = small.holder(ID)
        assert held is not None
        assert held.who == "kim"
    nowhere = MysqlStore(settings_of(primary, "_never_installed", reader), SystemClock())
    assert nowhere.load(ID) is None
    assert nowhere.holder(ID) is None
    assert nowhere.read_progress(ID) is None
    assert nowhere.asked(ID) is None
    small.close()
    nowhere.close()


def test_what_a_blind_account_cannot_see_is_not_taken_for_nothing(
    primary: Server, schema_name: str, store: MysqlStore, reader: Account
) -> None:
    small = MysqlStore(settings_of(primary, schema_name, reader), SystemClock())
    with pytest.raises(PrivilegeMissing) as missing:
        small.load(ID)
    script(primary, missing.value.next)
    assert small.load(ID) is None
    small.close()


def test_installing_without_the_right_names_the_grant_that_is_enough(
    primary: Server, schema_name: str, reader: Account
) -> None:
    small = MysqlStore(settings_of(primary, schema_name, reader), SystemClock())
    with pytest.raises(PrivilegeMissing) as missing:
        small.install()
    assert f"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON {quote.everything_in(schema_name)}" in missing.value.next
    script(primary, missing.value.next)
    small.install()
    with small.lease(ID, "kim") as lease:
        small.create(*begin(epoch=lease.epoch))
        lease.alive()
        small.purge(ID, lease.epoch)
    small.close()


def test_state_of_a_newer_rollout_is_refused(primary: Server, schema_name: str, store: MysqlStore) -> None:
    _begun(store)
    sql(primary, f"INSERT INTO {schema_name}.migration VALUES (999, UTC_TIMESTAMP(6))")
    fresh = MysqlStore(settings_of(primary, schema_name), SystemClock())
    with pytest.raises(ConfigurationError) as newer:
        fresh.load(ID)
    assert "999" in newer.value.seen
    with pytest.raises(ConfigurationError):
        fresh.install()
    fresh.close()


def test_a_record_with_a_field_of_a_newer_rollout_is_refused(
    primary: Server, schema_name: str, store: MysqlStore
) -> None:
    _begun(store)
    sql(primary, f"""UPDATE {schema_name}.rollout SET record = REPLACE(record, '"walk"', '"waltz"')""")
    with pytest.raises(ConfigurationError):
        store.load(ID)


def test_an_installation_that_was_cut_short_is_completed(primary: Server, schema_name: str, store: MysqlStore) -> None:
    record, _ = begin()
    script(primary, f"DROP TABLE {schema_name}.flag; DELETE FROM {schema_name}.migration")
    store.install()
    store.create(record, _begin_event())
    assert sql(primary, f"SELECT COUNT(*) FROM {schema_name}.flag") == [(0,)]


def test_two_installers_at_once_both_succeed(primary: Server, schema_name: str) -> None:
    failures: list[BaseException] = []

    def one() -> None:
        try:
            MysqlStore(settings_of(primary, schema_name), SystemClock()).install()
        except BaseException as error:  # what a thread raises must reach the test
            failures.append(error)

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sql(primary, f"SELECT COUNT(*) FROM {schema_name}.migration")[0][0] >= 1


def test_a_state_schema_may_have_any_name(primary: Server) -> None:
    name = "_st 100%d `x`"
    store = MysqlStore(settings_of(primary, name), SystemClock())
    try:
        store.install()
        with store.lease(ID, "kim") as lease:
            store.create(*begin(epoch=lease.epoch))
            assert store.load(ID) is not None
            store.purge(ID, lease.epoch)
    finally:
        store.close()
        script(primary, "DROP DATABASE IF EXISTS `_st 100%d ``x```")


def test_a_purge_leaves_no_row_that_names_the_rollout(primary: Server, schema_name: str, store: MysqlStore) -> None:
    with store.lease(ID, "kim") as lease:
        store.create(*begin(epoch=lease.epoch))
        sql(primary, f"INSERT INTO {schema_name}.flag VALUES (%s, 0, 0, 's', UTC_TIMESTAMP(6), 1, 0)", (ID,))
        store.purge(ID, lease.epoch)
    tables = ("event", "flag", "heartbeat", "lease", "position", "progress", "request")
    for table in tables:
        assert sql(primary, f"SELECT COUNT(*) FROM {schema_name}.{table} WHERE rollout = %s", (ID,)) == [(0,)], table
    assert sql(primary, f"SELECT COUNT(*) FROM {schema_name}.rollout") == [(0,)]


def _begin_event() -> Event:
    return begin()[1]
