"""A replica whose threads stand still loses what we write until somebody looks; while readers move, they go back."""

from __future__ import annotations

from orchestrator.checks.reading import EVERY, READS, ROWS, Given, given, holds, passes, unseen
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Limits, ReplicaPolicy
from orchestrator.model.verdict import Verdict

_LIMIT = "both threads run on every replica"


class ReplicaHealth:
    """Delayed replicas count too: delayed is not broken."""

    name = "replica-health"
    needs = frozenset({Need.REPLICAS})
    before = EVERY
    during = frozenset({ROWS, READS})

    def __init__(self, policy: ReplicaPolicy) -> None:
        self._policy = policy

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        got = given(self.name, facts.replicas, limits, now, _LIMIT)
        if not isinstance(got, Given):
            return got
        reached = [r for r in got.value if r.reachable]
        broken = [r for r in reached if not (r.io_running and r.sql_running)]
        if broken:
            seen = "; ".join(f"{r.name}: {r.problem or 'stopped'}" for r in broken)
            # An IO thread between two tries may be a moment's network: it holds, and turns nobody back.
            stopped = any(not r.connecting or not r.sql_running for r in broken)
            return holds(
                self.name, seen, seen, _LIMIT, "START REPLICA there, after mending what it says", goes_back=stopped
            )
        away = [r for r in got.value if not r.reachable]
        if away:
            return unseen(self.name, "; ".join(f"{r.name} is out of reach: {r.problem}" for r in away), _LIMIT)
        if self._policy.kind == "none":
            return passes(self.name, f"no replica is watched: {self._policy.reason}", _LIMIT)
        return passes(self.name, f"{len(got.value)} of {len(got.value)} healthy", _LIMIT)
