"""What is demanded of live values that could not be looked at, and which command mends rows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchestrator.model.comparing import comparison
from orchestrator.model.facts import Facts, Reading, ValueScan
from orchestrator.model.state import Record
from orchestrator.model.verdict import ProblemKind
from phases.demands import sweep, unseen_values
from tests.support.state import begin
from tests.support.world import RUNBOOK


@pytest.mark.parametrize(
    ("reading", "kind", "next"),
    [
        (Reading(0.0, unseen="gone away"), ProblemKind.HELD, "mend what is named, then the same command again"),
        (Reading(0.0, unseen="denied", grant="GRANT SELECT"), ProblemKind.PRIVILEGE, "GRANT SELECT"),
        (Reading(0.0, unseen="f(o)", wanted="g(o)", mend="write g"), ProblemKind.RUNBOOK, "write g"),
    ],
)
def test_values_that_could_not_be_looked_at_are_not_good(
    reading: Reading[ValueScan], kind: ProblemKind, next: str
) -> None:
    (found,) = unseen_values(Facts(values=reading))
    assert (found.kind, found.next) == (kind, next)
    assert reading.unseen in found.seen
    assert unseen_values(Facts(values=Reading(0.0, ValueScan(0, True, ())))) == ()


@pytest.mark.parametrize(
    ("done", "mend"),
    [
        (("ddl", "backfill"), "rollout next --phase shadow-write"),
        (("ddl", "backfill", "shadow-write"), "rollout verify --repair"),
    ],
)
def test_a_stage_that_is_done_is_not_named_to_mend_rows(done: tuple[str, ...], mend: str) -> None:
    record: Record = replace(begin()[0], done=done)
    assert comparison(record, "drift", 0.1).mend == sweep(RUNBOOK, record).mend == mend
