"""Where a lease lives, and how long its parts may take."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import lease as sql
from orchestrator.ports import Clock


class LeaseTimes(Struct, frozen=True):
    """Seconds. ``silence_s``: how long the main loop may be silent. ``dead_s``: how long a counter must stand still
    when the named lock does not say that its holder is gone. ``idle_s``: after which the server frees the lock of a
    frozen holder. ``answer_s``: how long the keeper waits for one answer. Not options: tests shorten them."""

    heartbeat_s: float = 0.25
    renew_s: float = 1.0
    silence_s: float = 30.0
    dead_s: float = 45.0
    idle_s: int = 20
    answer_s: float = 10.0


class Place(Struct, frozen=True):
    """Where a lease lives: the state schema, the rollout, and how to get a session."""

    schema: str
    id: str
    connect: Callable[[str, float], Session]
    clock: Clock
    times: LeaseTimes

    @property
    def lock(self) -> str:
        return sql.lock_name(self.schema, self.id)
