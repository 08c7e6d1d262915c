"""Shadow-write: from here on both columns move together, whoever writes; then the rows that moved meanwhile are
filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from orchestrator.model.comparing import comparison
from orchestrator.model.facts import Facts, Need, Part
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import Record
from orchestrator.model.step import (
    Drain,
    InstallTrigger,
    LowerFlags,
    ProveDoubleWrites,
    RaiseDoubleWrites,
    Soak,
    Step,
    TryMirror,
    step_key,
)
from orchestrator.model.verdict import Problem, ProblemKind
from phases.demands import (
    cascade_problems,
    column_problems,
    constraint_problems,
    doubled,
    flag_of,
    key_problems,
    mirror_of,
    shape_of,
    sweep,
    table_problems,
    unseen_values,
    value_problems,
)

NAME = "shadow-write"
_EVENTS: dict[Part, Literal["update", "insert"]] = {Part.UPDATE: "update", Part.INSERT: "insert"}


class ShadowWrite:
    """The mirror, the sweep, a soak under watch, drift 0 over the whole table. As triggers: the trial, the UPDATE
    trigger, then INSERT. As the applications' own double writes: the flag, until no transaction that began before is
    open; the soak is a proof that they do."""

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
        table = (*table_problems(facts, str(runbook.table)), *column_problems(runbook, facts, record))
        partners = (*constraint_problems(runbook, facts), *cascade_problems(runbook, facts))
        found = (*table, *key_problems(facts), *partners, *a_replica, *values)
        return found or (() if record.both_written else unseen_values(facts))

    def steps(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        if not runbook.contract.mappings:
            return ()
        flag = runbook.phases.shadow == "flag"
        missing = self._raising(runbook, facts) if flag else self._installation(runbook, facts)
        trial = self._trial(runbook, facts, record) if missing and not flag else ()
        proof = (step for step in self._proof(runbook, record) if step_key(step) not in record.done_steps)
        return (*self._readers_back(facts, record, missing), *trial, *missing, *proof)

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
        family = shape_of(facts).family
        missing = (_EVENTS[part] for part in mirror_of(facts).missing)
        return tuple(InstallTrigger(table=runbook.table, event=event, family=family) for event in missing)

    def _raising(self, runbook: Runbook, facts: Facts) -> Sequence[Step]:
        shape_of(facts)
        return () if mirror_of(facts).intact else (RaiseDoubleWrites(table=runbook.table),)

    def _proof(self, runbook: Runbook, record: Record) -> Sequence[Step]:
        settings = runbook.phases
        swept, compared = sweep(runbook, record), comparison(record, "drift", settings.target_time_s)
        if settings.shadow == "triggers":
            return (swept, Soak(seconds=settings.soak_s), compared)
        proven = ProveDoubleWrites(
            table=runbook.table,
            walk=record.walk,
            pairs=doubled(runbook),
            seconds=settings.soak_s,
            relation=record.truth,
            target_time_s=settings.target_time_s,
        )
        return (Drain(table=runbook.table, poll_s=settings.poll_s), swept, proven, compared)
