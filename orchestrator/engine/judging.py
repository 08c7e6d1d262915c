"""Which checks are due when, on facts that are fresh at that moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.errors import ConfigurationError, Held, PrivilegeMissing, RolloutError, RunbookError
from orchestrator.model.facts import Need
from orchestrator.model.runbook import Limits
from orchestrator.model.step import StepClass
from orchestrator.model.verdict import Judgement, Problem, ProblemKind, Verdict
from orchestrator.ports import Check, Clock, Observer

_LOAD = frozenset({Need.LOAD})
_ERRORS: dict[ProblemKind, type[RolloutError]] = {
    ProblemKind.RUNBOOK: RunbookError,
    ProblemKind.CONFIGURATION: ConfigurationError,
    ProblemKind.PRIVILEGE: PrivilegeMissing,
    ProblemKind.HELD: Held,
}


class Judge(Struct, frozen=True):
    """Looks at what the due checks need, all at once, and lets each of them judge."""

    checks: tuple[Check, ...]
    limits: Limits
    observer: Observer
    clock: Clock

    def before(self, *of: StepClass, stage: str = "") -> tuple[Verdict, ...]:
        """``stage``: the one that is about to work; without it, what is demanded by stage is demanded for all."""
        return self._judge((c for c in self.checks if not c.before.isdisjoint(of)), stage)

    def during(self, *of: StepClass, stage: str = "") -> tuple[Verdict, ...]:
        return self._judge((c for c in self.checks if not c.during.isdisjoint(of)), stage)

    def reading(self) -> tuple[Verdict, ...]:
        """What is due while rows are only read: the load of the server, for a reader puts no replica behind."""
        return self._judge(c for c in self.checks if c.needs == _LOAD and StepClass.ROWS in c.during)

    def everything(self) -> tuple[Verdict, ...]:
        return self._judge(self.checks)

    def _judge(self, due: Iterable[Check], stage: str = "") -> tuple[Verdict, ...]:
        checks = tuple(due)
        needs = frozenset(need for check in checks for need in check.needs)
        if not needs:
            return ()
        facts = replace(self.observer.look(needs), stage=stage)
        now = self.clock.monotonic()
        return tuple(check.judge(facts, self.limits, now) for check in checks)


def refusal(problems: Sequence[Problem]) -> RolloutError:
    """The error for what no waiting mends: the first problem's exit code and words, the others listed behind."""
    first, *others = problems
    more = "".join(f"\n   also: {p.seen}; wanted: {p.expected}; do: {p.next}" for p in others)
    return _ERRORS[first.kind](first.seen, first.expected, first.next + more)


def refused(verdicts: Sequence[Verdict]) -> tuple[Problem, ...]:
    """The verdicts that refuse, as problems."""
    return tuple(
        Problem(v.refusal, v.check, v.reason, v.limit or "this check passes", v.next or "rollout check")
        for v in verdicts
        if v.judgement is Judgement.REFUSE
    )
