"""A server that is busy already gets no work from us on top: threads that run, and undo that waits for purge."""

from __future__ import annotations

from orchestrator.checks.reading import EXCLUSIVE, ROWS, Given, given, holds, passes, unseen
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Limits
from orchestrator.model.verdict import Verdict


class ThreadsRunning:
    name = "threads-running"
    needs = frozenset({Need.LOAD})
    before = frozenset({EXCLUSIVE, ROWS})
    during = frozenset({ROWS})

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        limit = f"{limits.threads_running} threads"
        got = given(self.name, facts.load, limits, now, limit)
        if not isinstance(got, Given):
            return got
        running = got.value.threads_running
        if running > limits.threads_running:
            return holds(self.name, f"{running} > {limits.threads_running}", f"{running} threads", limit)
        return passes(self.name, f"{running} threads", limit)


class HistoryList:
    name = "history-list"
    needs = frozenset({Need.LOAD})
    before = frozenset({ROWS})
    during = frozenset({ROWS})

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        limit = f"{limits.history_list} undo records"
        got = given(self.name, facts.load, limits, now, limit)
        if not isinstance(got, Given):
            return got
        length = got.value.history_list
        if length is None:
            why = "the history list needs PROCESS and the InnoDB counter trx_rseg_history_len"
            return unseen(self.name, why, limit, "rollout doctor")
        if length > limits.history_list:
            reason = f"{length} > {limits.history_list}"
            return holds(
                self.name, reason, f"{length} undo records", limit, "end long transactions, so that purge goes on"
            )
        return passes(self.name, f"{length} undo records", limit)
