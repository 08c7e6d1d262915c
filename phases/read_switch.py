"""Read-switch: opens the new columns for writing, then moves readers over in steps, with gates at each."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.comparing import comparison
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import Record
from orchestrator.model.step import (
    CatchUp,
    KeepFlags,
    LowerFlags,
    MeasureBaselines,
    OpenWrites,
    SetPercent,
    Step,
    step_key,
)
from orchestrator.model.verdict import Problem
from phases.demands import flag_of

NAME = "read-switch"


class ReadSwitch:
    """The ramp always begins at 0 % and goes through its gate, also after a watcher was lost: an open flag that this
    visit did not open is lowered first, never renewed. Percent steps that passed before an interruption are not held
    again."""

    name = NAME
    entry_needs = frozenset({Need.SHAPE})
    needs = frozenset({Need.FLAG})

    def problems(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Problem]:
        return ()

    def steps(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        settings, flag = runbook.phases, flag_of(facts)
        if "keep-flags" in record.done_steps:
            return ()
        ttl_s = None if settings.stays else settings.ttl_s
        opened = "open-writes" in record.done_steps
        stale = not opened and flag.raised
        steps: tuple[Step, ...] = (
            *((LowerFlags(why="an earlier watcher left them raised"),) if stale else ()),
            comparison(record, "drift", settings.target_time_s),
            CatchUp(seconds=runbook.limits.max_wait_s),
            MeasureBaselines(gates=settings.gates),
            OpenWrites(ttl_s=ttl_s),
            *(
                SetPercent(
                    percent=p,
                    hold_s=settings.hold_s,
                    ttl_s=ttl_s,
                    gates=settings.gates,
                    baselines=record.baselines,
                )
                for p in (settings.percents[-1:] if record.leap else settings.percents)
            ),
            KeepFlags(),
        )
        return tuple(s for s in steps if isinstance(s, LowerFlags) or step_key(s) not in record.done_steps)
