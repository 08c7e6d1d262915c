"""What is in the table under a name of the contract must be what the contract says; what is missing is ddl's work."""

from __future__ import annotations

from orchestrator.checks.reading import EVERY, NEVER, Given, given, passes, refuses
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Limits, Runbook
from orchestrator.model.shape_diff import compare_shape
from orchestrator.model.verdict import ProblemKind, Verdict


class ContractDrift:
    name = "contract-drift"
    needs = frozenset({Need.SHAPE})
    before = EVERY
    during = NEVER

    def __init__(self, runbook: Runbook) -> None:
        self._contract = runbook.contract

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        limit = "the contract's columns, indexes and foreign keys, or none of that name"
        got = given(self.name, facts.shape, limits, now, limit)
        if not isinstance(got, Given):
            return got
        diff = compare_shape(self._contract, got.value)
        if diff.different:
            seen = " · ".join(str(d) for d in diff.different)
            next = f"change the table or the contract so that they say the same about {diff.different[0].name}"
            return refuses(self.name, seen, limit, next, ProblemKind.RUNBOOK)
        if diff.complete:
            return passes(self.name, "the table has all that the contract adds", limit)
        counts = (
            (len(diff.columns_missing), "columns"),
            (len(diff.changes_missing), "changes"),
            (len(diff.indexes_missing), "indexes"),
            (len(diff.foreign_keys_missing), "foreign keys"),
        )
        return passes(self.name, "still to do: " + ", ".join(f"{n} {what}" for n, what in counts if n), limit)
