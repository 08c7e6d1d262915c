"""Each kind of gate, in each of the ways in which it can answer: pass, fail, cannot say, flapping, late, garbage, gone.

Samples are taken as the ramp takes them, and judged as it judges them. Our own gates count rows: they are never late (a
pass takes as long as the table is long) and say no garbage.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.drivers.reads.gates import Gates
from orchestrator.model.gate import GateRun, GateWord
from orchestrator.model.runbook import GateSpec, PrometheusSource
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.site import Site
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.template import ROOT
from orchestrator.settings import ServerSettings
from tests.support.prometheus import GARBAGE, NINE, NOTHING, ZERO, answering, free_port, prometheus
from tests.support.servers import sql, wait_for
from tests.support.small import Small, small
from tests.support.state import settings_of
from tests.support.within import opened

pytestmark = pytest.mark.integration
_ROUNDS = 8
SPEC = GateSpec("gate", "", max=1.0, count=3, failure_limit=2, inconclusive_limit=2, timeout_s=2.0)
ASKED = {
    "sql": {
        "pass": "SELECT 0",
        "fail": "SELECT 9.5",
        "cannot say": "SELECT NULL",
        "garbage": "SELECT 'many'",
        "late": "SELECT SLEEP(20)",
    },
    "prometheus": {"pass": ZERO, "fail": NINE, "cannot say": NOTHING, "garbage": GARBAGE, "late": ZERO},
    "command": {
        "pass": "true",
        "fail": "echo 9.5",
        "cannot say": "sh -c 'echo 0; exit 3'",
        "garbage": "echo many",
        "late": "sleep 20",
    },
}
ANSWERS = [(kind, answer) for kind, answers in ASKED.items() for answer in ("pass", "fail", "cannot say", "garbage")]
WORDS = {"pass": GateWord.PASS, "fail": GateWord.FAIL}


@pytest.fixture(scope="module")
def here(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    with small(pair, tmp_path_factory.mktemp("gates")) as made:
        made.write(
            ("phases:", "invariants: [{name: done-has-note, sql: \"status <> 'done' OR note IS NOT NULL\"}]\nphases:")
        )
        yield made


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("prometheus")) as address:
        yield address


@contextmanager
def gates_of(here: Small, url: str = "", settings: ServerSettings | None = None) -> Iterator[Gates]:
    runbook = replace(load(here.terminal.runbook), prometheus=PrometheusSource(url))
    site = Site(settings or settings_of(here.pair.primary), runbook, SystemClock())
    gates = Gates(site, lambda: MysqlObserver(site))
    try:
        yield gates
    finally:
        gates.close()


def judged(gates: Gates, *specs: GateSpec) -> GateRun:
    """One sample of each, in that order, as samples of one gate."""
    run = GateRun(specs[0])
    for spec in specs:
        run = run.with_sample(gates.sample(spec), 0.0)
    return run


@pytest.mark.parametrize(("kind", "answer"), ANSWERS)
def test_what_a_gate_of_each_kind_answers(here: Small, url: str, kind: str, answer: str) -> None:
    spec = replace(SPEC, kind=kind, argument=ASKED[kind][answer])
    with gates_of(here, url) as gates:
        run = judged(gates, spec, spec)
    assert run.word is WORDS.get(answer, GateWord.CANNOT_SAY), run.evidence


@pytest.mark.parametrize("kind", list(ASKED))
def test_a_gate_that_flaps_fails_at_its_limit_and_waits_before_that(here: Small, url: str, kind: str) -> None:
    good = replace(SPEC, kind=kind, argument=ASKED[kind]["pass"])
    bad = replace(SPEC, kind=kind, argument=ASKED[kind]["fail"])
    with gates_of(here, url) as gates:
        assert judged(gates, good, bad).word is GateWord.WAITING
        assert judged(gates, bad, good).word is GateWord.PASS
        assert judged(gates, bad, good, bad).word is GateWord.FAIL


def _silent(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.recv(1)


@pytest.mark.parametrize("kind", ["sql", "prometheus", "command"])
def test_a_late_gate_is_ended_in_time_and_has_said_nothing(here: Small, kind: str) -> None:
    spec = replace(SPEC, kind=kind, argument=ASKED[kind]["late"], timeout_s=0.3, inconclusive_limit=1)
    with answering(_silent) as silent, gates_of(here, silent) as gates:
        began = time.monotonic()
        run = judged(gates, spec)
        assert time.monotonic() - began < 3
    assert run.word is GateWord.CANNOT_SAY, run.evidence


def test_a_sample_that_never_comes_is_not_waited_for_nor_begun_twice(here: Small) -> None:
    """Whatever hangs (a name that is not resolved, a disk): the ramp goes on to judge, and threads do not pile up."""
    spec = replace(SPEC, kind="command", argument="true", timeout_s=-1.5)
    with gates_of(here) as gates:
        held = {"is": True}

        def hangs(gate: GateSpec) -> float:
            wait_for(lambda: not held["is"], 20)
            return 0.0

        gates.sample = hangs  # type: ignore[method-assign]
        sampling = gates.begin(spec)
        assert sampling() is None
        wait_for(lambda: sampling() == "no answer within 0.5 s", 5)
        assert gates.begin(spec)() == "its last sample is still under way"
        held["is"] = False
        wait_for(lambda: sampling() == 0.0, 5)


@pytest.mark.parametrize("kind", ["drift", "invariants", "mirror", "sql", "prometheus", "command"])
def test_a_gate_whose_server_is_gone_cannot_say(here: Small, kind: str) -> None:
    """A command has no server; its program is what can be gone."""
    argument = "no-such-program-here" if kind == "command" else "SELECT 0"
    gone = ServerSettings(port=free_port())
    spec = replace(SPEC, kind=kind, argument=argument, inconclusive_limit=1)
    with gates_of(here, f"http://127.0.0.1:{free_port()}", gone) as gates:
        run = judged(gates, spec)
    assert run.word is GateWord.CANNOT_SAY
    assert run.samples[0].problem


@pytest.mark.parametrize("kind", list(ASKED))
def test_a_number_that_is_made_of_too_few_events_is_none(here: Small, url: str, kind: str) -> None:
    """``min_sample_size``: an error rate over two requests says nothing about the application."""
    spec = replace(SPEC, kind=kind, argument=ASKED[kind]["pass"], sample_size=ASKED[kind]["fail"])
    with gates_of(here, url) as gates:
        assert gates.sample(replace(spec, min_sample_size=9)) == 0.0
        assert str(gates.sample(replace(spec, min_sample_size=10))).startswith("made of 9")
        blind = replace(spec, sample_size=ASKED[kind]["cannot say"], min_sample_size=1)
        assert str(gates.sample(blind)).startswith("how many events it is made of cannot be told: ")


def test_our_own_gates_count_rows_and_say_whether_the_mirror_stands_also_all_at_once(here: Small) -> None:
    names = ("drift", "invariants", "mirror")
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        spec = app.parts.runbook.gate

        def now() -> dict[str, float | str]:
            return {name: app.gates.sample(spec(name)) for name in names}

        before = now()
        assert isinstance(before["drift"], str), "without the column nobody can say"
        app.commands.next("ddl")
        assert now() == {"drift": 3.0, "invariants": 0.0, "mirror": 1.0}
        app.commands.next("backfill")
        app.commands.next("shadow-write")
        assert now() == {"drift": 0.0, "invariants": 0.0, "mirror": 0.0}
        for _ in range(_ROUNDS):  # as a ramp begins them: all in the same moment
            begun = {name: app.gates.begin(spec(name)) for name in names}
            wait_for(lambda b=begun: all(ask() is not None for ask in b.values()), 20)  # type: ignore[misc]
            assert {name: ask() for name, ask in begun.items()} == dict.fromkeys(names, 0.0)
        here.sql(f"UPDATE {here.table} SET note = NULL WHERE status = 'done'")
        assert now()["invariants"] == 2.0
        assert judged(app.gates, spec("invariants"), spec("invariants"), spec("invariants")).word is GateWord.FAIL
        flaps, words = GateRun(replace(spec("invariants"), count=3, failure_limit=2)), []
        for note in ("x", None, "x", None):
            here.sql(f"UPDATE {here.table} SET note = %s WHERE status = 'done'", note)
            flaps = flaps.with_sample(app.gates.sample(flaps.spec), 0.0)
            words.append(flaps.word)
        assert words == [GateWord.PASS, GateWord.WAITING, GateWord.PASS, GateWord.FAIL]
        triggers = here.sql(
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s", here.schema
        )
        here.sql(f"DROP TRIGGER `{here.schema}`.`{triggers[0][0]}`")
        assert now()["mirror"] == 1.0


def test_a_table_that_is_gone_lets_no_gate_of_ours_pass(here: Small, tmp_path: Path, pair: Pair) -> None:
    with small(pair, tmp_path, columns="") as empty, gates_of(empty) as gates:
        for kind in ("drift", "invariants"):
            spec = replace(SPEC, kind=kind, inconclusive_limit=1)
            assert judged(gates, spec).word is GateWord.CANNOT_SAY
        assert gates.sample(replace(SPEC, kind="mirror")) != 0.0


def test_gates_are_tried_before_anybody_relies_on_them(pair: Pair, tmp_path: Path) -> None:
    gates = (
        "gates:\n  - {name: good, sql: SELECT 3, max: 5}\n  - {name: bad, command: echo 9, max: 5}\n"
        "  - {name: mute, sql: SELECT NULL, max_increase: 10%}\nchecks:"
    )
    with small(pair, tmp_path) as made:
        made.write(("checks:", gates))
        with made.unchanged():
            lint = made.terminal.run("lint", "--gates", "--json", expect=75)
            tried = {g["name"]: (g["verdict"], g["seen"]) for g in json.loads(lint.out)["gates"]}
            shown = made.terminal.run("plan", "--json")
        assert tried == {
            "gate good": ("pass", "3"),
            "gate bad": ("hold", "9"),
            "gate mute": ("unseen", "NULL instead of a number"),
        }
        verdicts = {c["name"]: (c["verdict"], c["seen"]) for c in json.loads(shown.out)["checks"]}
        assert {name: verdicts[name] for name in tried} == tried


WRITES = {
    "alone": "DELETE FROM {t}",
    "behind a query": "SELECT 0; SET SESSION TRANSACTION READ WRITE; COMMIT; DELETE FROM {t}",
    "before a query": "COMMIT; SET SESSION TRANSACTION READ WRITE; DELETE FROM {t}; SELECT 0",
    "out of what is put around it": "SELECT 1) AS gate; COMMIT; SET SESSION TRANSACTION READ WRITE; DELETE FROM {t};"
    " SELECT * FROM (SELECT 0",
    "behind a comment": "SELECT 0 -- ;\n; COMMIT; DELETE FROM {t}",
    "by a procedure": "CALL {s}.ends_and_deletes()",
    "by a function": "SELECT {s}.deletes()",
    "a table": "CREATE TABLE {s}.made (id INT)",
    "a setting": "SET GLOBAL long_query_time = 9",
    "a file": "SELECT 0 INTO OUTFILE '/nowhere/at/all'",
}


@pytest.fixture(scope="module")
def writers(here: Small) -> None:
    """A procedure that ends the transaction and writes, and a function that writes."""
    ends = f"COMMIT; SET SESSION TRANSACTION READ WRITE; DELETE FROM {here.table}; SELECT 0"
    sql(here.pair.primary, f"CREATE PROCEDURE {here.schema}.ends_and_deletes() BEGIN {ends}; END", account=ROOT)
    deletes = f"RETURNS INT DETERMINISTIC BEGIN DELETE FROM {here.table}; RETURN 0; END"
    sql(here.pair.primary, f"CREATE FUNCTION {here.schema}.deletes() {deletes}", account=ROOT)


@pytest.mark.parametrize("way", WRITES)
def test_a_gate_that_would_write_says_nothing_and_writes_nothing(here: Small, writers: None, way: str) -> None:
    with gates_of(here, settings=settings_of(here.pair.primary, account=ROOT)) as gates, here.unchanged():
        before = here.sql("SELECT @@GLOBAL.long_query_time")
        text = WRITES[way].format(t=here.table, s=here.schema)
        taken = gates.sample(replace(SPEC, kind="sql", argument=text))
        assert isinstance(taken, str)
        assert taken.startswith("the server answered "), taken
        assert here.sql("SELECT @@GLOBAL.long_query_time") == before


@pytest.mark.parametrize(
    "query",
    ["SELECT 7;\n", "WITH a AS (SELECT 7 AS n) SELECT n FROM a -- the number", "VALUES ROW(7)", "SELECT 6.5 + 0.5"],
)
def test_a_gate_may_be_any_query(here: Small, query: str) -> None:
    with gates_of(here) as gates:
        assert gates.sample(replace(SPEC, kind="sql", argument=query)) == 7


def test_a_hint_of_a_gate_does_not_lift_its_time_limit(here: Small) -> None:
    began = time.monotonic()
    with gates_of(here) as gates:
        query = "SELECT /*+ MAX_EXECUTION_TIME(60000) SET_VAR(max_execution_time=60000) */ SLEEP(20)"
        taken = gates.sample(replace(SPEC, kind="sql", argument=query, timeout_s=0.5))
    assert isinstance(taken, str)
    assert time.monotonic() - began < 10
