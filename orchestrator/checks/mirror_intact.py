"""While readers or writers may be on the new column, both triggers stand and are what the mapping says."""

from __future__ import annotations

from orchestrator.checks.reading import READS, Given, given, passes, refuses
from orchestrator.model.facts import Facts, Need, Presence
from orchestrator.model.runbook import Limits, Runbook
from orchestrator.model.verdict import ProblemKind, Verdict

_LIMIT = "both triggers, as the mapping makes them"
_SAID = {Presence.ABSENT: "missing", Presence.CHANGED: "changed by somebody", Presence.PRESENT: "in place"}


class MirrorIntact:
    name = "mirror-intact"
    needs = frozenset({Need.MIRROR})
    before = frozenset({READS})
    during = frozenset({READS})

    def __init__(self, runbook: Runbook) -> None:
        self._mirrored = bool(runbook.contract.mappings)

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        if not self._mirrored:
            return passes(self.name, "nothing is mirrored: the contract maps no column", _LIMIT)
        got = given(self.name, facts.mirror, limits, now, _LIMIT)
        if not isinstance(got, Given):
            return got
        mirror = got.value
        if mirror.intact:
            return passes(self.name, "both triggers are in place", _LIMIT)
        if not facts.mirror_due and mirror.update is Presence.ABSENT and mirror.insert is Presence.ABSENT:
            return passes(self.name, "not installed yet: shadow-write does it", _LIMIT)
        seen = f"UPDATE trigger {_SAID[mirror.update]}, INSERT trigger {_SAID[mirror.insert]}"
        seen += f"; {mirror.problem}" if mirror.problem else ""
        next = "rollout next --phase shadow-write (reinstalls it and fills what is unset)"
        return refuses(self.name, seen, _LIMIT, next, ProblemKind.HELD, goes_back=True)
