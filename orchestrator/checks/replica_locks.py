"""A reader that is open on a replica stops the replicated ALTER there, without a limit, and everything behind it."""

from __future__ import annotations

from orchestrator.checks.metadata_locks import advice, blockers
from orchestrator.checks.reading import EXCLUSIVE, NEVER, Given, given, holds, passes, unseen
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Limits
from orchestrator.model.verdict import Verdict


class ReplicaLocks:
    name = "replica-locks"
    needs = frozenset({Need.REPLICA_LOCKS})
    before = frozenset({EXCLUSIVE})
    during = NEVER

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        limit = f"no holder older than {limits.metadata_lock_age_s:g} s on any replica"
        got = given(self.name, facts.replica_locks, limits, now, limit)
        if not isinstance(got, Given):
            return got
        bad = [(r.name, h) for r in got.value for h in blockers(r.holders, limits)]
        if bad:
            where, worst = max(bad, key=lambda pair: pair[1].age_s)
            more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
            seen = f"{worst.age_s:.1f} s, {worst.kind.value}, id {worst.process_id} on {where}{more}"
            return holds(self.name, f"{worst} on {where}{more}", seen, limit, f"on {where}: {advice(worst)}")
        away = [r for r in got.value if not r.reachable]
        if away:
            return unseen(self.name, "; ".join(f"{r.name}: {r.problem}" for r in away), limit)
        return passes(self.name, f"no old holder on {len(got.value)} replicas", limit)
