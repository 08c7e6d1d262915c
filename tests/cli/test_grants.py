"""``doctor --grants``: what it prints is enough for the whole way, and no single right of it is too much."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pymysql.err import OperationalError

from orchestrator.app.wiring import App
from orchestrator.checks.privileges import Privileges
from orchestrator.errors import Exit, PrivilegeMissing
from orchestrator.model.facts import Need
from orchestrator.model.state import FINISH, FORWARD, REPAIR, ROLLBACK
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.template import Account
from tests.support.looking import small_account
from tests.support.meanwhile import ROW_BY_ROW, Somebody, ends
from tests.support.servers import script, sql, wait_caught_up
from tests.support.small import Small, small
from tests.support.state import settings_of
from tests.support.within import opened

pytestmark = pytest.mark.integration
_GRANT = re.compile(r"^GRANT (?P<rights>.+) ON (?P<on>\S+) TO (?P<who>\S+);$")


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as at:
        try:
            yield at
        finally:
            # Among the printed grants is a setting, which is not the account's: other tests meet the server as it was.
            setting = "log_bin_trust_function_creators"
            script(pair.primary, f"SET GLOBAL {setting} = DEFAULT; RESET PERSIST IF EXISTS {setting}")


def printed(here: Small) -> list[dict[str, Any]]:
    return [dict(g) for g in here.terminal.run("doctor", "--grants", "--json").json["grants"]]


def for_somebody(grants: list[dict[str, Any]]) -> str:
    """The statements as printed, for an account that the test makes; the setting becomes its own statement."""
    return "; ".join(re.sub(r" TO \S+;$", " TO {who}", str(g["grant"])).rstrip(";") for g in grants)


ACTING = (*FORWARD, REPAIR, ROLLBACK, FINISH)
STAGES = (*FORWARD[:3], ROLLBACK, *FORWARD[1:], REPAIR, FINISH)


def do(app: App, stage: str) -> object:
    if stage in FORWARD:
        return app.commands.next(stage)
    if stage == FINISH:
        return app.commands.finish(False, ())
    return app.commands.repair() if stage == REPAIR else app.commands.rollback("", ())


def only(here: Small, account: Account, grants: list[dict[str, Any]]) -> None:
    """The account has these grants and no other."""
    who = f"`{account.user}`@`127.0.0.1`"
    script(here.pair.primary, f"REVOKE ALL, GRANT OPTION FROM {who}; {for_somebody(grants).format(who=who)}")


def of_stage(grants: list[dict[str, Any]], stage: str) -> list[dict[str, Any]]:
    return [g for g in grants if stage in g["stages"]]


def test_each_stage_runs_with_exactly_the_grants_that_are_printed_for_it(here: Small) -> None:
    """No stage is done with a right of another one, forward, back and to the end."""
    grants, runbook = printed(here), load(here.terminal.runbook)
    with small_account(here.pair.primary, "staged", "") as account:
        for stage in STAGES:
            only(here, account, of_stage(grants, stage))
            wait_caught_up(here.pair)
            with opened(runbook, here.pair.primary, account=account) as app:
                do(app, stage)


def without(grants: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Every single right of those grants, and on what."""
    for grant in grants:
        if parts := _GRANT.match(grant["grant"]):
            yield from ((right, parts["on"]) for right in parts["rights"].split(", "))


def stages_of(grants: list[dict[str, Any]], right: str, on: str) -> list[str]:
    """Every stage for which that right is printed."""
    return [s for g in grants if (right, on) in without([g]) for s in g["stages"]]


@contextmanager
def revoked(here: Small, account: Account, right: str, on: str) -> Iterator[None]:
    who = f"`{account.user}`@`127.0.0.1`"
    script(here.pair.primary, f"REVOKE {right} ON {on} FROM {who}")
    try:
        yield
    finally:
        script(here.pair.primary, f"GRANT {right} ON {on} TO {who}")


def test_the_grants_reach_no_schema_that_is_only_called_alike(here: Small) -> None:
    """``_`` stands for any sign in a GRANT on a schema, but not under partial_revokes."""
    alike = "xrollout"
    server = here.pair.primary
    script(server, f"CREATE DATABASE {alike}; CREATE TABLE {alike}.t (id INT)")
    try:
        for revokes in ("OFF", "ON"):
            script(server, f"SET GLOBAL partial_revokes = {revokes}")
            with small_account(server, "exact", for_somebody(printed(here))) as account:
                with pytest.raises(OperationalError, match="denied"):
                    sql(server, f"SELECT * FROM {alike}.t", account=account)
                assert here.operator(account).run("doctor", "--json").json["missing"] == []
    finally:
        script(server, f"SET GLOBAL partial_revokes = OFF; DROP DATABASE {alike}")


@pytest.mark.faults
@pytest.mark.slow
def test_for_each_single_right_of_each_stage_that_is_taken_away_77_names_it(here: Small) -> None:
    """Every right of every stage, back and forward again, by the command itself."""
    grants, runbook = printed(here), load(here.terminal.runbook)
    with small_account(here.pair.primary, "staged", "") as account:
        for at, stage in enumerate(STAGES):
            mine = of_stage(grants, stage)
            only(here, account, mine)
            wait_caught_up(here.pair)
            with opened(runbook, here.pair.primary, account=account) as app:
                for right, on in without(mine) if stage not in STAGES[:at] else ():
                    with revoked(here, account, right, on), pytest.raises(PrivilegeMissing) as refused:
                        do(app, stage)
                    assert refused.value.exit_code is Exit.PRIVILEGE
                    grant = rf"GRANT [^;]*\b{right}\b[^;]* ON {re.escape(on)} TO"
                    assert re.search(grant, refused.value.next), (stage, right, on, refused.value.next)
                do(app, stage)


def test_a_right_that_is_taken_away_is_demanded_by_the_stages_that_need_it_and_by_no_other(
    here: Small,
) -> None:
    grants = printed(here)
    with small_account(here.pair.primary, "staged", for_somebody(grants)) as account:
        with opened(load(here.terminal.runbook), here.pair.primary, account=account) as app:

            def demanded() -> dict[str, str]:
                """By stage ("": the whole way), what the check of privileges would have the operator type."""
                facts, now = app.observer.look(frozenset({Need.PRIVILEGES})), app.parts.clock.monotonic()
                judge = partial(Privileges().judge, limits=app.parts.runbook.limits, now=now)
                verdicts = {stage: judge(replace(facts, stage=stage)) for stage in ("", *ACTING)}
                return {stage: v.next for stage, v in verdicts.items() if not v.good}

            assert demanded() == {}
            for grant in grants:
                for right, on in without([grant]):
                    with revoked(here, account, right, on):
                        wanted = f"GRANT {right} ON {on} TO `staged`@`127.0.0.1`;"
                        stages = ("", *(s for s in ACTING if s in stages_of(grants, right, on)))
                        assert demanded() == dict.fromkeys(stages, wanted), (right, on)
        terminal = here.operator(account)
        with revoked(here, account, "UPDATE", here.table):
            terminal.run("next", "-y")
            assert "GRANT UPDATE ON" in terminal.run("next", "-y", "--json", expect=77).json["next"]


@pytest.mark.faults
@pytest.mark.slow
def test_a_right_on_the_state_that_is_taken_away_under_a_backfill_ends_it_at_once_with_77(here: Small) -> None:
    here.write(ROW_BY_ROW)
    here.sql(f"INSERT INTO {here.table} (id, status) SELECT 10 + id, status FROM {here.table}")
    here.sql(f"INSERT INTO {here.table} (id, status) SELECT 100 + id, status FROM {here.table}")
    with small_account(here.pair.primary, "staged", for_somebody(printed(here))) as account, ExitStack() as taken:
        settings = settings_of(here.pair.primary, account=account)
        here.operator(account).run("next", "-y")
        lost = revoked(here, account, "UPDATE", "`\\_rollout`.*")
        began = time.monotonic()
        error = ends(here, Somebody(lambda: taken.enter_context(lost), during="fill:backfill"), "backfill", settings)
        assert error.exit_code is Exit.PRIVILEGE, error.seen
        assert "UPDATE" in error.next
        assert time.monotonic() - began < 20


@pytest.mark.slow  # the same in one process: test_each_stage_runs_with_exactly_the_grants_that_are_printed_for_it
def test_the_printed_grants_are_enough_for_the_whole_way_and_back(here: Small) -> None:
    with small_account(here.pair.primary, "exact", for_somebody(printed(here))) as account:
        wait_caught_up(here.pair)
        terminal = here.operator(account)
        for command in (("run", "-y"), ("rollback", "-y"), ("run", "-y"), ("finish", "-y"), ("purge", "-y")):
            terminal.run(*command)


def test_the_grants_for_looking_let_an_account_look_and_nothing_else(here: Small) -> None:
    looking = [g for g in printed(here) if "plan" in g["stages"]]
    with small_account(here.pair.primary, "looker", for_somebody(looking)) as account:
        wait_caught_up(here.pair)
        terminal = here.operator(account)
        checks = terminal.run("plan", "--json").json["checks"]
        assert [c for c in checks if c["verdict"] == "unseen" and "GRANT" in str(c)] == []
        terminal.run("status")
        with here.unchanged():
            terminal.run("next", "-y", expect=77)
