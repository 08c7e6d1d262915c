"""A gate's word over its samples: pass, fail, or cannot say. Pure; time comes in with each sample."""

from __future__ import annotations

import math
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.model.runbook import GateSpec


class GateWord(Enum):
    WAITING = "waiting"
    PASS = "pass"
    FAIL = "fail"
    CANNOT_SAY = "cannot say"


class Sample(Struct, frozen=True):
    """One number, or the reason why there is none."""

    value: float | None
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.value:g}" if self.value is not None else f"? ({self.problem})"


class GateRun(Struct, frozen=True):
    """The last ``spec.count`` samples of one gate, and when the next one is due (seconds, monotonic)."""

    spec: GateSpec
    baseline: float | None = None
    samples: tuple[Sample, ...] = ()
    due_at: float = 0.0

    def with_sample(self, taken: float | str, now: float) -> GateRun:
        """A number that is no number (NaN, infinity) is one that cannot be told."""
        if isinstance(taken, str):
            sample = Sample(None, taken)
        elif not math.isfinite(taken):
            sample = Sample(None, f"{taken} is not a number that can be judged")
        else:
            sample = Sample(taken)
        kept = (*self.samples, sample)[-self.spec.count :]
        return replace(self, samples=kept, due_at=now + self.spec.interval_s)

    @property
    def limit(self) -> float | None:
        """The greatest value that passes; None while a baseline is wanted and missing."""
        if self.spec.max is not None:
            return self.spec.max
        if self.spec.max_increase is not None and self.baseline is not None:
            return self.baseline * (1 + self.spec.max_increase)
        return None

    @property
    def word(self) -> GateWord:
        """Fail goes before cannot-say; neither ever counts as a pass. One good last sample is needed to pass."""
        limit = self.limit
        if not self.samples:
            return GateWord.WAITING
        if limit is None:
            return GateWord.CANNOT_SAY
        failed = sum(1 for s in self.samples if s.value is not None and s.value > limit)
        silent = sum(1 for s in self.samples if s.value is None)
        if failed >= min(self.spec.failure_limit, self.spec.count):
            return GateWord.FAIL
        if silent >= min(self.spec.inconclusive_limit, self.spec.count):
            return GateWord.CANNOT_SAY
        last = self.samples[-1]
        return GateWord.PASS if last.value is not None and last.value <= limit else GateWord.WAITING

    @property
    def evidence(self) -> tuple[str, str, str, str]:
        """Gate, samples, limit, word: one row of the table that the operator sees."""
        limit = "no baseline" if self.limit is None else f"{self.limit:g}"
        if self.spec.max is None and self.baseline is not None and self.spec.max_increase is not None:
            limit = f"{self.baseline:g} + {self.spec.max_increase:.0%}"
        shown = " ".join(str(s) for s in self.samples)
        return self.spec.name, shown, f"{limit}, {self.spec.failure_limit} of {self.spec.count}", self.word.value
