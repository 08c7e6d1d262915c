"""What the account lacks for a stage is said before its first step, and by ``plan`` and ``doctor`` for all."""

from __future__ import annotations

from orchestrator.checks.reading import EVERY, NEVER, Given, given, passes, refuses
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Limits
from orchestrator.model.verdict import ProblemKind, Verdict

_LIMIT = "every privilege that the stage and its checks need"


class Privileges:
    name = "privileges"
    needs = frozenset({Need.PRIVILEGES})
    before = EVERY
    during = NEVER

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        got = given(self.name, facts.privileges, limits, now, _LIMIT)
        if not isinstance(got, Given):
            return got
        missing = [m for m in got.value if not facts.stage or facts.stage in m.stages]
        if not missing:
            return passes(self.name, "none is missing", _LIMIT)
        seen = "missing: " + "; ".join(f"{m.privilege} ({m.why})" for m in missing)
        return refuses(self.name, seen, _LIMIT, "\n".join(m.grant for m in missing), ProblemKind.PRIVILEGE)
