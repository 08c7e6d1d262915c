"""Rollback: the plan read backwards, to any earlier stage or all the way. Readers first, the mirror last."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.comparing import comparison
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import Record
from orchestrator.model.step import (
    Drain,
    DropCheck,
    DropColumns,
    DropForeignKey,
    DropIndex,
    LowerFlags,
    Quiet,
    RemoveMirror,
    RenameColumn,
    Step,
    step_key,
)
from orchestrator.model.verdict import Problem, ProblemKind
from orchestrator.model.way_back import remaining
from phases.demands import columns_gone, doubled, mirror_of, shape_of

NAME = "rollback"


class Rollback:
    """Where it goes is ``record.target``."""

    name = NAME
    entry_needs = frozenset({Need.SHAPE})
    needs = frozenset({Need.SHAPE, Need.MIRROR, Need.FLAG})

    def problems(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Problem]:
        if record.target and record.target not in record.done:
            return (
                Problem(
                    ProblemKind.HELD,
                    "rollback-target",
                    f"{record.target} is not done",
                    f"a stage that is done: {', '.join(record.done) or 'none is'}",
                    "rollout status",
                ),
            )
        return ()

    def steps(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        keeps = remaining(record, runbook.phases.rollback_ddl)
        stays = "read-switch" in keeps or "lower-flags" in record.done_steps
        lower = () if stays else (LowerFlags(why="a rollback was asked for"),)
        mirror = self._mirror(runbook, facts, record) if "shadow-write" not in keeps else ()
        ddl = self._ddl(runbook, facts, record) if not record.target and "ddl" not in keeps else ()
        return tuple(s for s in (*lower, *mirror, *ddl))

    def _mirror(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        """A mirror that somebody else took down is no less missed: what was written since must be looked at as well.

        While the old column is the truth there is nothing to prove: what was not filled yet is lost to nobody."""
        if not (mirror_of(facts).stands or record.both_written):
            return ()
        contract, settings = runbook.contract, runbook.phases
        # Where all of them went with somebody's swap of the table, nothing is left to compare or to lose.
        pairs = {m.new for m in contract.pairs}
        nothing_left = bool(pairs) and pairs <= {*columns_gone(runbook, facts, record)}
        compares = record.both_written and not nothing_left
        steps: tuple[Step, ...] = (
            Drain(table=contract.table, poll_s=settings.poll_s),
            Quiet(
                table=contract.table,
                columns=tuple(m.new for m in contract.mappings),
                seconds=settings.rollback_quiet_s,
                flag=False,
                writes_only=True,
                waived=not record.both_written,
                doubled=doubled(runbook),
            ),
            *((comparison(record, "drift", settings.target_time_s),) if compares else ()),
        )
        # As in finish: where a part of it went already, by us, all this was proven before.
        proven = record.mirror_goes and not mirror_of(facts).intact
        waiting = tuple(s for s in steps if not proven and step_key(s) not in record.done_steps)
        take_down = RemoveMirror(
            table=contract.table,
            accepted=record.accepted,
            family=shape_of(facts).family,
            driver=settings.shadow,
        )
        return (*waiting, take_down)

    def _undoubled(self, runbook: Runbook, record: Record) -> Sequence[Step]:
        """Before a column goes: nobody writes it beside the old one any more. Where the applications do that, they have
        heard that they need not, and none was seen that does."""
        contract, settings = runbook.contract, runbook.phases
        if settings.shadow != "flag":
            return ()
        steps: tuple[Step, ...] = (
            Drain(table=contract.table, poll_s=settings.poll_s, after="mirror"),
            Quiet(
                table=contract.table,
                columns=tuple(m.new for m in contract.mappings),
                seconds=settings.rollback_quiet_s,
                flag=False,
                writes_only=True,
                waived=False,
                after="mirror",
            ),
        )
        return tuple(s for s in steps if step_key(s) not in record.done_steps)

    def _ddl(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        """What was there before the rollout stays: somebody else put it there."""
        shape, contract = shape_of(facts), runbook.contract
        keys = (f for f in contract.foreign_keys if f.name in record.foreign_keys_added and shape.foreign_key(f.name))
        indexes = (i for i in contract.indexes if i.name in record.indexes_added and shape.index(i.name))
        columns = tuple(c for c in contract.columns if c.name in record.columns_added and shape.column(c.name))
        there = {name for name, _ in shape.checks}
        checks = (c for c in contract.checks if c.name in record.checks_added and c.name in there)
        renamed = (r for r in contract.renames_in_place if r.old in record.columns_renamed and shape.column(r.new))
        drops: tuple[Step, ...] = (
            *(DropCheck(table=contract.table, check=c, family=shape.family) for c in checks),
            *(DropForeignKey(table=contract.table, foreign_key=f, family=shape.family) for f in keys),
            *(DropIndex(table=contract.table, index=i, family=shape.family) for i in indexes),
            *((DropColumns(table=contract.table, columns=columns, family=shape.family),) if columns else ()),
            *(
                RenameColumn(table=contract.table, old=r.new, new=r.old, family=shape.family, back=True)
                for r in renamed
            ),
        )
        return (*self._undoubled(runbook, record), *drops) if columns else drops
