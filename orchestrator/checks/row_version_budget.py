"""INSTANT columns use up row versions; at the limit the server would rebuild the table instead."""

from __future__ import annotations

from orchestrator.checks.reading import EXCLUSIVE, NEVER, Given, given, passes, refuses
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Limits, Runbook
from orchestrator.model.verdict import Verdict


class RowVersionBudget:
    """One version for all new columns together. Nothing is needed when they are there already."""

    name = "row-version-budget"
    needs = frozenset({Need.ROW_VERSIONS, Need.SHAPE})
    before = frozenset({EXCLUSIVE})
    during = NEVER

    def __init__(self, runbook: Runbook) -> None:
        self._contract = runbook.contract

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        limit = "one row version left for all new columns"
        got_shape = given(self.name, facts.shape, limits, now, limit)
        if isinstance(got_shape, Given) and all(got_shape.value.column(c.name) for c in self._contract.columns):
            return passes(self.name, "none needed: every column is there", limit)
        got = given(self.name, facts.row_versions, limits, now, limit)
        if not isinstance(got, Given):
            return got
        used, most = got.value.used, got.value.limit
        if used + 1 > most and self._contract.allow_rebuild:
            return passes(self.name, f"{used} of {most} used; the table is rebuilt, as allow_rebuild says", limit)
        if used + 1 > most:
            next = f"rebuild {self._contract.table} first (ALTER TABLE … FORCE copies it, and resets the count)"
            return refuses(self.name, f"{used} of {most} used", limit, next)
        return passes(self.name, f"{used} of {most} used", limit)
