"""Gates while somebody waits: what is due is begun, what has come is judged, and nobody waits for a sample here.

So the flag is renewed, and everybody is heard, while a gate looks at every row.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.model.gate import GateRun, GateWord
from orchestrator.model.runbook import PASSES
from orchestrator.ports import GateRunner, Sampling

# At the lower rate: a gate that passes is asked so many times less often, and a pass over the rows takes no more than
# a tenth of the time.
_SLOWER = 6
_REST_OF_A_PASS = 9


class Analysis:
    """The samples of some gates over the time of a step. ``slow``: at the lower rate, but for a gate that has just
    given a bad sample."""

    def __init__(self, runs: Sequence[GateRun], gates: GateRunner, *, slow: bool = False) -> None:
        self.runs = tuple(runs)
        self._gates = gates
        self._slow = slow
        self._under_way: dict[str, tuple[Sampling, float]] = {}

    def look(self, now: float) -> None:
        """Take what has come and begin what is due. ``now``: seconds, monotonic."""
        self.runs = tuple(self._sampled(run, now) for run in self.runs)

    @property
    def at_rest(self) -> bool:
        """No sample is under way."""
        return not self._under_way

    @property
    def in_a_pass(self) -> bool:
        """A gate of ours looks at every row in this moment: that takes as long as the table is."""
        return any(r.spec.kind in PASSES and r.spec.name in self._under_way for r in self.runs)

    @property
    def passes(self) -> bool:
        """Every gate passes by its last samples, and none is under way."""
        return self.at_rest and all(r.word is GateWord.PASS for r in self.runs)

    @property
    def bad(self) -> tuple[GateRun, ...]:
        """What failed, or could not say for longer than its bound."""
        return tuple(r for r in self.runs if r.word in (GateWord.FAIL, GateWord.CANNOT_SAY))

    @property
    def words(self) -> str:
        return ", ".join(f"{r.spec.name} {r.word.value}" for r in self.runs)

    def _sampled(self, run: GateRun, now: float) -> GateRun:
        name = run.spec.name
        if name not in self._under_way:
            if now >= run.due_at:
                self._under_way[name] = self._gates.begin(run.spec), now
            return run
        sampling, began = self._under_way[name]
        taken = sampling()
        if taken is None:
            return run
        del self._under_way[name]
        run = run.with_sample(taken, now)
        if not self._slow or run.word is not GateWord.PASS:
            return run
        return replace(run, due_at=now + max(_SLOWER * run.spec.interval_s, _REST_OF_A_PASS * (now - began)))
