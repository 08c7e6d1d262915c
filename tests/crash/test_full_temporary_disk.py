"""The disk on which the server keeps temporary tables of queries is full: a question of ours gets no answer, its reason
is said, nothing is changed, and with room the same command comes through."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import Exit
from orchestrator.sandbox.pair import Pair
from tests.support.disks import full, small_disk
from tests.support.servers import guarded_pair
from tests.support.small import small

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(300)]
_DISK_BYTES = 64 * 1024 * 1024
# Else the check would see that so small a disk is too small.
UNSEEN = ("checks: {max_wait: 1s}", "checks: {max_wait: 1s, disk: {from: {none: it fills up in this test}}}")


@pytest.fixture
def cramped(tmp_path: Path) -> Iterator[tuple[Pair, Path]]:
    """A pair whose primary keeps temporary tables on a small disk when they do not stay in memory."""
    with guarded_pair() as pair, small_disk(tmp_path / "temporary", _DISK_BYTES) as disk:
        pair.primary.stop()
        little = ("--temptable-max-ram=2097152", "--temptable-max-mmap=0", f"--tmpdir={disk}")
        pair.primary.argv = (*pair.primary.argv, *little, f"--innodb-temp-tablespaces-dir={disk}")
        pair.primary.start()
        pair.primary.wait_ready()
        yield pair, disk
        pair.primary.stop(0)


def test_a_question_without_room_for_its_temporary_table_stops_with_the_reason_and_is_asked_again_with_room(
    cramped: tuple[Pair, Path], tmp_path: Path
) -> None:
    """Its own books are such questions, too."""
    pair, disk = cramped
    with small(pair, tmp_path) as here:
        here.write(UNSEEN)
        shape = here.sql(f"SHOW CREATE TABLE {here.table}")
        with full(disk):
            ran = here.terminal.run("next", "-y", "--json", expect=Exit.HELD)
        assert "is full" in ran.json["seen"], ran.out
        assert "free space" in ran.json["next"]
        assert here.sql(f"SHOW CREATE TABLE {here.table}") == shape
        assert here.sql("SHOW DATABASES LIKE '\\\\_rollout\\\\_scratch%%'") == []
        here.terminal.run("next", "-y")
        assert "KEY `orders_state_idx`" in here.sql(f"SHOW CREATE TABLE {here.table}")[0][1]
