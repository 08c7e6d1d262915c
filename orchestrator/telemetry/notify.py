"""Calls the runbook's command with one JSON event when somebody should look: on a hold, a way back, a finish, a
question.

A hold calls once, and once more when it has become too long: not each time that a supervisor tries again.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress

from orchestrator.command import CommandFailed, run_command
from orchestrator.model.state import Event, EventKind, Record
from orchestrator.telemetry.words import event_words

TOLD = frozenset(
    {
        EventKind.HELD,
        EventKind.WENT_BACK,
        EventKind.ROLLED_BACK,
        EventKind.FAILED,
        EventKind.NEEDS_HUMAN,
        EventKind.FINISHED,
        EventKind.STUCK,
    }
)
_TIMEOUT_S = 10.0


class Notifier:
    """Listener. The command gets the event on standard input; no shell; what it does never changes the rollout."""

    def __init__(self, argv: tuple[str, ...]) -> None:
        self._argv = argv

    def event(self, record: Record, event: Event) -> None:
        if not self._argv or event.kind not in TOLD or _again(record, event):
            return
        text = json.dumps(event_words(record, event), ensure_ascii=False)
        try:
            ended = run_command(self._argv, _TIMEOUT_S, text)
            problem = "" if ended.code == 0 else f"exit code {ended.code}"
        except CommandFailed as failed:
            problem = str(failed)
        if problem:
            with suppress(OSError, ValueError):
                sys.stderr.write(f"notify: {self._argv[0]} failed ({problem}); the rollout goes on\n")


def _again(record: Record, event: Event) -> bool:
    """Whether it is one more hold of an episode that somebody was called for."""
    return event.kind is EventKind.HELD and record.held_since != event.at
