"""A transaction that is open for long holds locks, keeps undo from being purged, and may meet 1412 after an ALTER."""

from __future__ import annotations

from orchestrator.checks.reading import EXCLUSIVE, NEVER, Given, given, holds, passes
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Limits
from orchestrator.model.verdict import Verdict


class LongTransactions:
    name = "long-transactions"
    needs = frozenset({Need.TRANSACTIONS})
    before = frozenset({EXCLUSIVE})
    during = NEVER

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        limit = f"none older than {limits.transaction_age_s:g} s"
        got = given(self.name, facts.transactions, limits, now, limit)
        if not isinstance(got, Given):
            return got
        oldest = max(got.value, key=lambda t: t.age_s, default=None)
        if oldest is None:
            return passes(self.name, "no open transaction", limit)
        if oldest.age_s <= limits.transaction_age_s:
            return passes(self.name, f"oldest {oldest.age_s:.1f} s of {len(got.value)}", limit)
        who = (
            f"{oldest.user}@{oldest.host} (id {oldest.process_id})"
            if oldest.process_id
            else "a prepared XA transaction"
        )
        last = f", last: {oldest.statement}" if oldest.statement else ""
        reason = f"{oldest.age_s:.1f}s > {limits.transaction_age_s:.1f}s by {who}, {oldest.rows_modified} rows{last}"
        return holds(self.name, reason, f"{oldest.age_s:.1f} s, {who}", limit, "let it end, or ask its owner to end it")
