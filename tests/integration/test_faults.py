"""What happens to a server or to the state under a rollout: a clear end, and nothing that was not meant.

The table of faults, expected outcome first, is in docs/reliability.md.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.errors import Exit, RolloutError
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from tests.support.meanwhile import ROW_BY_ROW, Somebody, ends
from tests.support.servers import script
from tests.support.small import Small, small
from tests.support.within import opened

ROWS = 40
LONG = (pytest.mark.slow, pytest.mark.faults)
RIGHT = "SELECT COUNT(*) FROM {t} WHERE NOT (state <=> IF(status = 'new', 'pending', 'succeeded'))"


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(
        pair, tmp_path, rows=", ".join(f"({n}, IF({n} % 2, 'new', 'done'), NULL)" for n in range(1, ROWS + 1))
    ) as at:
        at.write(ROW_BY_ROW)
        yield at


def wrong_rows(here: Small) -> int:
    return int(here.sql(RIGHT.format(t=here.table))[0][0])


def goes_on(here: Small, *phases: str) -> None:
    """The same commands again, with nobody about."""
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        for phase in phases:
            app.commands.next(phase)


def refuses(here: Small) -> RolloutError:
    """The error of the next stage, whichever that is."""
    with opened(load(here.terminal.runbook), here.pair.primary) as app, pytest.raises(RolloutError) as refused:
        app.commands.next(None)
    return refused.value


def executed(here: Small) -> str:
    return str(here.sql("SELECT @@GLOBAL.gtid_executed")[0][0])


class Demotion:
    """The primary is demoted by that setting; ``gtids`` as they were then."""

    def __init__(self, here: Small, setting: str) -> None:
        self.here, self.setting, self.gtids = here, setting, ""

    def __call__(self) -> None:
        script(self.here.pair.primary, f"SET GLOBAL {self.setting} = 1")
        self.gtids = executed(self.here)

    def undo(self) -> None:
        script(self.here.pair.primary, "SET GLOBAL super_read_only = 0; SET GLOBAL read_only = 0")


@pytest.mark.parametrize("setting", ["read_only", pytest.param("super_read_only", marks=LONG)])
def test_not_one_transaction_reaches_a_demoted_primary_also_of_an_account_with_super(here: Small, setting: str) -> None:
    """B91, at each kind of write: DDL, a batch, a trigger, a flag, and what keeps the state; then it goes on."""
    moments = (
        ("ddl", Somebody(lambda: None, before="add-index:orders_state_idx")),
        ("backfill", Somebody(lambda: None, during="fill:backfill")),
        ("shadow-write", Somebody(lambda: None, before="install-trigger:insert")),
        ("read-switch", Somebody(lambda: None, before="set-percent:50")),
    )
    for phase, somebody in moments:
        demotion = Demotion(here, setting)
        somebody.act = demotion
        began = time.monotonic()
        try:
            error = ends(here, somebody, phase)
            assert executed(here) == demotion.gtids, f"{phase}: {error.seen}"
        finally:
            demotion.undo()
        assert error.exit_code is Exit.CONFIGURATION, f"{phase}: {error.exit_code} {error.seen}"
        assert time.monotonic() - began < 20, f"{phase} waited for what does not come back"
        goes_on(here, phase)
    demotion = Demotion(here, setting)
    demotion()
    try:
        with opened(load(here.terminal.runbook), here.pair.primary) as app, pytest.raises(RolloutError) as back:
            app.commands.rollback("", ())
        assert executed(here) == demotion.gtids
    finally:
        demotion.undo()
    assert back.value.exit_code is Exit.CONFIGURATION
    goes_on(here, "verify")
    assert wrong_rows(here) == 0


def copied(here: Small, source: str, target: str) -> None:
    """Every table of the schema ``source``, as ``target``."""
    of = here.sql("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s", source)
    made = (
        f"CREATE TABLE {target}.{t} LIKE {source}.{t}; INSERT {target}.{t} SELECT * FROM {source}.{t}" for (t,) in of
    )
    script(here.pair.primary, "; ".join((f"DROP DATABASE IF EXISTS {target}; CREATE DATABASE {target}", *made)))


@contextmanager
def kept(here: Small) -> Iterator[Callable[[], None]]:
    """A backup of the state as it stands now; what is yielded puts it back."""
    backup = f"_kept_{uuid.uuid4().hex[:8]}"
    copied(here, "_rollout", backup)
    try:
        yield lambda: copied(here, backup, "_rollout")
    finally:
        script(here.pair.primary, f"DROP DATABASE {backup}")


def test_a_state_that_is_older_than_the_mirror_is_refused_and_nothing_is_overwritten(here: Small) -> None:
    """Dropped, or put back from yesterday's backup: new applications have written since, and a sweep by the old truth
    would write over it."""
    goes_on(here, "ddl", "backfill")
    with kept(here) as yesterday:
        goes_on(here, "shadow-write", "read-switch")
        here.sql(f"UPDATE {here.table} SET state = 'cancelled' WHERE id = 7")
        rows = here.sql(f"CHECKSUM TABLE {here.table}")
        with kept(here) as newest:
            for older in (yesterday, lambda: script(here.pair.primary, "DROP DATABASE _rollout")):
                older()
                with (
                    opened(load(here.terminal.runbook), here.pair.primary) as app,
                    pytest.raises(RolloutError) as refused,
                ):
                    app.commands.next(None)
                assert refused.value.exit_code is Exit.CONFIGURATION
                assert "the mirror stands" in refused.value.seen
                assert "put the state schema back" in refused.value.next
                assert here.sql(f"CHECKSUM TABLE {here.table}") == rows
            newest()
    goes_on(here, "verify")
    assert here.sql(f"CHECKSUM TABLE {here.table}") == rows


def old_epoch(here: Small) -> None:
    here.sql("UPDATE _rollout.rollout SET epoch = epoch - 1, revision = revision - 1")
    here.sql("UPDATE _rollout.lease SET epoch = epoch - 1")
    here.sql("UPDATE _rollout.position SET epoch = epoch - 1")


def dropped(here: Small) -> None:
    script(here.pair.primary, "DROP DATABASE _rollout")


def altered(here: Small) -> None:
    here.sql("ALTER TABLE _rollout.position DROP COLUMN rows_skipped")


@pytest.mark.parametrize(
    ("act", "code", "said"),
    [
        (dropped, Exit.CONFIGURATION, "_rollout"),
        (altered, Exit.PHASE_FAILED, "rows_skipped"),
        pytest.param(old_epoch, Exit.HELD, "another holder|was lost", marks=LONG),
    ],
)
def test_a_state_that_changes_under_a_backfill_ends_it_at_once_and_no_row_is_wrong(
    here: Small, act: Callable[[Small], object], code: Exit, said: str
) -> None:
    """A state that is gone before the mirror stands is begun anew; else the backup is put back, and it goes on."""
    goes_on(here, "ddl")
    with kept(here) as back:
        began = time.monotonic()
        error = ends(here, Somebody(lambda: act(here), during="fill:backfill"), "backfill")
        assert time.monotonic() - began < 20, "it waited for what does not come back"
        assert error.exit_code is code, error.seen
        assert re.search(said, error.seen)
        assert int(here.sql(f"SELECT COUNT(*) FROM {here.table} WHERE state IS NULL")[0][0]) > 0, "it wrote on"
        if act is dropped:
            goes_on(here, "ddl")
        else:
            back()
    goes_on(here, "backfill")
    assert wrong_rows(here) == 0
