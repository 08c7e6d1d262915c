"""``doctor --grants``: what it prints is enough for the whole way, and no single right of it is too much."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.mysql.look.privileges import read_missing
from orchestrator.mysql.look.unseen import read_account
from orchestrator.mysql.session import Session
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from tests.support.looking import small_account
from tests.support.servers import script, wait_caught_up
from tests.support.small import Small, small
from tests.support.state import settings_of

pytestmark = pytest.mark.integration
_GRANT = re.compile(r"^GRANT (?P<rights>.+) ON (?P<on>\S+) TO (?P<who>\S+);$")


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as at:
        yield at


def printed(here: Small) -> list[dict[str, Any]]:
    return [dict(g) for g in here.terminal.run("doctor", "--grants", "--json").json["grants"]]


def for_somebody(grants: list[dict[str, Any]]) -> str:
    """The statements as printed, for an account that the test makes; the setting becomes its own statement."""
    return "; ".join(re.sub(r" TO \S+;$", " TO {who}", str(g["grant"])).rstrip(";") for g in grants)


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


def test_each_single_right_that_is_taken_away_is_named_with_its_grant(here: Small) -> None:
    runbook = load(here.terminal.runbook)
    grants = [g for g in printed(here) if _GRANT.match(g["grant"])]
    with small_account(here.pair.primary, "less", for_somebody(printed(here))) as account:
        settings = settings_of(here.pair.primary, account=account)

        def missing() -> list[tuple[str, str]]:
            with closing(Session(settings, role="test")) as session:
                found = read_missing(session, runbook, settings.state_schema, read_account(session))
                return [(m.privilege, m.grant) for m in found]

        assert missing() == []
        for grant in grants:
            parts = _GRANT.match(grant["grant"])
            assert parts is not None
            for right in parts["rights"].split(", "):
                who = f"`{account.user}`@`127.0.0.1`"
                script(here.pair.primary, f"REVOKE {right} ON {parts['on']} FROM {who}")
                assert missing() == [(right, f"GRANT {right} ON {parts['on']} TO {who};")]
                script(here.pair.primary, f"GRANT {right} ON {parts['on']} TO {who}")
