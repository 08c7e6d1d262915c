"""What holds a command is named, nothing of the table is changed, and the same command goes on when it is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.template import APPLICATION
from tests.support.servers import connect
from tests.support.small import Small, small


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


def table_alone(here: Small) -> dict[str, object]:
    return {k: v for k, v in here.seen().items() if k != "state"}


def test_75_while_somebody_holds_the_table_who_is_named_and_0_when_he_lets_go(here: Small) -> None:
    before = table_alone(here)
    with closing(connect(here.pair.primary, APPLICATION, here.schema)) as holder, holder.cursor() as cursor:
        cursor.execute("LOCK TABLES orders READ")
        told = here.terminal.run("next", "-y", "--json", expect=75).json
        cursor.execute("SELECT CONNECTION_ID()")
        ((id,),) = cursor.fetchall()
        assert told["error"] == "held"
        assert "metadata-locks" in told["seen"]
        assert f"app@127.0.0.1 (id {id})" in told["seen"].replace(f"localhost (id {id})", f"127.0.0.1 (id {id})")
        assert f"KILL {id}" in told["next"]
        assert table_alone(here) == before
        status = here.terminal.run("status", "--json").json
        assert (status["state"], status["phase"], status["who_must_act"]) == ("held", "ddl", "operator")
        assert status["next_command"] == "rollout next --phase ddl"
        # max_wait is one second here: by now it holds for too long, whoever tries again.
        here.terminal.run("next", "-y", expect=75)
        here.terminal.run("next", "-y", expect=75)
        assert here.terminal.run("status", "--json").json["stuck"] == "held"
        assert "\n stuck: checks hold the next step for " in here.terminal.run("status").out
        told = [json.loads(line) for line in here.terminal.run("history", "--json").out.splitlines()]
        assert [e["event"] for e in told if e["event"] in ("held", "stuck")] == ["held", "stuck", "held", "held"]
        verdicts = {c["name"]: c["verdict"] for c in here.terminal.run("check", "--json", expect=75).json["checks"]}
        assert verdicts["metadata-locks"] == "hold"
        assert set(verdicts.values()) == {"hold", "pass"}
    here.terminal.run("next", "--phase", "ddl", "-y")
    assert here.terminal.run("status", "--json").json["stuck"] is None


def test_0_for_requests_where_nothing_was_begun_and_nothing_is_made(here: Small) -> None:
    with here.unchanged():
        for verb in (
            ("pause",),
            ("resume",),
            ("abort",),
            ("rollback", "-y"),
            ("history",),
            ("status",),
            ("purge", "-y"),
        ):
            ran = here.terminal.run(*verb)
            assert ran.out, verb
            assert ran.err == "", verb
