"""What keeps two columns in step and who reads which: the triggers as they stand, and the flag row."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Presence(Enum):
    ABSENT = "absent"
    PRESENT = "present"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class MirrorFacts:
    update: Presence
    insert: Presence
    problem: str = ""

    @property
    def intact(self) -> bool:
        return self.update is Presence.PRESENT and self.insert is Presence.PRESENT and not self.problem


@dataclass(frozen=True, slots=True)
class FlagFacts:
    """The flag row as the server computes it; effective values are what an application gets by asking now.

    ``shown`` (new_writes, percent): what applications see where they do not ask the row; None where they do."""

    exists: bool
    new_writes: bool = False
    read_percent: int = 0
    expired: bool = False
    expires_in_s: float | None = None
    epoch: int = 0
    shown: tuple[bool, int] | None = None

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
