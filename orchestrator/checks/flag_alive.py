"""The dead man's switch must be renewed while readers move: one that has expired means that they are back already.

Once the ramp was passed it must show that all readers are there: whoever lowered it since may not have lived to write
that into the record.
"""

from __future__ import annotations

from orchestrator.checks.reading import READS, Given, given, passes, refuses
from orchestrator.model.facts import Facts, FlagFacts, Need
from orchestrator.model.runbook import Limits
from orchestrator.model.verdict import ProblemKind, Verdict

_ALL = 100
_LIMIT = "a flag that has not expired while it is raised"
_DUE = "all readers on the new column and new_writes open, as the ramp left them"
_AGAIN = "rollout next --phase read-switch (begins again with the gate before it)"


class FlagAlive:
    name = "flag-alive"
    needs = frozenset({Need.FLAG})
    before = frozenset({READS})
    during = frozenset({READS})

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        got = given(self.name, facts.flag, limits, now, _LIMIT)
        if not isinstance(got, Given):
            return got
        flag = got.value
        if flag.exists and not flag.expired and flag.shown is not None and flag.shown[1] != flag.read_percent:
            seen = f"applications see {flag.shown[1]} %, and the flag row says {flag.read_percent} %"
            return refuses(self.name, seen, _LIMIT, _AGAIN, ProblemKind.HELD, goes_back=True)
        if facts.readers_due and not (flag.effective_new_writes and flag.effective_percent >= _ALL):
            return refuses(self.name, _stand(flag), _DUE, _AGAIN, ProblemKind.HELD, goes_back=True)
        if not flag.exists and not flag.raised:
            return passes(self.name, "no flag row: readers are on the old column", _LIMIT)
        if flag.exists and not flag.expired:
            left = "never expires" if flag.expires_in_s is None else f"expires in {flag.expires_in_s:.0f} s"
            return passes(self.name, f"{flag.read_percent} %, {left}", _LIMIT)
        if not flag.raised:
            return passes(self.name, "lowered", _LIMIT)
        where = (
            "read the old column already" if flag.effective_percent == 0 else f"still see {flag.effective_percent} %"
        )
        seen = f"expired at {flag.read_percent} %: applications {where}"
        return refuses(self.name, seen, _LIMIT, _AGAIN, ProblemKind.HELD, goes_back=True)


def _stand(flag: FlagFacts) -> str:
    """Where applications are, although the ramp was passed."""
    writes = "open" if flag.effective_new_writes else "closed"
    return f"somebody lowered the flags: readers are at {flag.effective_percent} %, new_writes is {writes}"
