"""Finish: the old application is gone and the new one was released without the flag; the mirror goes, the rollout
closes."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.comparing import comparison
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import FORWARD, Record
from orchestrator.model.step import CloseRollout, Drain, Quiet, RemoveMirror, Step, step_key
from orchestrator.model.verdict import Problem, ProblemKind
from phases.demands import doubled, mirror_of, shape_of

NAME = "finish"


class Finish:
    """``evidence_waived``: the operator vouches for it (``--old-application-gone --flag-retired``)."""

    name = NAME
    entry_needs = frozenset({Need.SHAPE})
    needs = frozenset({Need.SHAPE, Need.MIRROR})

    def __init__(self, *, evidence_waived: bool = False) -> None:
        self._waived = evidence_waived

    def problems(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Problem]:
        missing = [p for p in FORWARD if p not in record.done]
        if not missing:
            return self._blind(runbook)
        return (
            Problem(
                ProblemKind.HELD,
                "finish-before-verify",
                f"{missing[0]} is not done",
                "a rollout whose verify passed",
                f"rollout next --phase {missing[0]}",
            ),
        )

    def _blind(self, runbook: Runbook) -> Sequence[Problem]:
        """Whether flags are still asked for is seen on the server only where they are a row of its."""
        kind = runbook.phases.reader.kind
        if kind == "flag_table" or self._waived:
            return ()
        return (
            Problem(
                ProblemKind.HELD,
                "flag-readers-unseen",
                f"whether applications still ask {kind} for the flags cannot be seen from here",
                "somebody vouches that the new application was released without the flags",
                "rollout finish --old-application-gone --flag-retired",
            ),
        )

    def steps(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        contract, settings = runbook.contract, runbook.phases
        steps: tuple[Step, ...] = (
            Quiet(
                table=contract.table,
                columns=tuple(m.old for m in contract.pairs if m.old is not None),
                seconds=settings.finish_quiet_s,
                # The flag tells applications that write both columns when to leave that off: they ask until purge.
                flag=settings.shadow == "triggers",
                writes_only=False,
                waived=self._waived,
                doubled=doubled(runbook),
            ),
            Drain(table=contract.table, poll_s=settings.poll_s),
            comparison(record, "drift", settings.target_time_s),
        )
        mirror = mirror_of(facts)
        stands = mirror.stands
        # Where a part of it went already, by us, rows are not kept in step any more: nothing is left to be proven.
        proven = record.mirror_goes and not mirror.intact
        take_down = RemoveMirror(
            table=contract.table,
            accepted=record.accepted,
            family=shape_of(facts).family,
            driver=settings.shadow,
        )
        return (
            *(s for s in steps if stands and not proven and step_key(s) not in record.done_steps),
            *((take_down,) if stands else ()),
            *(() if "close-rollout" in record.done_steps else (CloseRollout(),)),
        )
