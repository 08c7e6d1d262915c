"""Backfill: every row that exists at the start gets its new values, in key order, in batches."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.facts import Facts, Need, Shape
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import Record
from orchestrator.model.step import Fill, Step
from orchestrator.model.verdict import Problem
from phases.demands import key_problems, shape_of, table_problems, unseen_values, value_problems

NAME = "backfill"


class Backfill:
    """One keyed pass; its range is fixed when it starts. What moves behind it is the sweep's work."""

    name = NAME
    entry_needs = frozenset({Need.SHAPE, Need.VALUES})
    needs = frozenset({Need.SHAPE, Need.POSITIONS})

    def problems(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Problem]:
        found = (*table_problems(facts, str(runbook.table)), *key_problems(facts), *value_problems(facts))
        return found or unseen_values(facts)

    def steps(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        shape = shape_of(facts)
        if not runbook.contract.mappings:
            return ()
        fill = Fill(
            table=runbook.table,
            walk=record.walk,
            pass_name="backfill",
            target_time_s=runbook.phases.target_time_s,
            max_batch_rows=runbook.phases.max_batch_rows,
            workers=runbook.phases.workers or (1 if _applied_serially(runbook, shape) else 0),
        )
        return () if "fill:backfill" in record.done_steps else (fill,)


def _applied_serially(runbook: Runbook, shape: Shape) -> bool:
    """Replicas apply the changes of a table with foreign keys one after the other, so that more workers only make lag
    (docs/adr/0012)."""
    return bool(shape.foreign_keys or shape.referenced_by or runbook.contract.foreign_keys)
