"""A pass over the table by what every row must hold now, and the command that mends the rows that do not."""

from __future__ import annotations

from orchestrator.model.state import SHADOW_WRITE, Record
from orchestrator.model.step import Compare, Purpose


def comparison(record: Record, purpose: Purpose, target_time_s: float, columns: tuple[str, ...] = ()) -> Compare:
    """``columns``: of ``in-use``."""
    return Compare(
        table=record.table,
        walk=record.walk,
        purpose=purpose,
        relation=record.truth,
        target_time_s=target_time_s,
        columns=columns,
        mend=mend(record),
    )


def mend(record: Record) -> str:
    """The sweep of shadow-write; where that is done, it is not done again: a repair."""
    return "rollout verify --repair" if SHADOW_WRITE in record.done else f"rollout next --phase {SHADOW_WRITE}"
