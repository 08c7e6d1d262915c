"""What a replica is seen to be: reachable, running, how far behind, and who holds the table there."""

from __future__ import annotations

from msgspec import Struct

from orchestrator.model.facts.locks import Holder


class ReplicaFacts(Struct, frozen=True):
    """One replica. ``lag_s`` is our heartbeat's age there while we work, else the age of what is missing; None:
    cannot say.

    ``reachable`` False: it could not be looked at, and ``problem`` says why. ``connecting``: its IO thread tries again.
    """

    name: str
    reachable: bool
    problem: str = ""
    lag_s: float | None = None
    caught_up: bool | None = None
    io_running: bool = False
    sql_running: bool = False
    delay_s: int = 0
    holders: tuple[Holder, ...] = ()
    connecting: bool = False
