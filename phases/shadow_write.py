"""Shadow-write: from here on both columns move together, whoever writes; then the rows that moved meanwhile are
filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from orchestrator.model.facts import Facts, Need, Presence
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import Record
from orchestrator.model.step import InstallTrigger, LowerFlags, Soak, Step, TryMirror
from orchestrator.model.verdict import Problem, ProblemKind
from phases.demands import constraint_problems, flag_of, key_problems, mirror_of, shape_of, sweep, value_problems

NAME = "shadow-write"


class ShadowWrite:
    """The trial, the UPDATE trigger, then INSERT, then the sweep, a soak under watch, drift 0 over the whole table."""

    name = NAME
    entry_needs = frozenset({Need.SHAPE, Need.VALUES, Need.SERVER})
    needs = frozenset({Need.SHAPE, Need.MIRROR, Need.FLAG})

    def problems(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Problem]:
        server = facts.server.value if facts.server is not None else None
        a_replica = (
            (
                Problem(
                    ProblemKind.CONFIGURATION,
                    "mirror-on-a-replica",
                    "the target is itself a replica",
                    "a primary: row events that arrive by replication fire no trigger",
                    "point rollout at the primary",
                ),
            )
            if server is not None and server.is_replica
            else ()
        )
        values = () if record.both_written else value_problems(facts)
        return (*key_problems(facts), *constraint_problems(runbook, facts), *a_replica, *values)

    def steps(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        if not runbook.contract.mappings:
            return ()
        missing = self._installation(runbook, facts)
        trial = self._trial(runbook, facts, record) if missing else ()
        return (*self._readers_back(facts, record, missing), *trial, *missing, *self._proof(runbook, record))

    def _trial(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        """Once a visit. A mirror that is missing while both are written must stand again first: it was tried before."""
        if record.both_written or "try-mirror" in record.done_steps:
            return ()
        return (TryMirror(table=runbook.table, family=shape_of(facts).family),)

    def _readers_back(self, facts: Facts, record: Record, missing: Sequence[Step]) -> Sequence[Step]:
        """A mirror that was lost behind our back may have left readers on the new column: they go back first."""
        if not (missing and record.both_written):
            return ()
        flag = flag_of(facts)
        return (LowerFlags(why="the mirror is lost"),) if flag.new_writes or flag.read_percent else ()

    def _installation(self, runbook: Runbook, facts: Facts) -> Sequence[Step]:
        mirror, family = mirror_of(facts), shape_of(facts).family
        events: tuple[tuple[Literal["update", "insert"], Presence], ...] = (
            ("update", mirror.update),
            ("insert", mirror.insert),
        )
        return tuple(
            InstallTrigger(table=runbook.table, event=event, family=family)
            for event, presence in events
            if presence is not Presence.PRESENT
        )

    def _proof(self, runbook: Runbook, record: Record) -> Sequence[Step]:
        settings = runbook.phases
        steps: tuple[Step, ...] = (
            sweep(runbook, record),
            Soak(seconds=settings.soak_s, purpose="shadow-write"),
            record.comparison("drift", settings.target_time_s),
        )
        keys = ("fill:sweep", "soak", "compare:drift")
        return tuple(s for s, key in zip(steps, keys, strict=True) if key not in record.done_steps)
