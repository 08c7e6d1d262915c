"""What a plan uses up that does not come back by itself: row versions, disk, binary log. Estimates, and said so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.model.facts import Facts

_BINLOG_BYTES_A_ROW = 400


@dataclass(frozen=True, slots=True)
class Budget:
    name: str
    need: str
    have: str
    fits: bool | None


def budgets(facts: Facts, steps: Sequence[str]) -> tuple[Budget, ...]:
    """``steps`` are the keys of all steps that are planned. Raises nothing: what cannot be seen is said so."""
    found = []
    versions = facts.row_versions.value if facts.row_versions is not None else None
    instant = "add-columns" in steps
    have = f"{versions.limit} ({versions.used} used)" if versions is not None else "unseen"
    fits = versions.used + int(instant) <= versions.limit if versions is not None else None
    found.append(Budget("row versions", str(int(instant)), have, fits))
    size = facts.size.value if facts.size is not None else None
    indexes = sum(1 for key in steps if key.startswith("add-index"))
    if size is not None:
        need = indexes * max(1, size.data_bytes // 8)
        disk = facts.disk.value.free_bytes if facts.disk is not None and facts.disk.value is not None else None
        found.append(Budget("disk", _mib(need), _mib(disk), None if disk is None else need < disk))
        fills = sum(1 for key in steps if key.startswith("fill"))
        log = size.rows_estimate * _BINLOG_BYTES_A_ROW * min(fills, 1)
        server = facts.server.value if facts.server is not None else None
        kept = f"{server.binlog_retention_s / 86400:.0f} d retention" if server is not None else "unseen"
        found.append(Budget("binary log", _mib(log), kept, None if disk is None else log < disk))
    return tuple(found)


def _mib(size: int | None) -> str:
    if size is None:
        return "unseen"
    return f"{size / 2**30:.0f} GiB" if size >= 10 * 2**30 else f"{size / 2**20:.0f} MiB"
