"""The mirror and the relation against a model of their rules, over pairs of every kind and any order of statements."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import product
from random import Random
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column, Contract, TableName, Unmapped, Winner
from orchestrator.model.facts import Shape
from orchestrator.model.types import parse_type
from orchestrator.mysql import quote
from orchestrator.mysql.pinned import SQL_MODE
from orchestrator.mysql.relation import PairSql, Relation, load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import mirror
from orchestrator.sandbox.server import Server
from orchestrator.settings import Secret, ServerSettings
from tests.support.mirror_cases import CASES
from tests.support.mirror_model import Lost, PairCase, spec
from tests.support.servers import connect, script
from tests.support.shapes import live_shape, plain_shape

# The servers make an example slow: the everyday profiles take few, the long one many.
EXAMPLES = 30 if settings.default.max_examples <= 100 else settings.default.max_examples // 4
OFFSETS = {"+00:00": 0, "+05:00": 5, "-08:00": -8}
STRICT = "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO"
BY_COLUMN = {column: (case, case.old == column) for case in CASES for column in (case.old, case.new)}


def cell(alias: str) -> Any:
    return lambda column: f"{alias}.{quote.name(column)}"


@dataclass
class Ground:
    """Two tables with the same columns, one of them mirrored; ``relation`` is what both are read by."""

    server: Server
    schema: str
    winner: Winner
    relation: Relation = field(init=False)
    session: Session = field(init=False)
    application: Any = field(init=False)

    def build(self) -> None:
        columns = ", ".join(f"{c.old} {c.old_ddl}" for c in CASES)
        for table in ("plain", "mirrored"):
            script(
                self.server, f"SET sql_mode = ''; CREATE TABLE {self.schema}.{table} (id INT PRIMARY KEY, {columns})"
            )
        self.session = Session(settings_of(self.server), role="test")
        self.application = connect(self.server, database=self.schema)
        table = TableName(self.schema, "mirrored")
        contract = Contract(
            table=table,
            columns=tuple(c.new_column() for c in CASES),
            mappings=tuple(c.mapping(self.winner) for c in CASES),
        )
        self.relation = self.load(contract)
        added = ", ".join(f"ADD COLUMN {c.new} {c.new_ddl}" for c in CASES)
        for name in ("plain", "mirrored"):
            self.session.execute(f"ALTER TABLE {self.schema}.{name} {added}")
        again = self.load(contract)
        for event in ("update", "insert"):
            wanted = mirror.body(self.relation, table, event, "x")
            assert wanted == mirror.body(again, table, event, "x"), "ddl must not change what a mapping means"
            create(self.session, self.relation, table, event)

    def load(self, contract: Contract) -> Relation:
        shape = live_shape(self.session, contract.table)
        return load_relation(self.session, contract, shape)

    def close(self) -> None:
        self.application.close()
        self.session.close()

    def clear(self) -> None:
        for table in ("plain", "mirrored"):
            self.session.execute(f"DELETE FROM {self.schema}.{table}")

    def row(self, table: str, key: int) -> dict[str, Any] | None:
        shown = [f"{c.read_old.format(c.old)}, {c.read_new.format(c.new)}" for c in CASES]
        found = self.session.one(f"SELECT {', '.join(shown)} FROM {self.schema}.{table} WHERE id = {key}")
        if found is None:
            return None
        names = [name for c in CASES for name in (c.old, c.new)]
        return dict(zip(names, found, strict=True))


def create(session: Session, relation: Relation, table: TableName, event: str, name: str = "") -> None:
    name = name or mirror.trigger_name("r", event)
    session.execute("SET SESSION sql_mode = ''")
    session.execute(mirror.create_trigger(relation, table, event, name, "/* rollout:r */"))
    session.execute("SET SESSION sql_mode = %s", (SQL_MODE,))


def settings_of(server: Server) -> ServerSettings:
    return ServerSettings(host=server.host, port=server.port, user="rollout", password=Secret("rollout"))


@pytest.fixture(scope="module", params=[Winner.NEW, Winner.OLD], ids=["new_wins", "old_wins"])
def ground(primary: Server, request: pytest.FixtureRequest) -> Iterator[Ground]:
    schema = f"t_relation_{request.param.name.lower()}"
    script(primary, f"DROP DATABASE IF EXISTS {schema}; CREATE DATABASE {schema} DEFAULT CHARACTER SET utf8mb4")
    made = Ground(primary, schema, request.param)
    made.build()
    with closing(made):
        yield made
    script(primary, f"DROP DATABASE {schema}")


@st.composite
def writes(draw: st.DrawFn) -> dict[str, Any]:
    """Some columns of at most three pairs: the old, the new, both or none of each."""
    given_values: dict[str, Any] = {}
    for case in draw(st.lists(st.sampled_from(CASES), max_size=3, unique_by=lambda c: c.name)):
        if draw(st.booleans()):
            given_values[case.old] = draw(st.sampled_from(case.old_values))
        if draw(st.booleans()):
            given_values[case.new] = draw(st.sampled_from(case.new_values))
    return given_values


STATEMENTS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "update", "update", "update", "upsert", "replace"]),
        st.integers(1, 2),
        writes(),
        st.sampled_from(["", STRICT]),
        st.sampled_from(list(OFFSETS)),
    ),
    min_size=1,
    max_size=8,
)


def shifted(column: str, value: Any, zone: str) -> Any:
    """A TIMESTAMP as an application in that zone writes it."""
    case, is_old = BY_COLUMN[column]
    if value is None or not case.is_instant or (case.old_ddl.startswith("TIMESTAMP") != is_old):
        return value
    return str(datetime.fromisoformat(value) + timedelta(hours=OFFSETS[zone]))


def run(ground: Ground, table: str, kind: str, key: int, values: dict[str, Any], mode: str, zone: str) -> int | None:
    """The error number of the application's statement, None when it passed."""
    wanted = {k: shifted(k, v, zone) for k, v in values.items()}
    if kind != "update":
        wanted |= {"slash_o": wanted.get("slash_o", "plain")}
    sets = ", ".join(f"{c} = %s" for c in wanted) or "id = id"
    names = ", ".join(["id", *wanted])
    marks = ", ".join(["%s"] * (len(wanted) + 1))
    text = {
        "update": f"UPDATE {table} SET {sets} WHERE id = {key}",
        "insert": f"INSERT INTO {table} ({names}) VALUES ({marks})",
        "replace": f"REPLACE INTO {table} ({names}) VALUES ({marks})",
        "upsert": f"INSERT INTO {table} ({names}) VALUES ({marks}) ON DUPLICATE KEY UPDATE {sets}",
    }[kind]
    args = [] if kind == "update" else [key, *wanted.values()]
    args += wanted.values() if kind in ("update", "upsert") else ()
    with ground.application.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = %s, time_zone = %s", (mode, zone))
        try:
            cursor.execute(text, args)
        except pymysql.err.MySQLError as error:
            return int(error.args[0])
    return None


def expected(ground: Ground, kind: str, before: dict[str, Any] | None, values: dict[str, Any]) -> dict[str, Any]:
    """The row as the rules want it."""
    result: dict[str, Any] = {}
    inserts = before is None or kind == "replace"
    for case in CASES:
        said = dict(values)
        if kind != "update":
            said.setdefault("slash_o", "plain")
        if inserts:
            default = {case.old: case.old_default, case.new: case.new_default}
            row = {c: said.get(c, default[c]) for c in (case.old, case.new)}
            old, new = case.inserted(row[case.old], row[case.new], ground.winner)
        else:
            assert before is not None
            row = {c: said.get(c, before[c]) for c in (case.old, case.new)}
            old, new = case.updated((before[case.old], before[case.new]), (row[case.old], row[case.new]), ground.winner)
        result |= {case.old: old, case.new: new}
    return result


@given(statements=STATEMENTS)
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_a_mirror_follows_the_rules_and_never_hurts(ground: Ground, statements: list[Any]) -> None:
    ground.clear()
    only_old = True
    for kind, key, values, mode, zone in statements:
        before = ground.row("mirrored", key)
        if run(ground, "plain", kind, key, values, mode, zone) is not None:
            continue
        error = run(ground, "mirrored", kind, key, values, mode, zone)
        assert error is None, f"{kind} {values} failed with {error} only because of the mirror"
        only_old = only_old and not any(c.new in values for c in CASES)
        after = ground.row("mirrored", key)
        if after is None:
            assert kind == "update"
            assert before is None
            continue
        assert after == expected(ground, kind, before, values)
        if only_old:
            plain = ground.row("plain", key)
            assert plain is not None
            assert {c.old: after[c.old] for c in CASES} == {c.old: plain[c.old] for c in CASES}


Change = tuple[tuple[Any, Any], tuple[Any, Any]]
ROWS = 400


def changes_of(case: PairCase, random: Random) -> list[Change]:
    """As many changes from one pair of values to another as there are rows; each of them once, while they last."""
    states = list(product(case.old_values, case.new_values))
    every = list(product(states, states))
    random.shuffle(every)
    return [every[i % len(every)] for i in range(ROWS)]


def put(ground: Ground, table: str, of: dict[str, list[tuple[Any, Any]]]) -> None:
    names = ", ".join(f"{c.old}, {c.new}" for c in CASES)
    marks = ", ".join(["%s"] * (2 * len(CASES) + 1))
    rows = [(i, *(value for c in CASES for value in of[c.name][i])) for i in range(ROWS)]
    with ground.application.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = '', time_zone = '+00:00'")
        cursor.executemany(f"INSERT INTO {table} (id, {names}) VALUES ({marks})", rows)


def got(ground: Ground, table: str, case: PairCase) -> list[tuple[Any, Any]]:
    shown = f"{case.read_old.format(case.old)}, {case.read_new.format(case.new)}"
    rows = ground.session.query(f"SELECT {shown} FROM {ground.schema}.{table} ORDER BY id")
    return [(old, new) for old, new in rows]


def test_every_change_of_a_pair_follows_the_rules(ground: Ground) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}")
    random = Random(seed)
    changes = {case.name: changes_of(case, random) for case in CASES}
    for table in ("updated", "inserted", "said"):
        script(ground.server, f"SET sql_mode = ''; CREATE TABLE {ground.schema}.{table} LIKE {ground.schema}.plain")
    put(ground, "updated", {name: [before for before, _ in of] for name, of in changes.items()})
    put(ground, "said", {name: [after for _, after in of] for name, of in changes.items()})
    for table, event in (("updated", "update"), ("inserted", "insert")):
        create(ground.session, ground.relation, TableName(ground.schema, table), event, f"{table}_mirror")
    sets = ", ".join(f"t.{column} = s.{column}" for column in BY_COLUMN)
    with ground.application.cursor() as cursor:
        cursor.execute(f"UPDATE updated t JOIN said s USING (id) SET {sets}")
        cursor.execute("INSERT INTO inserted SELECT * FROM said")
    for case in CASES:
        rows = zip(changes[case.name], got(ground, "updated", case), got(ground, "inserted", case), strict=True)
        for change, after_update, after_insert in rows:
            assert after_update == case.updated(*change, ground.winner), (case.name, change)
            assert after_insert == case.inserted(*change[1], ground.winner), (case.name, change[1])


CELLS = st.fixed_dictionaries(
    {c.old: st.sampled_from(c.old_values) for c in CASES} | {c.new: st.sampled_from(c.new_values) for c in CASES}
)


def questions(pair: PairSql) -> dict[str, str]:
    ref = cell("t")
    return {
        "holds": pair.holds(ref),
        "corresponds": pair.corresponds(ref),
        "pending": pair.pending(ref),
        "lossy": pair.lossy(ref, "corresponds"),
        "old": pair.mismatch_class(ref, "old-is-truth"),
        "both": pair.mismatch_class(ref, "corresponds"),
        "meter": pair.meter_class(ref),
        "broken": pair.round_trip_broken(ref),
    }


def judged(ground: Ground, key: int) -> dict[str, dict[str, Any]]:
    """What the relation says of each pair of a row of the table without a mirror."""
    asked: dict[tuple[str, str], str] = {}
    for pair in ground.relation.pairs:
        asked |= {(pair.old.name, name): question for name, question in questions(pair).items()}
    row = ground.session.one(f"SELECT {', '.join(asked.values())} FROM {ground.schema}.plain t WHERE id = {key}")
    assert row is not None
    found: dict[str, dict[str, Any]] = {pair.old.name: {} for pair in ground.relation.pairs}
    for (column, name), answer in zip(asked, row, strict=True):
        found[column][name] = answer
    return found


def wanted_of(case: PairCase, old: Any, new: Any) -> dict[str, Any]:
    there = case.f(old)
    return {
        "holds": int(case.holds(old, new)),
        "corresponds": int(case.corresponds(old, new)),
        "pending": int(not isinstance(there, Lost) and there != new),
        "lossy": int(case.holds(old, new) != case.goes_back(old, new)),
        "old": case.mismatch(old, new, old_is_truth=True),
        "both": case.mismatch(old, new, old_is_truth=False),
    }


@given(cells=CELLS)
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_the_relation_judges_as_the_model_does_and_filling_ends_it(ground: Ground, cells: dict[str, Any]) -> None:
    ground.clear()
    assert run(ground, "plain", "insert", 1, cells, "", "+00:00") is None
    row = ground.row("plain", 1)
    assert row == cells
    answers = judged(ground, 1)
    for case in CASES:
        found, old, new = answers[case.old], row[case.old], row[case.new]
        said = {k: found[k] for k in wanted_of(case, old, new)}
        assert said == wanted_of(case, old, new), (case.name, old, new)
        assert (found["meter"] is None) == case.keeps_on_return(new), (case.name, new, found["meter"])
        assert found["broken"] == int(case.breaks_on_return(old)), (case.name, old)
    fill_and_check(ground, row)


def fill_and_check(ground: Ground, row: dict[str, Any]) -> None:
    ref = cell("t")
    relation, table = ground.relation, f"{ground.schema}.plain t"
    sets = ", ".join(f"{ref(c)} = {sql}" for c, sql in relation.assignments(ref))
    ground.session.execute(f"UPDATE {table} SET {sets} WHERE {relation.pending(ref)}")
    filled = ground.row("plain", 1)
    assert filled is not None
    for case in CASES:
        value = case.f(row[case.old])
        assert filled[case.old] == row[case.old]
        assert filled[case.new] == (row[case.new] if isinstance(value, Lost) else value), case.name
    left = ground.session.one(
        f"SELECT {relation.pending(ref)}, {relation.holds(ref)}, {relation.unwritable(ref)} FROM {table}"
    )
    lost = any(isinstance(case.f(row[case.old]), Lost) for case in CASES)
    assert left == (0, int(not lost), int(lost))


TEXTS = (None, "", "a", "A", "a ", "b", "é", "it's", "back\\")
RESULTS = (None, "", "x", "X", "a", "it's")


@st.composite
def random_maps(draw: st.DrawFn) -> PairCase:
    """Two value maps that need not keep any law."""
    ways = []
    for known, given_back in ((TEXTS, RESULTS), (RESULTS, TEXTS)):
        values = draw(st.dictionaries(st.sampled_from(known), st.sampled_from(given_back), min_size=1, max_size=5))
        unmapped = draw(st.sampled_from(Unmapped))
        ways.append((spec(values, unmapped), way_of(values, unmapped, 3 if known is RESULTS else 2)))
    (forward, f), (backward, b) = ways
    return PairCase("m", "VARCHAR(5)", "varchar(4)", forward, backward, f, b, TEXTS, RESULTS)


def way_of(values: dict[Any, Any], unmapped: Unmapped, longest: int) -> Any:
    def way(value: Any) -> Any:
        if value in values or unmapped is Unmapped.REFUSE:
            return values.get(value, Lost.UNMAPPED)
        return Lost.UNFIT if value is not None and len(value) > longest + 2 else value

    return way


def synthetic(case: PairCase) -> tuple[Contract, Shape]:
    table = TableName("nowhere", "t")
    old = Column(name=case.old, type=parse_type(case.old_ddl))
    columns = (Column(name="id", type=parse_type("int")), old)
    shape = plain_shape(table, *columns, collation="utf8mb4_unicode_ci")
    return Contract(table, (case.new_column(),), mappings=(case.mapping(Winner.NEW),)), shape


@given(case=random_maps())
@settings(max_examples=2 * EXAMPLES)
def test_any_two_value_maps_are_judged_as_the_model_judges_them(ground: Ground, case: PairCase) -> None:
    contract, shape = synthetic(case)
    back = case.b(None)
    if not isinstance(back, Lost) and case.f(back) is not None:
        with pytest.raises(RunbookError):
            load_relation(ground.session, contract, shape)
        return
    pair = load_relation(ground.session, contract, shape).pairs[0]
    states = list(product(case.old_values, case.new_values))
    said = questions(pair) | {"filled": pair.forward.or_else(cell("t"), f"t.{case.new}")}
    rows = ground.session.query(
        f"SELECT {', '.join(said.values())} FROM JSON_TABLE(%s, '$[*]' COLUMNS ({case.old} VARCHAR(5) COLLATE"
        f" utf8mb4_unicode_ci PATH '$[0]', {case.new} VARCHAR(4) COLLATE utf8mb4_unicode_ci PATH '$[1]')) AS t",
        (json.dumps(states),),
    )
    for (old, new), row in zip(states, rows, strict=True):
        found = dict(zip(said, row, strict=True))
        wanted = wanted_of(case, old, new)
        there = case.f(old)
        assert {k: found[k] for k in wanted} == wanted, (old, new)
        assert found["filled"] == (new if isinstance(there, Lost) else there)
        assert (found["meter"] is None) == case.keeps_on_return(new)
        assert found["broken"] == int(case.breaks_on_return(old))
