"""What one step of a plan uses up: time, disk, binary log, row versions, locks, how long replicas stand still. Pure.

Estimates, and said so. Sources: measured on 9.7.4, 200,000 rows of 103 MB with 34 MB of indexes, two slow cores: an
index 0.3-0.6 s, a rebuild in place 7.6 s under load, rows filled 5,000-15,000 a second; other tables by their rows.
"""

from __future__ import annotations

from msgspec import Struct

from orchestrator.model.facts import ServerFacts, SizeFacts
from orchestrator.model.step import AddIndex, ExclusiveDdlStep, Fill, GhostAlter, Step, StepClass, step_class

_INDEX_ENTRY_BYTES = 64
_ROW_OVERHEAD_BYTES = 40
# Rows in a second, fast and slow.
_INDEX_RATE = (1_000_000, 150_000)
_REBUILD_RATE = (100_000, 15_000)
_FILL_RATE = (15_000, 5_000)
_COPY_RATE = (20_000, 3_000)
# gh-ost's start and end.
_AROUND_A_COPY_S = (3.0, 6.0)
_MOMENT_S = (0.05, 1.0)


class Cost(Struct, frozen=True):
    """``low_s`` and ``high_s``: a range of time. ``replica_s``: how long every replica stands still because the
    statement runs there as long. ``disk_bytes`` stay, ``temporary_bytes`` are given back. ``last_lock_s``: longest wait
    that its last lock may cause, 0 when it has none."""

    low_s: float = 0.0
    high_s: float = 0.0
    disk_bytes: int = 0
    temporary_bytes: int = 0
    binlog_bytes: int = 0
    replica_s: float = 0.0
    row_versions: int = 0
    exclusive_locks: int = 0
    last_lock_s: float = 0.0

    @property
    def peak_bytes(self) -> int:
        """The most that is written at one time and not yet given back."""
        return self.disk_bytes + self.temporary_bytes + self.binlog_bytes


def cost_of(step: Step, size: SizeFacts | None, server: ServerFacts | None, last_lock_s: float = 0.0) -> Cost:
    """``last_lock_s``: the runbook's final_lock_budget, for what rebuilds. Without ``size``, of an empty table."""
    rows, table_bytes = (size.rows_estimate, size.data_bytes + size.index_bytes) if size is not None else (0, 0)
    locks = int(step_class(step) is StepClass.EXCLUSIVE)
    if isinstance(step, GhostAlter):
        low_s, high_s = _range(rows, _COPY_RATE, _AROUND_A_COPY_S)
        copied = table_bytes + rows * _ROW_OVERHEAD_BYTES
        return Cost(low_s, high_s, temporary_bytes=table_bytes, binlog_bytes=copied, exclusive_locks=1)
    if isinstance(step, Fill):
        return Cost(*_range(rows, _FILL_RATE), binlog_bytes=fill_log_bytes(size))
    if not isinstance(step, ExclusiveDdlStep):
        return Cost(exclusive_locks=locks)
    way = step.way
    if way.rebuilds:
        low_s, high_s = _range(rows, _REBUILD_RATE)
        temporary = table_bytes + _online_log_bytes(server)
        return Cost(low_s, high_s, 0, temporary, 0, high_s, 0, locks, last_lock_s)
    if isinstance(step, AddIndex):
        low_s, high_s = _range(rows, _INDEX_RATE)
        tree = index_build_bytes(size, 1) // 2
        temporary = tree + _online_log_bytes(server)
        return Cost(low_s, high_s, tree, temporary, 0, high_s, 0, locks, step.final_lock_budget_s)
    return Cost(0.0, _MOMENT_S[1], row_versions=int(way.row_version), exclusive_locks=locks)


def index_build_bytes(size: SizeFacts | None, indexes: int) -> int:
    """64 bytes a row for each, or the table's index bytes shared among them if that is more; twice, for the tree and
    for the sort files while it is built."""
    if size is None or not indexes:
        return 0
    rows = max(1, size.rows_estimate)
    return 2 * indexes * max(rows * _INDEX_ENTRY_BYTES, size.index_bytes // max(1, indexes))


def fill_log_bytes(size: SizeFacts | None) -> int:
    """The binary log holds each row before and after, and 40 bytes."""
    return 2 * size.data_bytes + max(1, size.rows_estimate) * _ROW_OVERHEAD_BYTES if size is not None else 0


def _online_log_bytes(server: ServerFacts | None) -> int:
    """The most that the application's writes during an online build may take in temporary files."""
    return server.online_log_max_bytes if server is not None else 0


def _range(rows: int, rates: tuple[int, int], around_s: tuple[float, float] = _MOMENT_S) -> tuple[float, float]:
    return around_s[0] + rows / rates[0], around_s[1] + rows / rates[1]


def together(costs: list[Cost]) -> Cost:
    """Of steps that run one after the other: what stays adds up, of what is given back the greatest counts."""
    return Cost(
        low_s=sum(c.low_s for c in costs),
        high_s=sum(c.high_s for c in costs),
        disk_bytes=sum(c.disk_bytes for c in costs),
        temporary_bytes=max((c.temporary_bytes for c in costs), default=0),
        binlog_bytes=sum(c.binlog_bytes for c in costs),
        replica_s=max((c.replica_s for c in costs), default=0.0),
        row_versions=sum(c.row_versions for c in costs),
        exclusive_locks=sum(c.exclusive_locks for c in costs),
        last_lock_s=max((c.last_lock_s for c in costs), default=0.0),
    )
