"""The lease between real processes: the dead are replaced, the frozen are fenced, one acts at a time."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.errors import Fenced, LeaseTaken
from orchestrator.model.state import EventKind
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.lease import lock_name
from orchestrator.sandbox.server import Server
from orchestrator.store.mysql import MysqlStore
from orchestrator.store.place import LeaseTimes
from tests.support.lossy import Loss, lossy_way
from tests.support.servers import connect, sql, wait_for
from tests.support.state import begin, moved, settings_of

ID = "orders-state"
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.integration


@dataclass
class Holder:
    """Another process with the lease."""

    process: subprocess.Popen[str]
    epoch: int

    def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def store(primary: Server, schema_name: str) -> Iterator[MysqlStore]:
    """A store with a rollout that has begun."""
    made = MysqlStore(settings_of(primary, schema_name), SystemClock())
    made.install()
    with made.lease(ID, "kim") as lease:
        made.create(*begin(epoch=lease.epoch))
        record = made.load(ID)
        assert record is not None
        made.save(*moved(record, EventKind.STARTED))
    yield made
    made.close()


@contextlib.contextmanager
def holder(primary: Server, schema: str, idle_s: int = 20, dead_s: float = 45.0) -> Iterator[Holder]:
    argv = [sys.executable, "-m", "tests.support.holder", str(primary.port), schema, ID, str(idle_s), str(dead_s)]
    process = subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Holder(process, int(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()


def _takeover_s(store: MysqlStore) -> tuple[float, int]:
    """How long it takes to get the lease, and its epoch."""
    began = time.monotonic()
    with store.lease(ID, "lee") as lease:
        return time.monotonic() - began, lease.epoch


def test_a_killed_holder_is_replaced_at_once(primary: Server, store: MysqlStore, schema_name: str) -> None:
    with holder(primary, schema_name) as dead:
        with pytest.raises(LeaseTaken), store.lease(ID, "lee"):
            pytest.fail("two actors at a time")
        dead.process.kill()
        seconds, epoch = _takeover_s(store)
    assert seconds < 10  # far less than the counter would take
    assert epoch == dead.epoch + 1


def _frozen(primary: Server, store: MysqlStore, schema: str, idle_s: int, words: tuple[str, str]) -> float:
    """Freeze a holder, take over, let it go on with two words; the seconds that the takeover took."""
    with holder(primary, schema, idle_s) as frozen:
        frozen.process.send_signal(signal.SIGSTOP)
        frozen.say(words[0])
        seconds, epoch = _takeover_s(store)
        before = store.history(ID)
        frozen.process.send_signal(signal.SIGCONT)
        assert frozen.hear() == "Fenced"
        frozen.say(words[1])
        assert frozen.hear() == "Fenced"
        assert list(store.history(ID)) == list(before)
    assert epoch > frozen.epoch
    return seconds


@pytest.mark.parametrize("words", [("save", "alive"), ("alive", "save")])
def test_a_frozen_holder_is_replaced_and_commits_nothing_when_it_wakes(
    primary: Server, store: MysqlStore, schema_name: str, words: tuple[str, str]
) -> None:
    assert _frozen(primary, store, schema_name, 2, words) < 30


@pytest.mark.slow
def test_a_frozen_holder_is_replaced_within_a_minute(primary: Server, store: MysqlStore, schema_name: str) -> None:
    assert _frozen(primary, store, schema_name, 20, ("save", "alive")) < 60


def test_a_named_lock_that_outlives_its_holder_is_taken_over_when_the_counter_stands_still(
    primary: Server, store: MysqlStore, schema_name: str
) -> None:
    stuck = connect(primary)
    with stuck.cursor() as cursor:
        cursor.execute("SELECT GET_LOCK(%s, 0)", (lock_name(schema_name, ID),))
        assert cursor.fetchone() == (1,)
    impatient = MysqlStore(settings_of(primary, schema_name), SystemClock(), times=LeaseTimes(dead_s=2.0))
    record = store.load(ID)
    assert record is not None
    with impatient.lease(ID, "lee") as lease:
        assert lease.epoch == record.epoch + 1
        # The new holder gets the lock as well, so that its own death is seen at once.
        query = "SELECT IS_USED_LOCK(%s)"
        wait_for(lambda: sql(primary, query, (lock_name(schema_name, ID),))[0][0] not in (None, stuck.thread_id()))
        lease.alive()
    impatient.close()
    stuck.close()


def test_only_one_of_many_acts_at_a_time(primary: Server, store: MysqlStore, schema_name: str) -> None:
    inside: list[int] = []
    seen: list[int] = []
    epochs: list[int] = []

    def contend(number: int) -> None:
        mine = MysqlStore(settings_of(primary, schema_name), SystemClock())
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                with mine.lease(ID, f"actor {number}") as lease:
                    inside.append(number)
                    seen.append(len(inside))
                    lease.alive()
                    epochs.append(lease.epoch)
                    inside.remove(number)
                    return
            except LeaseTaken:
                continue
            finally:
                mine.close()

    threads = [threading.Thread(target=contend, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1, 1, 1, 1]
    assert len(set(epochs)) == 4


def test_taking_and_bumping_raise_the_fence_of_every_fenced_row(
    primary: Server, store: MysqlStore, schema_name: str
) -> None:
    flag = "INSERT INTO {}.flag VALUES (%s, 0, 0, 's', UTC_TIMESTAMP(6), 1, 0)"
    position = "INSERT INTO {}.position (rollout, walk, pass, range_no, epoch) VALUES (%s, 1, 'backfill', %s, 1)"
    for id in (ID, "somebody-else"):
        sql(primary, flag.format(schema_name), (id,))
        for number in (0, 1):
            sql(primary, position.format(schema_name), (id, number))
    with store.lease(ID, "lee") as lease:
        assert _epochs(primary, schema_name, ID) == {lease.epoch}
    raised = store.bump_epoch(ID)
    assert raised == lease.epoch + 1
    assert _epochs(primary, schema_name, ID) == {raised}
    assert _epochs(primary, schema_name, "somebody-else") == {1}


def test_an_epoch_is_raised_above_every_row_that_knows_a_greater_one(
    primary: Server, store: MysqlStore, schema_name: str
) -> None:
    sql(primary, f"INSERT INTO {schema_name}.flag VALUES (%s, 0, 0, 's', UTC_TIMESTAMP(6), 70, 0)", (ID,))
    assert store.bump_epoch(ID) == 71


def test_the_heartbeat_beats_while_the_lease_is_held_and_stops_after(
    primary: Server, store: MysqlStore, schema_name: str
) -> None:
    def beat() -> int:
        return int(sql(primary, f"SELECT seq FROM {schema_name}.heartbeat WHERE rollout = %s", (ID,))[0][0])

    with store.lease(ID, "lee"):
        first = beat()
        wait_for(lambda: beat() >= first + 3, 3)
    assert beat() == beat()
    age = f"SELECT TIMESTAMPDIFF(MICROSECOND, at, UTC_TIMESTAMP(6)) FROM {schema_name}.heartbeat"
    wait_for(lambda: sql(primary, age)[0][0] > 1_000_000, 5)


def test_who_was_replaced_does_not_beat_once_more(primary: Server, store: MysqlStore, schema_name: str) -> None:
    """Found by make zombies: who was cut off beat once when it was back, before it looked."""
    with (
        store.lease(ID, "lee") as lease,
        closing(connect(primary, database=schema_name, autocommit=False)) as session,
        session.cursor() as cursor,
    ):
        cursor.execute("UPDATE lease SET epoch = epoch + 1 WHERE rollout = %s", (ID,))
        cursor.execute("SELECT seq FROM heartbeat WHERE rollout = %s FOR UPDATE", (ID,))
        last = cursor.fetchall()
        session.commit()
        with pytest.raises(Fenced):
            wait_for(lambda: lease.confirm() or False, 10)
        cursor.execute("SELECT seq FROM heartbeat WHERE rollout = %s", (ID,))
        assert cursor.fetchall() == last


def test_nothing_is_left_on_the_server_when_the_lease_ends(
    primary: Server, store: MysqlStore, schema_name: str
) -> None:
    with store.lease(ID, "lee") as lease:
        lease.alive()
    assert sql(primary, "SELECT IS_USED_LOCK(%s)", (lock_name(schema_name, ID),)) == [(None,)]
    assert sql(primary, f"SELECT owner, pid FROM {schema_name}.lease WHERE rollout = %s", (ID,)) == [(None, None)]
    program = (
        "SELECT COUNT(*) FROM performance_schema.session_connect_attrs"
        " WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE LIKE 'rollout lease %'"
    )
    wait_for(lambda: sql(primary, program)[0][0] == 0, 5)
    assert not [t for t in threading.enumerate() if t.name == "rollout lease"]


def test_a_broken_keeper_connection_is_replaced_and_the_lease_goes_on(
    primary: Server, store: MysqlStore, schema_name: str
) -> None:
    with store.lease(ID, "lee") as lease:
        name = lock_name(schema_name, ID)
        owner = sql(primary, "SELECT IS_USED_LOCK(%s)", (name,))[0][0]
        sql(primary, f"KILL {owner}")
        wait_for(lambda: sql(primary, "SELECT IS_USED_LOCK(%s)", (name,))[0][0] not in (None, owner), 5)
        lease.alive()
        record = store.load(ID)
        assert record is not None
        store.save(*moved(replace(record, epoch=lease.epoch), EventKind.INTENDED))


def test_a_holder_that_cannot_reach_the_server_does_not_believe_in_its_lease(
    primary: Server, store: MysqlStore, schema_name: str
) -> None:
    with lossy_way(primary) as way:
        settings = replace(settings_of(primary, schema_name), port=way.port)
        times = LeaseTimes(silence_s=1.5, answer_s=1.0, idle_s=2)
        cut = MysqlStore(settings, SystemClock(), times=times)
        with cut.lease(ID, "lee") as lease:
            lease.alive()
            way.lose = Loss.SILENCE
            with pytest.raises(Fenced):
                wait_for(lambda: lease.alive() or False, 10)
            seconds, epoch = _takeover_s(store)
            assert seconds < 30
            assert epoch > lease.epoch
        cut.close()


def test_who_let_go_because_he_was_silent_sends_nothing_more_once_another_acts(
    primary: Server, store: MysqlStore, schema_name: str
) -> None:
    """Found by make zombies: his keeper had let go and taken his name off the lease, so nobody ended his sessions, and
    a DROP of his was executed among the work of whoever came next."""
    settings = settings_of(primary, schema_name)
    silent = MysqlStore(settings, SystemClock(), times=LeaseTimes(silence_s=0.3))
    scratch = Session(settings, role="scratch", reopens=False)
    with closing(silent), closing(scratch), silent.lease(ID, "lee") as lease:
        wait_for(lambda: store.holder(ID) is None, 10, "his keeper lets go")
        assert scratch.value("SELECT 1") == 1, "nobody came yet"
        with holder(primary, schema_name), pytest.raises(ServerError):
            scratch.value("SELECT 1")
        with pytest.raises(Fenced):
            lease.alive()


def _epochs(server: Server, schema: str, id: str) -> set[int]:
    query = " UNION ".join(
        f"SELECT epoch FROM {schema}.{table} WHERE {key} = %s"
        for table, key in (("rollout", "id"), ("position", "rollout"), ("flag", "rollout"), ("lease", "rollout"))
    )
    return {int(row[0]) for row in sql(server, query, (id,) * 4)}
