"""Whether a rollout that somebody began moves at all: one word, for ``status``, metrics and a notification. Pure.

The bounds are those that exist: whatever holds, or stands still, for longer than ``max_wait`` wants a look.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum

from msgspec import Struct

from orchestrator.model.outcome import Progress
from orchestrator.model.state import Holder, Record, State


class StuckBy(Enum):
    """HELD: checks hold a step, and go on doing so, however often the command was typed again. STILL: a command
    works, and its figure does not move. SILENT: a command should work, and nobody has heard of it."""

    HELD = "held"
    STILL = "still"
    SILENT = "silent"


class Stuck(Struct, frozen=True):
    by: StuckBy
    for_s: float

    def __str__(self) -> str:
        words = {
            StuckBy.HELD: "checks hold the next step",
            StuckBy.STILL: "the step that runs does not move",
            StuckBy.SILENT: "nobody has heard of the command",
        }
        return f"{words[self.by]} for {self.for_s / 60:.0f} min"


def stuck(
    record: Record, told: tuple[Progress, datetime] | None, holder: Holder | None, now: datetime, max_wait_s: float
) -> Stuck | None:
    """None while all goes its way, or rests because a stage is done or somebody wanted it so.

    ``told``: the last progress and when it was told; ``holder``: who holds the lease, if anybody.
    """
    if record.state not in (State.RUNNING, State.HELD):
        return None
    # A hold is over once the step runs, although the record still says since when it was held.
    since = record.held_since if record.intent is None else None
    if since is not None and (held_s := (now - since).total_seconds()) > max_wait_s:
        return Stuck(StuckBy.HELD, held_s)
    line = record.phase_record(record.phase)
    if record.state is State.HELD or line is None:
        return None
    # What an earlier command told says nothing about this one.
    began = max(line.began, holder.since) if holder is not None else line.began
    heard = told if told is not None and told[1] >= began else None
    silent_s = (now - (heard[1] if heard is not None else began)).total_seconds()
    if silent_s > max_wait_s:
        return Stuck(StuckBy.SILENT, silent_s)
    still_s = heard[0].still_s + silent_s if heard is not None else 0.0
    return Stuck(StuckBy.STILL, still_s) if still_s > max_wait_s else None
