"""One event as one JSON object: the same for the log and for notifications."""

from __future__ import annotations

from orchestrator.model.state import Event, Record


def event_words(record: Record, event: Event) -> dict[str, object]:
    """Times are UTC with their offset; figures are in base units; no secret is ever part of an event."""
    return {
        "rollout": record.id,
        "table": str(record.table),
        "event": event.kind.value,
        "state": record.state.value,
        "phase": event.phase,
        "step": event.step,
        "who": event.who,
        "at": event.at.isoformat(),
        "note": event.note,
        "revision": event.revision,
        "figures": event.figures,
        "evidence": [list(row) for row in event.evidence],
    }
