"""Judgements: what a check says of facts, and what a phase finds wrong for good."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class Judgement(Enum):
    """PASS goes on, HOLD waits and tries again, REFUSE stops; UNSEEN is a HOLD because the fact cannot be read or is
    stale."""

    PASS = "pass"
    HOLD = "hold"
    REFUSE = "refuse"
    UNSEEN = "unseen"


class ProblemKind(Enum):
    """Which exit code a permanent problem has: 65, 78, 77 or 75."""

    RUNBOOK = "runbook"
    CONFIGURATION = "configuration"
    PRIVILEGE = "privilege"
    HELD = "held"


class Verdict(Struct, frozen=True):
    """One check's word. ``reason`` has the shape ``replication-lag 7.2s > 5.0s on replica-2``.

    ``goes_back``: while readers are on the new column this takes them back. ``refusal``: the exit code of a REFUSE.
    ``strain``: of a PASS that more work could turn into a HOLD, how much of the limit is reached (0 to 1).
    """

    check: str
    judgement: Judgement
    reason: str
    seen: str
    limit: str
    next: str = ""
    goes_back: bool = False
    refusal: ProblemKind = ProblemKind.CONFIGURATION
    strain: float = 0.0

    @property
    def good(self) -> bool:
        return self.judgement is Judgement.PASS


class Problem(Struct, frozen=True):
    """Something that no waiting mends: the phase is refused before anything is written."""

    kind: ProblemKind
    rule: str
    seen: str
    expected: str
    next: str
