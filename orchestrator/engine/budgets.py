"""What a plan uses up and what there is of it. Estimates, and said so; what cannot be seen is said so too."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from orchestrator.model.cost import Cost, cost_of, together
from orchestrator.model.facts import Facts
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import AddIndex, ExclusiveDdlStep, Step, StepClass, step_class


class Budget(Struct, frozen=True):
    name: str
    need: str
    have: str
    fits: bool | None


def costs(facts: Facts, runbook: Runbook, steps: Sequence[Step]) -> list[Cost]:
    """Of each step, in their order."""
    size = facts.size.value if facts.size is not None else None
    server = facts.server.value if facts.server is not None else None
    return [cost_of(s, size, server, runbook.phases.final_lock_budget_s) for s in steps]


def budgets(facts: Facts, runbook: Runbook, steps: Sequence[Step], now: datetime) -> tuple[Budget, ...]:
    """``steps``: all that are planned. Raises nothing."""
    need = together(costs(facts, runbook, steps))
    return (
        _locks(steps, need, runbook),
        *_hours(runbook, now),
        _row_versions(facts, need),
        *(_room(facts, need) if facts.size is not None and facts.size.value is not None else ()),
        *_online_log(facts, steps),
        _replicas(facts, need),
        Budget("killing", str(runbook.limits.kill), "checks.metadata_locks.kill", None),
    )


def _locks(steps: Sequence[Step], need: Cost, runbook: Runbook) -> Budget:
    """How often, and how long at worst."""
    limits = runbook.limits
    ends = sum(1 for s in steps if isinstance(s, AddIndex)) or int(need.last_lock_s > 0)
    exclusive = sum(1 for s in steps if step_class(s) is StepClass.EXCLUSIVE)
    said = f"{exclusive} × up to {limits.stall_budget_s * 1000:.0f} ms"
    if ends:
        said += f", {ends} × up to {need.last_lock_s:g} s at an end"
    last_s = runbook.phases.final_lock_budget_s
    have = f"stall_budget {limits.stall_budget_s * 1000:.0f} ms, final_lock_budget {last_s:g} s"
    return Budget("locks", said if exclusive else "none", have, True)


def _hours(runbook: Runbook, now: datetime) -> tuple[Budget, ...]:
    window = runbook.phases.window
    if window is None:
        return ()
    opens_s = window.opens_in_s(now)
    have = f"opens in {opens_s / 3600:.1f} h" if opens_s else "open now"
    return (Budget("window", f"exclusive locks inside {window}", have, opens_s < runbook.limits.max_wait_s),)


def _row_versions(facts: Facts, need: Cost) -> Budget:
    versions = facts.row_versions.value if facts.row_versions is not None else None
    have = f"{versions.limit} ({versions.used} used)" if versions is not None else "unseen"
    fits = versions.used + need.row_versions <= versions.limit if versions is not None else None
    return Budget("row versions", str(need.row_versions), have, fits)


def _room(facts: Facts, need: Cost) -> tuple[Budget, ...]:
    disk = facts.disk.value if facts.disk is not None else None
    free = disk.free_bytes if disk is not None else None
    server = facts.server.value if facts.server is not None else None
    kept = f"kept {server.binlog_retention_s / 86400:.0f} d, " if server is not None else ""
    return (
        Budget("disk", f"{readable(need.disk_bytes)}, and {readable(need.temporary_bytes)} while it works",
               f"{readable(free)} free", None if free is None else need.peak_bytes < free),
        Budget("binary log", readable(need.binlog_bytes), f"{kept}{readable(free)} free",
               None if free is None else need.binlog_bytes < free),
    )  # fmt: skip


def _online_log(facts: Facts, steps: Sequence[Step]) -> tuple[Budget, ...]:
    """What the application writes while a table is rebuilt, or an index built, is kept until the end. A busy table may
    write more than that may be, and then hours of work are lost; nobody can say so before, so it is only told."""
    indexes = sum(1 for s in steps if isinstance(s, AddIndex))
    rebuilds = sum(
        1 for s in steps if isinstance(s, ExclusiveDdlStep) and s.way.rebuilds and not isinstance(s, AddIndex)
    )
    during = [f"{n} {what}" for n, what in ((rebuilds, "rebuilds of the table"), (indexes, "index builds")) if n]
    if not during:
        return ()
    server = facts.server.value if facts.server is not None else None
    size = readable(server.online_log_max_bytes if server is not None else None)
    return (
        Budget(
            "online log",
            f"the application's writes during {' and '.join(during)}; one that meets more is lost (1799)",
            f"{size} for each: raise innodb_online_alter_log_max_size for a busy table, or take a quiet hour or gh-ost",
            None,
        ),
    )


def _replicas(facts: Facts, need: Cost) -> Budget:
    """A statement runs on a replica as long as it ran on the primary, and everything waits behind it."""
    names = [r.name for r in facts.replicas.value or ()] if facts.replicas is not None and facts.replicas.seen else None
    have = "unseen" if names is None else (" ".join(names) or "none")
    return Budget("replicas stand still", f"up to {need.replica_s:.0f} s", have, None)


def readable(size: int | None) -> str:
    if size is None:
        return "unseen"
    return f"{size / 2**30:.0f} GiB" if size >= 10 * 2**30 else f"{size / 2**20:.0f} MiB"
