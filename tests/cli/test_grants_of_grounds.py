"""``doctor --grants`` for runbooks that need more than a column and an index: a foreign key, columns that go again,
sessions that may be killed, applications that write both columns, gh-ost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.app.wiring import App
from orchestrator.checks.privileges import Privileges
from orchestrator.model.facts import Need
from orchestrator.model.state import FINISH, FORWARD, REPAIR, ROLLBACK
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from tests.cli.test_grants import ACTING, do, for_somebody, of_stage, only, printed, revoked, stages_of, without
from tests.support.looking import small_account
from tests.support.servers import script, wait_caught_up
from tests.support.small import Small, small
from tests.support.within import opened

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Demands:
    """``changes`` of the runbook, the stages as they are walked, and a right that is printed for nothing else."""

    changes: Sequence[tuple[str, str]]
    stages: Sequence[str]
    special: Sequence[str]


GROUNDS = {
    "a foreign key and columns that go": Demands(
        (
            (
                "  indexes:\n",
                "    - {name: owner_id, type: int}\n  indexes:\n    - {name: by_owner, columns: [owner_id]}\n",
            ),
            (
                "mappings:\n",
                "  foreign_keys: [{name: fk_owner, columns: [owner_id], references: owner(id)}]\nmappings:\n",
            ),
            ("rollback: {quiet: 200ms}", "rollback: {quiet: 200ms, ddl: drop}"),
            ("{max_wait: 1s}", "{max_wait: 1s, metadata_locks: {max_age: 5s, kill: {older_than: 30s}}}"),
        ),
        (*FORWARD[:3], ROLLBACK, *FORWARD, REPAIR, FINISH),
        ("REFERENCES", "CONNECTION_ADMIN"),
    ),
    "double writes by a flag": Demands(
        (("shadow_write: {soak: 200ms}", "shadow_write: {driver: flag, soak: 500ms}"),),
        (*FORWARD[:3], ROLLBACK, *FORWARD[1:], REPAIR, FINISH),
        (),
    ),
    "a copy by gh-ost": Demands(
        (
            ("contract:\n", "contract:\n  allow_rebuild: a test of rights\n"),
            ("phases:\n", "phases:\n  ddl: {engine: gh-ost, gh_ost: {old_table: drop}}\n"),
        ),
        (*FORWARD, FINISH),
        # The schema's name has a sign that is a wildcard in a GRANT.
        ("REPLICATION SLAVE", "ALL PRIVILEGES"),
    ),
}


@pytest.fixture(params=GROUNDS)
def ground(pair: Pair, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Small, Demands]]:
    demands = GROUNDS[request.param]
    with small(pair, tmp_path) as at:
        script(pair.primary, f"CREATE TABLE {at.schema}.owner (id INT PRIMARY KEY)")
        at.write(*demands.changes)
        try:
            yield at, demands
        finally:
            setting = "log_bin_trust_function_creators"
            script(pair.primary, f"SET GLOBAL {setting} = DEFAULT; RESET PERSIST IF EXISTS {setting}")


@pytest.mark.faults
@pytest.mark.slow
def test_each_stage_of_such_a_ground_runs_with_exactly_the_grants_that_are_printed_for_it(
    ground: tuple[Small, Demands],
) -> None:
    here, demands = ground
    grants, runbook = printed(here), load(here.terminal.runbook)
    assert {right for right, _ in without(grants)} >= set(demands.special)
    with small_account(here.pair.primary, "staged", "") as account:
        for stage in demands.stages:
            only(here, account, of_stage(grants, stage))
            wait_caught_up(here.pair)
            with opened(runbook, here.pair.primary, account=account) as app:
                do(app, stage)


@pytest.mark.faults
@pytest.mark.slow
def test_a_right_of_such_a_ground_is_demanded_by_the_stages_that_need_it_and_by_no_other(
    ground: tuple[Small, Demands],
) -> None:
    here, _ = ground
    grants = printed(here)
    with (
        small_account(here.pair.primary, "staged", for_somebody(grants)) as account,
        opened(load(here.terminal.runbook), here.pair.primary, account=account) as app,
    ):
        assert demanded(app) == {}
        everything = {on for right, on in without(grants) if right == "ALL PRIVILEGES"}
        for right, on in without(grants):
            # What is given on the whole schema as well is not missed on a table of it.
            if any(on.startswith(schema.replace("\\", "").rstrip("*")) and on != schema for schema in everything):
                continue
            with revoked(here, account, right, on):
                wanted = {"", *stages_of(grants, right, on)} & {"", *ACTING}
                found = demanded(app)
                assert set(found) == wanted, (right, on)
                assert all(right in grant and on in grant for grant in found.values()), (right, on, found)


def demanded(app: App) -> dict[str, str]:
    """By stage ("": the whole way), what the check of privileges would have the operator type."""
    facts, now = app.observer.look(frozenset({Need.PRIVILEGES})), app.parts.clock.monotonic()
    judge = partial(Privileges().judge, limits=app.parts.runbook.limits, now=now)
    verdicts = {stage: judge(replace(facts, stage=stage)) for stage in ("", *ACTING)}
    return {stage: v.next for stage, v in verdicts.items() if not v.good}
