"""Verify: proves the end state, row by row, then again for the newest rows after a soak."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.comparing import comparison
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import Record
from orchestrator.model.step import Step, WatchReaders, step_key
from orchestrator.model.verdict import Problem
from phases.demands import shape_of

NAME = "verify"


class Verify:
    name = NAME
    entry_needs = frozenset({Need.SHAPE})
    needs = frozenset({Need.SHAPE})

    def problems(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Problem]:
        return ()

    def steps(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        shape_of(facts)
        settings = runbook.phases
        steps: tuple[Step, ...] = (
            comparison(record, "verify", settings.target_time_s),
            WatchReaders(seconds=settings.verify_soak_s, gates=settings.gates, baselines=record.baselines),
            comparison(record, "newest", settings.target_time_s),
        )
        return tuple(s for s in steps if step_key(s) not in record.done_steps)
