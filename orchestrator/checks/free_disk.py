"""What we are about to write must fit: a full data disk fails the application's writes, a full binary log hangs them.

Only an estimate, from the sizes that InnoDB shows; it is rough on the safe side.
"""

from __future__ import annotations

from orchestrator.checks.reading import EXCLUSIVE, ROWS, Given, given, holds, passes, readable_bytes
from orchestrator.model.cost import fill_log_bytes, index_build_bytes
from orchestrator.model.facts import DiskFacts, Facts, Need, SizeFacts
from orchestrator.model.runbook import Limits, Runbook
from orchestrator.model.verdict import Verdict

RESERVE_BYTES = 2**30


def need_bytes(size: SizeFacts, runbook: Runbook) -> int:
    """A rough upper figure for what the whole rollout writes at one time, besides a reserve of 1 GiB.

    Each new index: 64 bytes a row, or the table's index bytes shared among the new ones if that is more, twice (the
    tree, and the sort files while it is built). Backfill and sweep: the binary log holds each row before and after, and
    40 bytes. The two do not run together, so the greater one counts.
    """
    build = index_build_bytes(size, len(runbook.contract.indexes))
    fill = fill_log_bytes(size) if runbook.contract.mappings else 0
    return RESERVE_BYTES + max(build, fill)


class FreeDisk:
    name = "free-disk"
    needs = frozenset({Need.DISK, Need.SIZE})
    before = frozenset({EXCLUSIVE, ROWS})
    during = frozenset({ROWS})

    def __init__(self, runbook: Runbook) -> None:
        self._runbook = runbook

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        got_size = given(self.name, facts.size, limits, now, "what the rollout needs")
        need = need_bytes(got_size.value, self._runbook) if isinstance(got_size, Given) else 0
        limit = f"{readable_bytes(need)} needed" if need else "what the rollout needs"
        got = given(self.name, facts.disk, limits, now, limit)
        if not isinstance(got, Given):
            return got
        disk: DiskFacts = got.value
        if disk.free_bytes is None:
            return passes(self.name, f"not looked at, as the runbook says ({disk.source})", limit)
        if not isinstance(got_size, Given):
            return got_size
        seen = f"{readable_bytes(disk.free_bytes)} free ({disk.source})"
        if disk.free_bytes < need:
            reason = f"{readable_bytes(disk.free_bytes)} < {readable_bytes(need)} on {disk.source}"
            return holds(self.name, reason, seen, limit, "make room, or purge binary logs that no replica needs")
        return passes(self.name, seen, limit)
