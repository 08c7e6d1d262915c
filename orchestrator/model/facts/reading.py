"""What may be looked at, and one thing that was. A reading that could not be taken says why and which GRANT would
show it; it is never "good"."""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Reading(Struct, Generic[T], frozen=True):
    """A value seen at ``at`` (seconds, the tool's monotonic clock), or the reason why there is none. ``near``: where
    there is no such table, those of almost its name. ``wanted`` and ``mend``: where the runbook is the reason, what it
    should say and what to do; no waiting mends it."""

    at: float
    value: T | None = None
    unseen: str = ""
    grant: str = ""
    near: tuple[str, ...] = ()
    wanted: str = ""
    mend: str = ""

    @property
    def seen(self) -> bool:
        return not self.unseen


class Need(Enum):
    """What a check, a phase or a screen asks the observer to look at."""

    SERVER = "server"
    SHAPE = "shape"
    LOCKS = "locks"
    TRANSACTIONS = "transactions"
    REPLICAS = "replicas"
    REPLICA_LOCKS = "replica-locks"
    LOAD = "load"
    DISK = "disk"
    PRIVILEGES = "privileges"
    ROW_VERSIONS = "row-versions"
    SIZE = "size"
    VALUES = "values"
    MIRROR = "mirror"
    DRIFT = "drift"
    INVARIANTS = "invariants"
    FLAG = "flag"
    POSITIONS = "positions"
    METER = "meter"
    THROTTLES = "throttles"
    READERS = "readers"
    DEPENDENTS = "dependents"
