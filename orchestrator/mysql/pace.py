"""How work on rows makes room for the application: where the server has more statements under way than its processors
serve, a rest follows each piece of work, and the next piece is shorter.

Work that holds none of its locks still takes a processor from it. Statements under way are their rate times their
latency (Little's law), so they grow as soon as the application waits for whatever reason.
"""

from __future__ import annotations

import math
from typing import Any

from msgspec import Struct

from orchestrator.errors import ServerUnreachable
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import load

# Others' statements under way for each processor, from which on they wait for one.
_PER_PROCESSOR = 2.5
# Rests, in times of what the piece of work took: twice as long where the server is crowded, else a tenth shorter.
_FIRST, _MOST, _SHORTER, _NONE = 1.0, 16.0, 0.9, 0.1
_MOST_S = 1.0
_LEAST_SHARE = 1 / 8


class Rest(Struct, frozen=True):
    """``share``: of its target time that the next piece of work may take."""

    seconds: float = 0.0
    reason: str = ""
    share: float = 1.0


NO_REST = Rest()


class Pace:
    """``rest_above``: others' statements under way, beyond which the server is crowded; None: so many as its processors
    serve.

    A server that does not show what it is asked is worked on without rests; its processors are shown to who has
    RESOURCE_GROUP_USER. One for each thread that works."""

    def __init__(self, rest_above: float | None) -> None:
        self._said = rest_above
        self._rest_above = rest_above
        self._rests = 0.0

    def another(self) -> Pace:
        """One for another thread."""
        return Pace(self._said)

    def after(self, session: Session, took_s: float) -> Rest:
        """What follows a piece of work of ``took_s`` in that session, which ended right now."""
        try:
            if self._rest_above is None:
                processors = _processors(session.value(load.PROCESSORS))
                self._rest_above = processors * _PER_PROCESSOR if processors else math.inf
            active = 0 if self._rest_above == math.inf else int(session.value(load.ACTIVE))
        except (ServerError, ServerUnreachable):
            return NO_REST  # whatever it is, the next piece of work meets it and tells it
        if active > self._rest_above:
            self._rests = min(_MOST, max(_FIRST, self._rests * 2))
        else:
            self._rests = self._rests * _SHORTER if self._rests > _NONE else 0.0
        if not self._rests:
            return NO_REST
        reason = f"threads-running {active}, more than {self._rest_above:g}"
        return Rest(min(_MOST_S, took_s * self._rests), reason, max(_LEAST_SHARE, 1 / (1 + self._rests)))


def _processors(ranges: Any) -> int:
    """How many "0-3,8" are; 0 when the server does not say."""
    text = ranges.decode() if isinstance(ranges, bytes) else ranges or ""
    bounds = [part.split("-") for part in text.split(",") if part]
    return sum(int(b[-1]) - int(b[0]) + 1 for b in bounds)
