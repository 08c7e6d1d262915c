"""Work on rows waits while the application says that it suffers: its own latency, or any number of the user's."""

from __future__ import annotations

from orchestrator.checks.reading import LOOK_AGAIN, ROWS, Given, given, holds, passes, unseen
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import GateSpec, Limits
from orchestrator.model.verdict import Verdict


class Throttle:
    """One gate of the runbook that ``checks.throttle`` names; its last sample counts."""

    needs = frozenset({Need.THROTTLES})
    before = frozenset({ROWS})
    during = frozenset({ROWS})

    def __init__(self, gate: GateSpec) -> None:
        self.name = gate.name
        self._max = gate.max or 0.0

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        limit = f"{self._max:g}"
        got = given(self.name, facts.throttles, limits, now, limit)
        if not isinstance(got, Given):
            return got
        sample = next((s for s in got.value if s.gate == self.name), None)
        if sample is None or sample.number is None:
            return unseen(self.name, sample.why if sample is not None else "it gave no sample yet", limit)
        if now - sample.at > limits.stale_after_s:
            return unseen(self.name, f"its last sample is {now - sample.at:.0f} s old", limit)
        if sample.number > self._max:
            return holds(self.name, f"{sample.number:g} > {limit}", f"{sample.number:g}", limit, LOOK_AGAIN)
        return passes(self.name, f"{sample.number:g}", limit)
