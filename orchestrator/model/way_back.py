"""What a way back leaves done, and what of its loss nobody has accepted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from orchestrator.model.facts import MismatchClass
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import FORWARD, Record


def remaining(record: Record, ddl: RollbackDdl) -> tuple[str, ...]:
    """The forward phases that still hold after a rollback to ``record.target`` ("" = all the way)."""
    if record.target:
        return tuple(p for p in record.done if FORWARD.index(p) <= FORWARD.index(record.target))
    return tuple(p for p in record.done if p == "ddl" and ddl is RollbackDdl.KEEP)


def unaccepted(classes: Iterable[MismatchClass], accepted: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """(class, rows) of the loss that nobody accepted, or not in this number: a class counts over all its mappings."""
    lost, limits = Counter[str](), Counter[str]()
    for found in classes:
        lost[found.name] += found.rows
    for name, rows in accepted:
        limits[name] += rows
    return tuple((name, rows) for name, rows in lost.items() if rows > limits[name])
