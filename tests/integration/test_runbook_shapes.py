"""Each shipped runbook against a real server: its tables, its change, its mappings, its statements, its gates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest
from msgspec.structs import replace

from orchestrator.app.drift import table_on
from orchestrator.app.stated import file_tables, the_table
from orchestrator.contract.difference import Kind
from orchestrator.contract.drift import compare
from orchestrator.contract.target import Source
from orchestrator.model.contract import Contract, Expression, ForeignKey, TableName, ValueMap
from orchestrator.model.facts import Shape
from orchestrator.model.runbook import Runbook
from orchestrator.model.shape_diff import compare_shape
from orchestrator.model.step import AddColumns, AddForeignKey, AddIndex
from orchestrator.mysql.quote import name
from orchestrator.mysql.relation import load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.alter import alter, pins
from orchestrator.runbook.load import load
from orchestrator.sandbox.server import Server
from tests.support.servers import script, sql
from tests.support.shapes import live_shape
from tests.support.state import settings_of

ROOT_FOLDER = Path(__file__).resolve().parents[2]
RUNBOOKS = ROOT_FOLDER / "runbooks"
GOLDEN = ROOT_FOLDER / "tests" / "golden"
KEYS = {"aijob": ("id",), "documents": ("id",), "orders": ("tenant_id", "order_no")}


class Ground:
    """One runbook's tables in a schema of the test, before or after its change."""

    def __init__(self, server: Server, schema: str, runbook: Runbook) -> None:
        self.server = server
        self.schema = schema
        self.contract = _moved(runbook.contract, schema)
        self.table = self.contract.table
        self.session = Session(settings_of(server), role="test")
        script(server, (RUNBOOKS / "sandbox" / f"{runbook.id}.sql").read_text(), schema)

    def shape(self) -> Shape:
        return live_shape(self.session, self.table, self.contract.key)

    def expand(self) -> None:
        """All that the contract adds, by the statements that the ddl stage runs."""
        family = self.shape().family
        steps = [
            AddColumns(table=self.table, columns=self.contract.columns, family=family),
            *(
                AddIndex(table=self.table, index=i, final_lock_budget_s=2, tries=1, family=family)
                for i in self.contract.indexes
            ),
            *(AddForeignKey(table=self.table, foreign_key=f, family=family) for f in self.contract.foreign_keys),
        ]
        for step in steps:
            for variable, value in pins(step):
                self.session.pin(variable, value)
            self.session.execute(alter(step, "/* test */"))

    def refusal(self, statement: str) -> str:
        """What the server says against the statement when it prepares it; nothing when it takes it."""
        try:
            script(self.server, f"PREPARE s FROM {_quoted(statement)}; DEALLOCATE PREPARE s", self.schema)
        except pymysql.err.MySQLError as error:
            return str(error)
        return ""


def _moved(contract: Contract, schema: str) -> Contract:
    """The same contract in another schema."""

    def keys(of: tuple[ForeignKey, ...]) -> tuple[ForeignKey, ...]:
        return tuple(replace(f, references=TableName(schema, f.references.name)) for f in of)

    before = contract.before
    assert before is not None, "a shipped runbook says what stood before"
    children = tuple(
        (TableName(schema, t.name), k)
        for (t, _), k in zip(before.children, keys(tuple(f for _, f in before.children)), strict=True)
    )
    return replace(
        contract,
        table=TableName(schema, contract.table.name),
        foreign_keys=keys(contract.foreign_keys),
        before=replace(before, foreign_keys=keys(before.foreign_keys), children=children),
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


@pytest.fixture(params=sorted(KEYS))
def runbook(request: pytest.FixtureRequest) -> Runbook:
    return load(RUNBOOKS / f"{request.param}.yaml")


@pytest.fixture
def ground(primary: Server, schema: str, runbook: Runbook) -> Iterator[Ground]:
    made = Ground(primary, schema, runbook)
    yield made
    made.session.close()


def test_before_the_change_all_of_it_is_missing_and_the_key_is_found(ground: Ground, runbook: Runbook) -> None:
    shape = ground.shape()
    diff = compare_shape(ground.contract, shape)
    assert diff.columns_missing == ground.contract.columns
    assert diff.indexes_missing == ground.contract.indexes
    assert diff.foreign_keys_missing == ground.contract.foreign_keys
    assert diff.different == ()
    assert shape.key == KEYS[runbook.id]
    assert shape.key_problem == ""


def test_after_the_change_the_live_shape_is_the_contract_exactly(ground: Ground) -> None:
    ground.expand()
    diff = compare_shape(ground.contract, ground.shape())
    assert diff.complete, diff
    added = [c.name for c in ground.shape().columns][-len(ground.contract.columns) :]
    assert added == [c.name for c in ground.contract.columns]


def test_drift_says_same_after_the_change_of_the_server_and_of_its_own_ddl(ground: Ground, primary: Server) -> None:
    """Contract → DDL → live table → drift; and the table as SHOW CREATE TABLE writes it, read without a server."""
    before = compare(ground.contract, table_on(ground.session, ground.contract))
    assert {d.kind for d in before} == {Kind.TARGET_LACKS}
    ground.expand()
    assert compare(ground.contract, table_on(ground.session, ground.contract)) == ()
    names = [row[0] for row in sql(primary, f"SHOW TABLES FROM {ground.schema}")]
    stored = [sql(primary, f"SHOW CREATE TABLE {ground.schema}.{name(n)}")[0][1] for n in names]
    tables = file_tables([Source("file.sql", ";\n".join(stored))], "ddl", ground.schema)
    assert compare(ground.contract, the_table(ground.contract, tables, "file.sql")) == ()


def test_every_declared_statement_is_prepared_where_its_version_runs(ground: Ground) -> None:
    old, new = ground.contract.old_statements, ground.contract.new_statements
    assert {s: r for s in old if (r := ground.refusal(s))} == {}
    assert any(map(ground.refusal, new)), "the new version needs the change, or it declares too little"
    ground.expand()
    assert {s: r for s in (*old, *new) if (r := ground.refusal(s))} == {}


def test_gates_and_invariants_can_be_asked(ground: Ground, runbook: Runbook) -> None:
    ground.expand()
    for gate in runbook.gates:
        moved = gate.argument.replace(f"{runbook.table.schema}.", f"{ground.schema}.")
        ((number,),) = sql(ground.server, moved)
        assert float(number) == 0.0
    for invariant in ground.contract.invariants:
        sql(ground.server, f"SELECT COUNT(*) FROM {ground.table} WHERE NOT ({invariant.sql})")


def test_filled_rows_hold_the_relation_and_the_invariants(ground: Ground, runbook: Runbook) -> None:
    """One row for each old value that a value map knows, filled by the relation's own assignments."""
    ground.expand()
    pair = next(m for m in ground.contract.mappings if isinstance(m.forward, ValueMap))
    assert isinstance(pair.forward, ValueMap)
    for at, (value, _) in enumerate(pair.forward.values):
        _insert(ground, runbook.id, at, str(value))
    relation = load_relation(ground.session, ground.contract, ground.shape())
    sets = ", ".join(f"{name(c)} = {e}" for c, e in relation.assignments(name))
    script(ground.server, f"UPDATE {ground.table} SET {sets}", ground.schema)
    wanted = dict(pair.forward.values)
    for old, new in sql(ground.server, f"SELECT {name(str(pair.old))}, {name(pair.new)} FROM {ground.table}"):
        assert new == wanted[old]
    rows = sql(ground.server, f"SELECT {relation.holds(name)}, {relation.pending(name)} FROM {ground.table}")
    assert set(rows) == {(1, 0)}
    for invariant in ground.contract.invariants:
        assert sql(ground.server, f"SELECT COUNT(*) FROM {ground.table} WHERE NOT ({invariant.sql})") == [(0,)]


def _insert(ground: Ground, id: str, at: int, value: str) -> None:
    statements = {
        "aijob": (
            "INSERT INTO AiAnalysisJob (id, userId, answerId, status, timeoutSeconds, completedAt) "
            f"VALUES ('j{at}', 'u', 'a', {_quoted(value)}, {2147483647 - at}, NOW(3))"
        ),
        "orders": (
            "INSERT INTO orders (tenant_id, order_no, status, timeout_s, note) "
            f"VALUES (18446744073709551615, {at}, {_quoted(value)}, {-2147483648 + at}, 'n')"
        ),
        "documents": (
            "INSERT INTO document (id, title, kind, size_b) "
            f"VALUES (UNHEX(REPEAT('0{at}', 16)), 't', {_quoted(value)}, {4294967295 - at})"
        ),
    }
    if id == "aijob":
        script(ground.server, "INSERT IGNORE INTO User (id, email) VALUES ('u', 'u@example.org')", ground.schema)
    script(ground.server, statements[id], ground.schema)


@pytest.mark.parametrize(
    ("id", "new", "n", "old"),
    [
        ("aijob", "timeoutMs", 1500, 2),
        ("aijob", "timeoutMs", 2000, 2),
        ("aijob", "timeoutMs", 1, 1),
        ("aijob", "timeoutMs", -1500, -1),
        ("aijob", "timeoutMs", 9223372036854775807, 2147483647),
        ("aijob", "timeoutMs", -9223372036854775808, -2147483648),
        ("orders", "timeout_ms", 9223372036854775807, 2147483647),
        ("documents", "byte_count", 18446744073709551615, 4294967295),
        ("documents", "byte_count", 7, 7),
    ],
)
def test_backward_is_clamped_to_what_the_old_column_holds(
    primary: Server, schema: str, id: str, new: str, n: int, old: int
) -> None:
    """Whatever the application's session says about the digits of a division."""
    mapping = next(m for m in load(RUNBOOKS / f"{id}.yaml").contract.mappings if m.new == new)
    assert isinstance(mapping.backward, Expression)
    kind = "BIGINT UNSIGNED" if n > 9223372036854775807 else "BIGINT"
    script(primary, f"CREATE TABLE v ({new} {kind}); INSERT INTO v VALUES ({n})", schema)
    for digits in (0, 4, 30):
        setting = f"SET SESSION div_precision_increment = {digits}"
        asked = f"SELECT {mapping.backward.sql} FROM {schema}.v"
        assert sql(primary, asked, init_command=setting) == [(old,)]


def test_the_expanded_job_table_is_the_golden_one(primary: Server, schema: str) -> None:
    """Thirty-one columns, seven indexes and two foreign keys, with the names and types that were decided."""
    ground = Ground(primary, schema, load(RUNBOOKS / "aijob.yaml"))
    ground.expand()
    ((_, shown),) = sql(primary, f"SHOW CREATE TABLE {ground.table}")
    ground.session.close()
    golden = (GOLDEN / "aijob" / "after.sql").read_text()
    assert re.sub(r" AUTO_INCREMENT=\d+", "", shown) + "\n" == golden
