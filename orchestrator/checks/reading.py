"""How every check treats a fact that it has not got: a fact that is missing, unseen or stale is never good."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from msgspec import Struct

from orchestrator.model.facts import Facts, Need, Reading, ServerFacts
from orchestrator.model.runbook import Limits
from orchestrator.model.step import StepClass
from orchestrator.model.verdict import Judgement, ProblemKind, Verdict

T = TypeVar("T")
EXCLUSIVE, ROWS, READS = StepClass.EXCLUSIVE, StepClass.ROWS, StepClass.READS
EVERY = frozenset({EXCLUSIVE, ROWS, READS})
NEVER: frozenset[StepClass] = frozenset()
LOOK_AGAIN = "rollout check"


class Given(Struct, Generic[T], frozen=True):
    """A fact that may be judged."""

    value: T


def given(check: str, reading: Reading[T] | None, limits: Limits, now: float, limit: str) -> Given[T] | Verdict:
    """The value of a reading, or the verdict UNSEEN with the GRANT that would show it.

    ``now`` is the monotonic clock of ``Reading.at``; a reading older than ``limits.stale_after_s`` is as good as none.
    """
    if reading is None:
        return unseen(check, "nobody looked", limit)
    if not reading.seen:
        return unseen(check, reading.unseen, limit, reading.grant)
    if reading.value is None:
        return unseen(check, "there is no such table", limit)
    age_s = now - reading.at
    if age_s > limits.stale_after_s:
        return unseen(check, f"last seen {age_s:.0f} s ago, more than {limits.stale_after_s:.0f} s", limit)
    return Given(reading.value)


class OfTheServer(ABC):
    """A check of what the server is and how it is set. That does not change while a step runs: due before each."""

    name: str
    limit: str
    needs = frozenset({Need.SERVER})
    before = EVERY
    during = NEVER

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        got = given(self.name, facts.server, limits, now, self.limit)
        return self.judge_server(got.value, limits) if isinstance(got, Given) else got

    @abstractmethod
    def judge_server(self, server: ServerFacts, limits: Limits) -> Verdict: ...


def unseen(check: str, why: str, limit: str, grant: str = "") -> Verdict:
    return Verdict(
        check, Judgement.UNSEEN, f"{check} cannot be seen: {why}", f"unseen: {why}", limit, grant or LOOK_AGAIN
    )


def passes(check: str, seen: str, limit: str, strain: float = 0.0) -> Verdict:
    return Verdict(check, Judgement.PASS, f"{check} {seen}", seen, limit, strain=strain)


def holds(check: str, reason: str, seen: str, limit: str, next: str = "", *, goes_back: bool = False) -> Verdict:
    """Waiting may mend it. ``reason`` does not repeat the check's name."""
    return Verdict(check, Judgement.HOLD, f"{check} {reason}", seen, limit, next or LOOK_AGAIN, goes_back)


def refuses(
    check: str,
    seen: str,
    limit: str,
    next: str,
    kind: ProblemKind = ProblemKind.CONFIGURATION,
    *,
    goes_back: bool = False,
) -> Verdict:
    """Waiting mends nothing."""
    return Verdict(check, Judgement.REFUSE, f"{check}: {seen}, wanted {limit}", seen, limit, next, goes_back, kind)


def readable_bytes(count: int) -> str:
    """A number of bytes for a person."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
