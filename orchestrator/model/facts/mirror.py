"""What keeps two columns in step and who reads which: the mirror as it stands, and the flag row."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Presence(Enum):
    ABSENT = "absent"
    PRESENT = "present"
    CHANGED = "changed"


class Part(Enum):
    """What a mirror is made of: two triggers, or the flag by which the applications write both columns."""

    UPDATE = "UPDATE trigger"
    INSERT = "INSERT trigger"
    DOUBLE_WRITES = "double writes"


class MirrorFacts(Struct, frozen=True):
    """The parts that the mirror of the runbook's driver is made of, as they stand."""

    parts: tuple[tuple[Part, Presence], ...]
    problem: str = ""

    @classmethod
    def of_triggers(cls, update: Presence, insert: Presence, problem: str = "") -> MirrorFacts:
        return cls(((Part.UPDATE, update), (Part.INSERT, insert)), problem)

    @classmethod
    def of_flag(cls, raised: bool) -> MirrorFacts:
        return cls(((Part.DOUBLE_WRITES, Presence.PRESENT if raised else Presence.ABSENT),))

    @property
    def intact(self) -> bool:
        return not self.missing and not self.problem

    @property
    def missing(self) -> tuple[Part, ...]:
        """Parts that are absent, or not what they should be."""
        return tuple(part for part, presence in self.parts if presence is not Presence.PRESENT)

    @property
    def standing(self) -> tuple[Part, ...]:
        """Parts that are there, intact or not."""
        return tuple(part for part, presence in self.parts if presence is not Presence.ABSENT)

    @property
    def stands(self) -> bool:
        """Whether any part of it is there, intact or not."""
        return bool(self.standing)


class OldStatement(Struct, frozen=True):
    """One kind of statement that still needs old columns: it reads ``reads`` (``every``: all columns, without naming
    them) and stores ``stores``. Last seen ``age_s`` ago, ``count`` times in all, lately by ``by``. Sampled evidence."""

    text: str
    reads: tuple[str, ...]
    stores: tuple[str, ...]
    every: bool
    age_s: float
    count: int
    by: tuple[str, ...]


class FlagFacts(Struct, frozen=True):
    """The flag row as the server computes it; effective values are what an application gets by asking now.

    ``shown`` (new_writes, percent): what applications see where they do not ask the row; None where they do.
    ``double_writes``: whether they are to write both columns; it never expires."""

    exists: bool
    new_writes: bool = False
    read_percent: int = 0
    expired: bool = False
    expires_in_s: float | None = None
    epoch: int = 0
    shown: tuple[bool, int] | None = None
    double_writes: bool = False

    @property
    def raised(self) -> bool:
        """Whether anything is left to be lowered, expired or not."""
        return self.new_writes or self.read_percent > 0 or (self.shown is not None and self.shown != (False, 0))

    @property
    def effective_percent(self) -> int:
        if self.shown is not None:
            return self.shown[1]
        return 0 if self.expired or not self.exists else self.read_percent

    @property
    def effective_new_writes(self) -> bool:
        return (self.exists and not self.expired and self.new_writes) or (self.shown is not None and self.shown[0])
