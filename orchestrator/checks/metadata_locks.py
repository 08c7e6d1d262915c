"""An ALTER that waits makes every later statement on the table wait: nobody may hold or want its locks for long."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.checks.reading import EXCLUSIVE, NEVER, Given, given, holds, passes
from orchestrator.model.facts import BlockerKind, Facts, Holder, Need
from orchestrator.model.runbook import Limits
from orchestrator.model.verdict import Verdict

# These stop any ALTER however young they are; a transaction or a statement that has just begun is the daily traffic.
_AT_ANY_AGE = frozenset(
    {
        BlockerKind.LOCK_TABLES,
        BlockerKind.GLOBAL_READ_LOCK,
        BlockerKind.BACKUP_LOCK,
        BlockerKind.HANDLER,
        BlockerKind.PREPARED_XA,
        BlockerKind.DDL,
    }
)


def blockers(holders: Sequence[Holder], limits: Limits) -> list[Holder]:
    """Who would make an ALTER wait for long, the worst first: by kind, by age, or by waiting themselves."""
    found = [h for h in holders if h.waiting or h.kind in _AT_ANY_AGE or h.age_s > limits.metadata_lock_age_s]
    return sorted(found, key=lambda h: -h.age_s)


def advice(holder: Holder) -> str:
    """What frees the lock."""
    if holder.kind is BlockerKind.PREPARED_XA:
        return "XA RECOVER, then XA COMMIT or XA ROLLBACK of that transaction, by whoever owns it"
    if holder.process_id is None:
        return "look at who owns that lock"
    return f"let it end, or ask its owner; KILL {holder.process_id} ends it"


class MetadataLocks:
    name = "metadata-locks"
    needs = frozenset({Need.LOCKS})
    before = frozenset({EXCLUSIVE})
    during = NEVER

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        limit = f"no holder older than {limits.metadata_lock_age_s:g} s, nobody waits"
        got = given(self.name, facts.locks, limits, now, limit)
        if not isinstance(got, Given):
            return got
        bad = blockers(got.value, limits)
        if not bad:
            return passes(self.name, f"{len(got.value)} young holders" if got.value else "no holder", limit)
        more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        seen = f"{bad[0].age_s:.1f} s, {bad[0].kind.value}, id {bad[0].process_id}{more}"
        return holds(self.name, f"{bad[0]}{more}", seen, limit, advice(bad[0]))
