"""While readers or writers may be on the new column, the mirror stands and is what the mapping says."""

from __future__ import annotations

from orchestrator.checks.reading import READS, Given, given, passes, refuses
from orchestrator.model.facts import Facts, Need, Presence
from orchestrator.model.runbook import Limits, Runbook, ShadowDriver
from orchestrator.model.verdict import ProblemKind, Verdict

_LIMITS: dict[ShadowDriver, str] = {
    "triggers": "both triggers, as the mapping makes them",
    "flag": "double_writes raised, so that the applications write both columns",
}
_SAID = {Presence.ABSENT: "missing", Presence.CHANGED: "changed by somebody", Presence.PRESENT: "in place"}


class MirrorIntact:
    name = "mirror-intact"
    needs = frozenset({Need.MIRROR})
    before = frozenset({READS})
    during = frozenset({READS})

    def __init__(self, runbook: Runbook) -> None:
        self._mirrored = bool(runbook.contract.mappings)
        self._limit = _LIMITS[runbook.phases.shadow]

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        if not self._mirrored:
            return passes(self.name, "nothing is mirrored: the contract maps no column", self._limit)
        got = given(self.name, facts.mirror, limits, now, self._limit)
        if not isinstance(got, Given):
            return got
        mirror = got.value
        if mirror.intact:
            return passes(self.name, f"{', '.join(p.value for p, _ in mirror.parts)} in place", self._limit)
        if not facts.mirror_due and not mirror.stands:
            return passes(self.name, "not installed yet: shadow-write does it", self._limit)
        seen = ", ".join(f"{part.value} {_SAID[presence]}" for part, presence in mirror.parts)
        seen += f"; {mirror.problem}" if mirror.problem else ""
        next = "rollout next --phase shadow-write (reinstalls it and fills what is unset)"
        return refuses(self.name, seen, self._limit, next, ProblemKind.HELD, goes_back=True)
