"""Structured logs: one JSON line for each transition, on standard error or into a file."""

from __future__ import annotations

import sys
from typing import TextIO

import structlog

from orchestrator.model.state import Event, Record
from orchestrator.telemetry.words import event_words


class EventLog:
    """Listener. Writes to the stream that it is given; a stream that is closed is no reason to stop a rollout."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._logger = structlog.wrap_logger(
            structlog.PrintLogger(stream or sys.stderr),
            processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer(ensure_ascii=False)],
        )

    def event(self, record: Record, event: Event) -> None:
        try:
            self._logger.info(
                "transition",
                **{k: v for k, v in event_words(record, event).items() if k != "event"},
                kind=event.kind.value,
            )
        except (OSError, ValueError):
            # The reader of the log went away (a closed pipe): the history in the state has the event.
            return
