"""What a scrape shows of one rollout; apart from the exporter, whose library the other commands need not load."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from orchestrator.model.facts import Facts
from orchestrator.model.outcome import Progress
from orchestrator.model.state import Record
from orchestrator.model.stuck import Stuck


class Snapshot(Struct, frozen=True):
    """One rollout at a scrape. ``facts`` and ``stuck`` only of the one whose runbook we have; ``drift``: the rows that
    the last comparison found wrong, None before the first; ``retries``: batches that were sent again, in all its
    steps that have ended."""

    record: Record
    told: tuple[Progress, datetime] | None
    drift: int | None = None
    facts: Facts | None = None
    ours: bool = False
    stuck: Stuck | None = None
    retries: int = 0
