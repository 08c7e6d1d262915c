"""No replica that counts may be further behind than the limit; one of which nobody can say is never good."""

from __future__ import annotations

from orchestrator.checks.reading import EVERY, ROWS, Given, given, holds, passes, refuses, unseen
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Limits, ReplicaPolicy
from orchestrator.model.state import FINISH, GOES_BACK, ROLLBACK
from orchestrator.model.verdict import ProblemKind, Verdict


class ReplicationLag:
    name = "replication-lag"
    needs = frozenset({Need.REPLICAS})
    before = EVERY
    during = frozenset({ROWS})

    def __init__(self, policy: ReplicaPolicy) -> None:
        self._policy = policy

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        limit = f"{limits.replication_lag_s:.1f} s on the worst replica"
        got = given(self.name, facts.replicas, limits, now, limit)
        if not isinstance(got, Given):
            return got
        if not got.value and self._policy.kind != "none":
            return self._none_seen(facts.stage, limit)
        counted = [r for r in got.value if r.name not in self._policy.delayed]
        if not counted:
            return passes(self.name, self._none_counts(len(got.value)), limit)
        unknown = [r for r in counted if r.lag_s is None]
        if unknown:
            why = "; ".join(f"{r.name}: {r.problem or 'nobody can say how far behind it is'}" for r in unknown)
            return unseen(self.name, why, limit)
        lag_s, worst = max(((r.lag_s or 0.0, r) for r in counted), key=lambda pair: pair[0])
        if lag_s > limits.replication_lag_s:
            delayed = f" (it is delayed by {worst.delay_s} s on purpose)" if worst.delay_s else ""
            reason = f"{lag_s:.1f}s > {limits.replication_lag_s:.1f}s on {worst.name}{delayed}"
            next = f"name it under replicas: delayed, if it need not keep up: {worst.name}" if worst.delay_s else ""
            return holds(self.name, reason, f"{lag_s:.1f} s on {worst.name}", limit, next)
        strain = lag_s / limits.replication_lag_s if limits.replication_lag_s else 0.0
        return passes(self.name, f"{lag_s:.1f} s on {worst.name}", limit, strain)

    def _none_seen(self, stage: str, limit: str) -> Verdict:
        """One that is hidden (a firewall, Aurora's own kind) looks like none, and would never slow us; so does one that
        is down. The way back and the end wait for no replica."""
        seen = "the primary has no replica that can be seen"
        next = "bring it back; name them, replicas: [HOST:PORT]; or write replicas: {none: WHY} into the runbook"
        if stage in (ROLLBACK, FINISH):
            return passes(self.name, seen, limit)
        if stage in GOES_BACK:
            return holds(self.name, seen, seen, limit, next)
        wanted = "a replica, or the runbook's word that there is none"
        return refuses(self.name, seen, wanted, next, ProblemKind.HELD)

    def _none_counts(self, watched: int) -> str:
        if self._policy.kind == "none":
            return f"no replica is watched: {self._policy.reason}"
        return f"all {watched} replicas are named as delayed"
