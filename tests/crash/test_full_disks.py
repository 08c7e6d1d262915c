"""A disk without a byte left: of all the data while rows are filled, and of what a build sorts on. The server's reason
is said, nothing is lost, and with room the same command comes through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.drivers.ddl import NativeDdlDriver
from orchestrator.errors import Exit
from orchestrator.model.contract import Contract, Index, IndexPart
from orchestrator.model.outcome import Result, Seen
from orchestrator.model.step import AddIndex
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from tests.support.ddl import Beats, plain_table, site_on
from tests.support.disks import binary_log_in, data_on, full, small_disk
from tests.support.servers import guarded_pair, script, sql, wait_caught_up, wait_for
from tests.support.small import small

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(300)]
_DATA_BYTES = 320 * 1024 * 1024
_SORT_BYTES = 1024 * 1024
ROWS = 16_000
# Else the check would see that so small a disk is too small.
CHANGES = (
    ("phases:", "phases:\n  backfill: {max_batch: 50}"),
    ("checks: {max_wait: 1s}", "checks: {max_wait: 1s, disk: {from: {none: it fills up in this test}}}"),
)
FILLED = "SELECT COALESCE(MAX(rows_done), 0) FROM _rollout.position"


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[tuple[Pair, Path]]:
    """A pair whose primary has its data on a disk of its own, and the binary log, which would hang, beside it."""
    log = tmp_path / "log"
    log.mkdir()
    with guarded_pair() as pair:
        pair.primary.stop()
        binary_log_in(pair.primary, log)
        with data_on(pair.primary, _DATA_BYTES) as disk:
            pair.primary.start()
            pair.primary.wait_ready()
            yield pair, disk
            pair.primary.stop(0)


def test_b144_a_data_disk_that_is_full_ends_a_backfill_with_the_reason_and_the_same_command_goes_on(
    crowded: tuple[Pair, Path], tmp_path: Path
) -> None:
    """B144. The state stands on the same disk."""
    pair, disk = crowded
    with small(pair, tmp_path, rows="") as here:
        here.write(*CHANGES)
        here.sql(
            f"INSERT INTO {here.table} (id, status) SELECT a.i * 1000 + b.i, IF(b.i % 2, 'new', 'done') FROM"
            " (WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 15) SELECT i FROM n) AS a,"
            " (WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 999) SELECT i FROM n) AS b"
        )
        here.terminal.run("next", "-y")
        filling = here.terminal.start("next", "--phase", "backfill", "-y", "--json")
        try:
            wait_for(lambda: here.sql(FILLED)[0][0] > 0, 60, "a batch is done")
            with full(disk):
                out, err = filling.communicate(timeout=100)
                assert filling.returncode == Exit.PHASE_FAILED, out + err
                assert "is full" in out
                assert 0 < here.sql(FILLED)[0][0] < ROWS
        finally:
            filling.kill()
            filling.communicate()
        here.terminal.run("next", "--phase", "backfill", "-y")
        wrong = f"SELECT COUNT(*) FROM {here.table} WHERE NOT (state <=> IF(status = 'new', 'pending', 'succeeded'))"
        assert here.sql(f"SELECT COUNT(*) FROM {here.table}") == [(ROWS,)]
        wait_caught_up(pair)
        for server in (pair.primary, pair.replica):
            assert sql(server, wrong) == [(0,)]


def test_b144_a_build_that_has_no_room_to_sort_stops_with_the_reason_and_is_done_with_room(
    primary: Server, schema: str, tmp_path: Path
) -> None:
    """B144, the disk for temporary files."""
    table = plain_table(primary, schema, rows=20_000)
    wide = "ALTER TABLE t ADD COLUMN w VARCHAR(300) NOT NULL DEFAULT ''; UPDATE t SET w = REPEAT(SHA2(id, 256), 4)"
    script(primary, wide, schema)
    step = AddIndex(
        table=table,
        index=Index("w_idx", (IndexPart("w"), IndexPart("a"))),
        final_lock_budget_s=2.0,
        tries=3,
        family=(table,),
    )
    with small_disk(tmp_path / "sort", _SORT_BYTES) as disk:
        script(primary, f"SET GLOBAL innodb_tmpdir = '{disk}'")
        try:
            driver = NativeDdlDriver(site_on(primary, Contract(table, ())))
            outcome = driver.apply(step, Beats())
        finally:
            script(primary, "SET GLOBAL innodb_tmpdir = DEFAULT")
    assert outcome.result is Result.FAILED, outcome
    assert "no room" in outcome.note
    assert "innodb_tmpdir" in outcome.next
    driver = NativeDdlDriver(site_on(primary, Contract(table, ())))
    assert driver.observe(step, Beats()) is Seen.ABSENT
    assert driver.apply(step, Beats()).result is Result.DONE
