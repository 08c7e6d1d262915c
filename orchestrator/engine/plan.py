"""The plan: what would happen, with the statements of the drivers that will run them. Reads only.

It goes through the same planners and drivers as the run; for stages that lie ahead the planners are asked with a record
in which the stages before them are done.
"""

from __future__ import annotations

import hashlib
import json
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.budgets import Budget, budgets, costs
from orchestrator.engine.entry import Entry, resumed
from orchestrator.engine.judging import refused
from orchestrator.engine.parts import Parts
from orchestrator.engine.telling import (
    blocks,
    blocks_in_all,
    fires_none,
    rename_prices,
    takes,
    values_cut,
    way_and_why,
    way_back,
    what,
)
from orchestrator.engine.walk import Engine
from orchestrator.errors import Held, PrivilegeMissing, RolloutError
from orchestrator.model.cost import Cost
from orchestrator.model.facts import Facts, Need
from orchestrator.model.hanging import hanging_on
from orchestrator.model.runbook import Waiver
from orchestrator.model.shape_diff import compare_shape
from orchestrator.model.shape_digest import shape_digest
from orchestrator.model.state import FORWARD, Record
from orchestrator.model.step import InstallTrigger, Step, step_key
from orchestrator.model.verdict import Judgement, Problem, ProblemKind, Verdict
from orchestrator.ports import Phase

_NEEDS = frozenset(
    {
        Need.SERVER,
        Need.SHAPE,
        Need.SIZE,
        Need.REPLICAS,
        Need.ROW_VERSIONS,
        Need.DISK,
        Need.VALUES,
        Need.MIRROR,
        Need.FLAG,
        Need.POSITIONS,
        Need.DEPENDENTS,
    }
)


class PlannedStep(Struct, frozen=True):
    """``way`` and ``why``: algorithm and lock, and why not cheaper ones; "" for a step that is no ALTER."""

    key: str
    sql: tuple[str, ...]
    blocks: str
    step: Step
    cost: Cost
    way: str = ""
    why: str = ""


class Stage(Struct, frozen=True):
    """``problem`` says why the steps of a stage cannot be shown yet."""

    number: int
    name: str
    state: str
    what: str
    blocks: str
    takes: str
    way_back: str
    steps: tuple[PlannedStep, ...]
    problem: str = ""


class Plan(Struct, frozen=True):
    rollout: str
    record: Record
    facts: Facts
    digest: str
    fingerprint: str
    stages: tuple[Stage, ...]
    budgets: tuple[Budget, ...]
    verdicts: tuple[Verdict, ...]
    problems: tuple[Problem, ...]
    waivers: tuple[Waiver, ...] = ()
    compat: str = ""
    renames: tuple[str, ...] = ()
    hanging: tuple[str, ...] = ()

    @property
    def something_to_do(self) -> bool:
        return any(s.steps or s.problem for s in self.stages)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Why stages are not planned yet, what the last trial of the mirror and the last proof of compatibility say,
        what each rename costs, what hangs on a column that the way back would drop, what else names the table (it
        keeps the columns that it was made with), what fires no trigger, and how far live values were looked at, each in
        a line."""
        unplanned = (f" {s.name}: not planned yet: {s.problem}" for s in self.stages if s.problem)
        trial = (f" trial of the mirror: {self.record.trial}",) if self.record.trial else ()
        compat = (f" compat: {self.compat}",) if self.compat else ()
        seen = self.facts.dependents.value if self.facts.dependents is not None else None
        named = (f" the table is named by: {', '.join(map(str, seen))}",) if seen else ()
        mirrors = any(isinstance(x.step, InstallTrigger) for s in self.stages for x in s.steps)
        fired = (f" {fires_none(self.facts)}",) if mirrors else ()
        fills = any(s.name in FORWARD[:2] for s in self.stages)
        cut = (f" {line}",) if fills and (line := values_cut(self.facts)) else ()
        told = (f" {line}" for line in (*self.renames, *self.hanging))
        return (*unplanned, *trial, *compat, *told, *named, *fired, *cut)


class Planner:
    def __init__(self, parts: Parts) -> None:
        self._p = parts
        self._entry = Entry(parts, Engine(parts))

    def present(self) -> Record:
        """The record as it stands now, corrected by what the server shows."""
        return self._entry.present()

    def plan(
        self, only: str | None = None, on_conflict: Literal["", "new_wins", "old_wins"] = "", *, leap: bool = False
    ) -> Plan:
        """Every forward stage that is not done, or only one; each gate of the runbook is tried once. Raises what
        ``Entry.present`` raises."""
        record, unseen = self._seen()
        record = replace(record, on_conflict=on_conflict, leap=leap)
        facts = self._p.observer.look(_NEEDS)
        names = [n for n in FORWARD if n not in record.done and (only is None or n == only)]
        stages = tuple(self._stage(n, record, facts) for n in names)
        problems = [
            problem
            for name in names
            for problem in self._phase(name).problems(self._p.runbook, facts, self._as_if(record, name))
        ]
        problems += [p for name in names[:1] for p in self._entry.drifted(record, name, facts)]
        gates = self._p.tried() if FORWARD[3] in names else ()
        verdicts = (*self._p.judge.everything(), *unseen, *gates)
        # Small accounts may plan, so a missing privilege is only shown; a server on which nothing can be done is not.
        wrong = [p for p in refused(verdicts) if p.kind is ProblemKind.CONFIGURATION] if stages else []
        return replace(
            self._bare(record, facts, stages),
            budgets=budgets(facts, self._p.runbook, [x.step for s in stages for x in s.steps], self._p.clock.now()),
            verdicts=verdicts,
            problems=tuple(dict.fromkeys((*self._entry.findings(record), *wrong, *problems))),
            compat=self._p.proven(),
            renames=rename_prices(self._p.runbook.contract),
        )

    def _seen(self) -> tuple[Record, tuple[Verdict, ...]]:
        """The record; for an account that may not read the state a new one, and that it is unseen."""
        try:
            return self._entry.present(), ()
        except PrivilegeMissing as blind:
            limit = "whether the rollout has begun, and how far it is"
            why = f"unseen: {blind.seen}"
            verdict = Verdict("state", Judgement.UNSEEN, f"state cannot be seen: {blind.seen}", why, limit, blind.next)
            return self._entry.new(), (verdict,)

    def plan_back(self, target: str) -> Plan:
        """What a rollback to ``target`` ("" = all the way) would do now."""
        return self._aside(self._p.rollback, replace(self._entry.present(), target=target), Need.METER)

    def plan_repair(self, on_conflict: Literal["", "new_wins", "old_wins"] = "") -> Plan:
        """What ``verify --repair`` would do now."""
        return self._aside(self._p.repair, replace(self._entry.present(), on_conflict=on_conflict))

    def _aside(self, phase: Phase, record: Record, *needs: Need) -> Plan:
        """The plan of what is no forward stage."""
        facts = self._p.observer.look(_NEEDS | {*needs})
        stage = self._described(phase.name, phase, self._resumed(record, phase.name), facts)
        problems = tuple(phase.problems(self._p.runbook, facts, record))
        hanging = tuple(
            f"it will be held before the mirror goes: {x}" for x in hanging_on(self._p.runbook, record, facts)
        )
        return replace(self._bare(record, facts, (stage,)), problems=problems, hanging=hanging)

    def _bare(self, record: Record, facts: Facts, stages: tuple[Stage, ...]) -> Plan:
        """The stages, bound to what was seen; nothing judged yet."""
        digest, fingerprint = self._p.runbook.digest, self.fingerprint(record, facts)
        waivers = self._p.runbook.waivers
        return Plan(record.id, record, facts, digest, fingerprint, stages, (), (), (), waivers)

    def fingerprint(self, record: Record | None = None, facts: Facts | None = None) -> str:
        """Contract digest, live shape, server and state revision; no counts and no check values (SPEC §7)."""
        record = record or self._entry.present()
        facts = facts or self._p.observer.look(frozenset({Need.SHAPE, Need.SERVER}))
        shape = facts.shape.value if facts.shape is not None else None
        server = facts.server.value if facts.server is not None else None
        parts = [
            self._p.runbook.digest,
            shape_digest(shape) if shape is not None else "",
            server.server_uuid if server is not None else "",
            str(record.transitions),
        ]
        return ":".join([hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16], *(p[:8] for p in parts)])

    def _phase(self, name: str) -> Phase:
        return self._p.forward[FORWARD.index(name)]

    def _stage(self, name: str, record: Record, facts: Facts) -> Stage:
        return self._described(name, self._phase(name), self._as_if(record, name), facts)

    def _as_if(self, record: Record, name: str) -> Record:
        """The record as it will be when ``name`` is entered."""
        return self._resumed(replace(record, done=FORWARD[: FORWARD.index(name)]), name)

    def _resumed(self, record: Record, name: str) -> Record:
        return resumed(record, name, self._p.runbook.phases.percents[-1])

    def _described(self, name: str, phase: Phase, record: Record, facts: Facts) -> Stage:
        try:
            steps = phase.steps(self._p.runbook, facts, record)
            each = zip(steps, costs(facts, self._p.runbook, steps), strict=True)
            planned = tuple(self._planned(step, cost) for step, cost in each)
            problem = ""
        except Held as unseen:
            steps, planned, problem = (), (), unseen.seen
        except RolloutError as error:
            steps, planned, problem = (), (), f"{error.seen}; {error.next}"
        size = facts.size.value if facts.size is not None else None
        return Stage(
            number=FORWARD.index(name) + 1 if name in FORWARD else 0,
            name=name,
            state="ahead" if record.next_phase != name else "next",
            what=what(steps) + self._already_there(name, facts),
            blocks=blocks_in_all(steps, self._p.runbook.limits.stall_budget_s),
            takes=takes(steps, size),
            way_back=way_back(name, self._p.runbook.phases.rollback_ddl),
            steps=planned,
            problem=problem,
        )

    def _planned(self, step: Step, cost: Cost) -> PlannedStep:
        sql = tuple(self._p.drivers[step.kind].describe(step))
        way, why = way_and_why(step)
        return PlannedStep(step_key(step), sql, blocks(step), step, cost, way, why)

    def _already_there(self, name: str, facts: Facts) -> str:
        shape = facts.shape.value if facts.shape is not None else None
        if name != FORWARD[0] or shape is None:
            return ""
        found = compare_shape(self._p.runbook.contract, shape).already_there
        return f"; {found}" if found else ""
