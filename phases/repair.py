"""Repair: rows that do not hold are mended by the sweep's own batches, then every row is compared again."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.comparing import comparison
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import REPAIR, Record
from orchestrator.model.step import Step, step_key
from orchestrator.model.verdict import Problem, ProblemKind
from phases.demands import sweep


class Repair:
    """``rollout verify --repair``. While the old column is the truth, ``n <=> f(o)`` is restored; once both were
    written, what is unset is filled, and a conflict needs somebody's word."""

    name = REPAIR
    entry_needs: frozenset[Need] = frozenset({Need.SHAPE})
    needs: frozenset[Need] = frozenset()

    def problems(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Problem]:
        if "shadow-write" in record.done:
            return ()
        return (
            Problem(
                ProblemKind.HELD,
                "repair-before-shadow-write",
                "shadow-write is not done: rows move, and nothing keeps both columns in step",
                "a mirror that stands",
                f"rollout next --phase {record.next_phase}: its sweep mends what repair would",
            ),
        )

    def steps(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        steps: tuple[Step, ...] = (
            sweep(runbook, record),
            comparison(record, "verify", runbook.phases.target_time_s),
        )
        return tuple(s for s in steps if step_key(s) not in record.done_steps)
