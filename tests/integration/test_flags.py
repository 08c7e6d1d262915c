"""The two flags: a dead man's switch on the server's clock, fenced by the epoch, lowered from anywhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.errors import CannotSay, Fenced, Held
from orchestrator.model.facts import FlagFacts
from orchestrator.model.state import FINISH, EventKind
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.flags import MysqlFlags
from orchestrator.mysql.sql import flag as flag_sql
from orchestrator.sandbox.server import Server
from orchestrator.store.mysql import MysqlStore
from tests.support.log import general_log, said
from tests.support.lossy import Loss, lossy_way
from tests.support.servers import connect, sql, wait_for
from tests.support.state import begin, moved, settings_of, state_schema

ID = "orders-state"
pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def schema_name(primary: Server) -> Iterator[str]:
    with state_schema(primary) as name:
        store = MysqlStore(settings_of(primary, name), SystemClock())
        store.install()
        yield name
        store.close()


@pytest.fixture
def flags(primary: Server, schema_name: str) -> Iterator[MysqlFlags]:
    for table in ("flag", "lease", "rollout", "event"):
        sql(primary, f"DELETE FROM {schema_name}.{table}")
    made = MysqlFlags(settings_of(primary, schema_name), ID, SystemClock())
    yield made
    made.close()


def application_sees(server: Server, schema: str) -> tuple[int, int] | None:
    """What an application gets by the query of the documentation."""
    rows = sql(
        server,
        "SELECT IF(expires_at > UTC_TIMESTAMP(6), new_writes, 0),"
        " IF(expires_at > UTC_TIMESTAMP(6), read_percent, 0), salt"
        f" FROM {schema}.flag WHERE rollout = %s",
        (ID,),
    )
    return (int(rows[0][0]), int(rows[0][1])) if rows else None


def _expired(flags: MysqlFlags) -> bool:
    return flags.read().expired


def test_no_row_and_no_schema_read_as_no_flag(primary: Server, flags: MysqlFlags) -> None:
    assert flags.read() == FlagFacts(exists=False)
    nowhere = MysqlFlags(settings_of(primary, "_never_installed"), ID, SystemClock())
    assert nowhere.read() == FlagFacts(exists=False)
    nowhere.lower(None)
    nowhere.close()


def test_open_writes_opens_writing_only(primary: Server, schema_name: str, flags: MysqlFlags) -> None:
    flags.open(1, 60.0)
    assert application_sees(primary, schema_name) == (1, 0)
    facts = flags.read()
    assert (facts.new_writes, facts.read_percent, facts.expired, facts.epoch) == (True, 0, False, 1)
    assert facts.expires_in_s is not None
    assert 50 < facts.expires_in_s <= 60


def test_a_flag_that_nobody_renews_expires_and_is_never_revived(
    primary: Server, schema_name: str, flags: MysqlFlags
) -> None:
    flags.open(1, 60.0)
    flags.set_percent(1, 25, 60.0)
    assert application_sees(primary, schema_name) == (1, 25)
    assert flags.renew(1, 25, 0.05)
    wait_for(lambda: application_sees(primary, schema_name) == (0, 0), 5)
    assert not flags.renew(1, 25, 60.0)
    assert not flags.keep(1, 25)
    with pytest.raises(Held):
        flags.set_percent(1, 25, 60.0)
    with pytest.raises(Held):
        flags.open(1, 60.0)
    assert application_sees(primary, schema_name) == (0, 0)
    assert flags.read().effective_percent == 0


def test_a_flag_that_is_to_stay_never_expires_from_its_first_moment(
    primary: Server, schema_name: str, flags: MysqlFlags
) -> None:
    """``on_watcher_loss: stay``: nobody has to renew it, and lowering it is as quick as ever."""
    for write in (
        lambda: flags.open(1, None),
        lambda: flags.set_percent(1, 25, None),
        lambda: flags.renew(1, 25, None),
    ):
        write()
        assert flags.read().expires_in_s is None
        ((never,),) = sql(primary, f"SELECT expires_at = '9999-12-31' FROM {schema_name}.flag")
        assert never == 1
    flags.lower(None)
    assert application_sees(primary, schema_name) == (0, 0)


@pytest.mark.parametrize("hours", [-30, 30])
def test_a_clock_of_the_server_that_jumps_never_revives_a_flag_and_a_renewal_counts_from_its_new_time(
    primary: Server, schema_name: str, flags: MysqlFlags, hours: int
) -> None:
    """The row is moved the other way, and what the server computes is the same (test_server_clock.py turns a clock).
    Forward: the flag expires at once, and is not renewed. Back: readers stay until somebody lowers or renews it; the
    next renewal counts its time from the server's new clock."""
    flags.open(1, 60.0)
    flags.set_percent(1, 25, 60.0)
    sql(primary, f"UPDATE {schema_name}.flag SET expires_at = expires_at - INTERVAL %s HOUR", (hours,))
    if hours > 0:
        assert application_sees(primary, schema_name) == (0, 0)
        assert not flags.renew(1, 25, 60.0)
        assert not flags.keep(1, 25)
        with pytest.raises(Held):
            flags.set_percent(1, 50, 60.0)
        assert application_sees(primary, schema_name) == (0, 0)
        return
    assert application_sees(primary, schema_name) == (1, 25)
    assert flags.renew(1, 25, 60.0)
    left = flags.read().expires_in_s
    assert left is not None
    assert left <= 60
    sql(primary, f"UPDATE {schema_name}.flag SET expires_at = expires_at - INTERVAL %s HOUR", (hours,))
    flags.lower(None)
    assert application_sees(primary, schema_name) == (0, 0)


def test_an_expired_flag_opens_again_only_after_it_was_lowered(flags: MysqlFlags) -> None:
    flags.open(1, 0.05)
    wait_for(lambda: _expired(flags), 5)
    flags.lower(1)
    with pytest.raises(Held):
        flags.set_percent(1, 5, 60.0)
    flags.open(1, 60.0)
    flags.set_percent(1, 5, 60.0)
    assert flags.read().effective_percent == 5


def test_a_renewal_is_for_the_percent_that_stands(flags: MysqlFlags) -> None:
    flags.open(1, 60.0)
    flags.set_percent(1, 5, 60.0)
    assert flags.renew(1, 5, 90.0)
    left = flags.read().expires_in_s
    assert left is not None
    assert left > 80
    assert not flags.renew(1, 25, 900.0)
    still = flags.read().expires_in_s
    assert still is not None
    assert still <= 90


def test_a_kept_flag_never_expires_and_keeping_twice_is_the_same(flags: MysqlFlags) -> None:
    flags.open(1, 60.0)
    flags.set_percent(1, 100, 60.0)
    assert flags.keep(1, 100)
    assert flags.keep(1, 100)
    assert flags.read() == FlagFacts(True, True, 100, False, None, 1)
    assert not flags.keep(1, 50)


@pytest.mark.parametrize("word", ["open", "set_percent", "lower", "raise_double_writes", "lower_double_writes"])
def test_a_write_under_an_old_epoch_is_fenced(primary: Server, schema_name: str, flags: MysqlFlags, word: str) -> None:
    store = MysqlStore(settings_of(primary, schema_name), SystemClock())
    with store.lease(ID, "kim") as lease:
        flags.open(lease.epoch, 60.0)
        flags.set_percent(lease.epoch, 5, 60.0)
        if word == "lower_double_writes":
            flags.raise_double_writes(lease.epoch)
    store.bump_epoch(ID)
    store.close()
    before = sql(primary, f"SELECT * FROM {schema_name}.flag")
    writes = {
        "open": lambda: flags.open(lease.epoch, 60.0),
        "set_percent": lambda: flags.set_percent(lease.epoch, 25, 60.0),
        "lower": lambda: flags.lower(lease.epoch),
        "raise_double_writes": lambda: flags.raise_double_writes(lease.epoch),
        "lower_double_writes": lambda: flags.lower_double_writes(lease.epoch),
    }
    with pytest.raises(Fenced):
        writes[word]()
    assert not flags.renew(lease.epoch, 5, 60.0)
    assert not flags.keep(lease.epoch, 5)
    assert sql(primary, f"SELECT * FROM {schema_name}.flag") == before


def test_a_row_that_is_missing_is_not_made_under_an_old_epoch(
    primary: Server, schema_name: str, flags: MysqlFlags
) -> None:
    store = MysqlStore(settings_of(primary, schema_name), SystemClock())
    with store.lease(ID, "kim") as lease:
        store.create(*begin(epoch=lease.epoch))
    store.bump_epoch(ID)
    store.close()
    for makes in (lambda: flags.open(lease.epoch, 60.0), lambda: flags.raise_double_writes(lease.epoch)):
        with pytest.raises(Fenced):
            makes()
    assert flags.read() == FlagFacts(exists=False)


def test_double_writes_outlive_the_watcher_and_whatever_is_done_to_the_readers(
    primary: Server, schema_name: str, flags: MysqlFlags
) -> None:
    """It is the mirror: going back is harmless because of it, so nothing of going back lowers it."""
    flags.raise_double_writes(1)
    facts = flags.read()
    assert (facts.double_writes, facts.raised, facts.effective_percent) == (True, False, 0)
    flags.open(1, 60.0)
    flags.set_percent(1, 5, 60.0)
    flags.lower(None)
    sql(primary, f"UPDATE {schema_name}.flag SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 DAY")
    assert flags.read().double_writes
    flags.open(1, 60.0)
    flags.keep(1, 0)
    assert flags.read().double_writes
    flags.lower_double_writes(1)
    assert (flags.read().double_writes, flags.read().new_writes) == (False, True)


def test_moving_readers_without_a_flag_is_fenced(flags: MysqlFlags) -> None:
    with pytest.raises(Fenced):
        flags.set_percent(1, 5, 60.0)
    assert flags.read() == FlagFacts(exists=False)


@pytest.mark.parametrize("state", ["missing", "open", "raised", "expired", "kept", "lowered"])
def test_lowering_needs_no_lease_and_works_from_any_state(
    primary: Server, schema_name: str, flags: MysqlFlags, state: str
) -> None:
    if state != "missing":
        flags.open(7, 60.0)
    if state in ("raised", "expired", "kept"):
        flags.set_percent(7, 25, 0.05 if state == "expired" else 60.0)
    if state == "expired":
        wait_for(lambda: _expired(flags), 5)
    if state == "kept":
        assert flags.keep(7, 25)
    if state == "lowered":
        flags.lower(7)
    flags.lower(None)
    assert application_sees(primary, schema_name) in (None, (0, 0))
    assert not flags.renew(7, 0, 60.0)
    assert not flags.renew(7, 25, 60.0)


def test_who_lowers_without_a_lease_leaves_the_readers_of_a_finished_rollout(
    primary: Server, schema_name: str, flags: MysqlFlags
) -> None:
    """Its mirror is gone: on the old column they would read what nobody keeps in step any more."""
    store = MysqlStore(settings_of(primary, schema_name), SystemClock())
    with store.lease(ID, "kim") as lease:
        record = store.create(*begin(epoch=lease.epoch))
        record = store.save(*moved(record, EventKind.STARTED, FINISH))
        flags.open(lease.epoch, 60.0)
        flags.set_percent(lease.epoch, 100, 60.0)
        flags.keep(lease.epoch, 100)
        store.save(*moved(record, EventKind.FINISHED, FINISH))
    flags.lower(None)
    assert application_sees(primary, schema_name) == (1, 100)
    store.close()


def test_the_salt_is_random_and_stays_between_walks(primary: Server, schema_name: str, flags: MysqlFlags) -> None:
    def salt(id: str) -> str:
        return str(sql(primary, f"SELECT salt FROM {schema_name}.flag WHERE rollout = %s", (id,))[0][0])

    flags.open(1, 60.0)
    first = salt(ID)
    flags.lower(None)
    flags.open(1, 60.0)
    assert salt(ID) == first
    other = MysqlFlags(settings_of(primary, schema_name), "other", SystemClock())
    other.open(1, 60.0)
    other.close()
    assert len(first) == 16
    assert salt("other") != first


def test_a_wait_for_the_row_does_not_make_an_expired_flag_look_alive(
    primary: Server, schema_name: str, flags: MysqlFlags
) -> None:
    flags.open(1, 60.0)
    flags.set_percent(1, 25, 1.0)
    answers: list[bool] = []
    with closing(connect(primary, autocommit=False)) as blocker, blocker.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {schema_name}.flag WHERE rollout = %s FOR UPDATE", (ID,))
        renewing = threading.Thread(target=lambda: answers.append(flags.renew(1, 25, 60.0)))
        renewing.start()
        wait_for(lambda: application_sees(primary, schema_name) == (0, 0), 5)
        blocker.rollback()
        renewing.join()
    assert answers == [False]
    assert application_sees(primary, schema_name) == (0, 0)


@pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.REQUEST])
def test_a_write_whose_answer_or_request_was_lost_is_done_in_the_end(
    primary: Server, schema_name: str, flags: MysqlFlags, loss: Loss
) -> None:
    flags.open(1, 60.0)
    with lossy_way(primary) as way:
        far = MysqlFlags(replace(settings_of(primary, schema_name), port=way.port), ID, SystemClock())
        far.read()
        way.lose = loss
        far.set_percent(1, 50, 60.0)
        assert way.lost == 1
        far.close()
    assert application_sees(primary, schema_name) == (1, 50)


def test_a_write_without_any_answer_cannot_say_in_time_and_leaves_a_last_line(
    primary: Server, schema_name: str, flags: MysqlFlags, tmp_path: Path
) -> None:
    flags.open(1, 60.0)
    with lossy_way(primary) as way:
        settings = replace(settings_of(primary, schema_name), port=way.port)
        far = MysqlFlags(settings, ID, SystemClock(), timeout_s=0.5, journal_path=tmp_path / "journal.log")
        far.read()
        way.lose = Loss.SILENCE
        with pytest.raises(CannotSay, match=str(tmp_path)):
            far.lower(None)
        (line,) = (tmp_path / "journal.log").read_text().splitlines()
        assert f"{ID} flag: lowering" in line
        far.close()


def test_what_the_plan_shows_is_what_is_sent(primary: Server, schema_name: str, flags: MysqlFlags) -> None:
    flags.open(3, 60.0)
    flags.set_percent(3, 5, 90.0)
    shown = {
        "percent": flag_sql.describe_percent(ID, 25, 90.0, schema_name),
        "keep": flag_sql.describe_keep(ID, 25, schema_name),
        "lower": flag_sql.describe_lower(ID, schema_name),
        "open": flag_sql.describe_open(ID, 60.0, schema_name),
    }
    with general_log(primary):
        flags.set_percent(3, 25, 90.0)
        flags.keep(3, 25)
        flags.lower(3)
        flags.open(3, 60.0)
        sent = said(primary)
    for name, (packet,) in shown.items():
        for statement in packet.split(";\n"):
            text = statement.replace(":epoch", "3").split(":salt")[0]
            assert any(line.startswith(text) for line in sent), (name, statement)
