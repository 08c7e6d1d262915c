"""The disk of the binary log is full: commits hang, ours and everybody's, and killing one can end the server (facts of
MySQL, tried). So nothing is killed, nobody is left waiting for us, and readers are back by the server's clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.errors import Exit
from orchestrator.sandbox.pair import Pair
from tests.support.disks import binary_log_in, full, small_disk
from tests.support.servers import guarded_pair, wait_for
from tests.support.small import Small, small

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.faults, pytest.mark.timeout(400)]
_DISK_BYTES = 24 * 1024 * 1024
TTL_S = 4.0
# Else the check would see that so small a disk is too small.
UNSEEN = ("checks: {max_wait: 1s}", "checks: {max_wait: 1s, disk: {from: {none: it fills up in this test}}}")
SEEN = "SELECT IF(expires_at > UTC_TIMESTAMP(6), read_percent, 0) FROM _rollout.flag"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", _DISK_BYTES) as place:
        yield place


@pytest.fixture
def own(disk: Path) -> Iterator[Pair]:
    """A pair whose primary writes its binary log there."""
    with guarded_pair() as pair:
        primary = pair.primary
        primary.stop()
        binary_log_in(primary, disk)
        primary.start()
        primary.wait_ready()
        yield pair


def test_80_when_the_disk_of_the_binary_log_is_full_in_a_ramp_readers_are_back_and_nothing_is_killed(
    own: Pair, disk: Path, tmp_path: Path
) -> None:
    """B144, the half that hangs."""
    with small(own, tmp_path) as here:
        here.write(UNSEEN, ("hold: 200ms", "hold: 120s"), ("ttl: 4s", f"ttl: {TTL_S:g}s"))
        here.terminal.run("run", "--until", "shadow-write", "-y")
        watcher = here.terminal.start("next", "--phase", "read-switch", "-y", "--json")
        try:
            wait_for(lambda: here.sql(SEEN) == [(50,)], 60, "readers are at 50 %")
            pid = own.primary.pid
            with full(disk):
                stuck = threading.Thread(target=an_application_writes, args=(here,), daemon=True)
                stuck.start()
                wait_for(lambda: here.sql(SEEN) == [(0,)], TTL_S + 20, "readers are back")
                out, err = watcher.communicate(timeout=90)
                assert watcher.returncode == Exit.CANNOT_SAY, out + err
                assert "kill no session" in out
                journal = Path(here.terminal.environment["XDG_STATE_HOME"]) / "rollout" / "journal.log"
                assert "renewing the flag" in journal.read_text() or "lowering the flags" in journal.read_text()
                assert stuck.is_alive(), "the disk is full: commits hang"
                assert own.primary.pid == pid
                assert own.primary.alive(), own.primary.last_words()
            stuck.join(100)  # the server tries again once a minute
            assert not stuck.is_alive(), "with room, commits go on"
        finally:
            watcher.kill()
            watcher.communicate()
        here.write(UNSEEN)
        here.terminal.run("next", "--phase", "read-switch", "-y")
        assert here.sql(SEEN) == [(100,)]


def an_application_writes(here: Small) -> None:
    """More than what the last page of the log still has room for."""
    for number in range(100):
        here.sql(f"UPDATE {here.table} SET note = %s WHERE id = 1", f"waits {number}")
