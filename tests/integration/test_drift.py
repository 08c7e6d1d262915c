"""Drift says "same" of what is the same, however it is spelt and whoever reads it, and names one change as one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from orchestrator.app.drift import live_target, scratch_tables, table_on
from orchestrator.app.stated import file_tables
from orchestrator.contract.difference import Difference, Kind
from orchestrator.contract.drift import compare
from orchestrator.contract.target import Source, Target
from orchestrator.errors import RunbookError
from orchestrator.model.contract import Contract, Mapping, TableName, ValueMap
from orchestrator.model.findings import FileFindings
from orchestrator.mysql.scratch import PREFIX
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.alter import column_definition
from orchestrator.runbook.load import parse
from orchestrator.sandbox.server import Server
from tests.support.contracts import contract_of, contracts, ddl
from tests.support.drift_cases import MUTATIONS, SPELLINGS
from tests.support.servers import script, sql
from tests.support.shapes import live_shape
from tests.support.state import settings_of

# The 300 belong to the long profile; an example costs the server two tables.
EXAMPLES = 300 if settings.default.max_examples > 100 else 25
PARENT = "CREATE TABLE parent (id INT PRIMARY KEY, code VARCHAR(9) NOT NULL UNIQUE)"
TABLE = """
CREATE TABLE parent (id INT PRIMARY KEY, code VARCHAR(9) NOT NULL UNIQUE);
CREATE TABLE job (
  id BIGINT NOT NULL AUTO_INCREMENT,
  status VARCHAR(16) NOT NULL DEFAULT 'new',
  kind ENUM('a', 'b') NOT NULL DEFAULT 'a',
  tries INT NOT NULL DEFAULT 0,
  price DECIMAL(10,2) DEFAULT 1.5,
  title VARCHAR(100) COLLATE utf8mb4_bin,
  body TEXT,
  data JSON,
  raw BINARY(16),
  made DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),
  seen TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  total INT GENERATED ALWAYS AS (tries * 2) VIRTUAL,
  parent_id INT,
  up_id BIGINT,
  state VARCHAR(16),
  PRIMARY KEY (id),
  UNIQUE KEY job_title_key (title(20), tries),
  KEY job_status_idx (status, made DESC),
  KEY job_parent_idx (parent_id),
  KEY job_up_idx (up_id),
  KEY job_calc_idx ((tries + 1)),
  CONSTRAINT job_parent_fk FOREIGN KEY (parent_id) REFERENCES parent (id) ON DELETE CASCADE ON UPDATE CASCADE,
  CONSTRAINT job_up_fk FOREIGN KEY (up_id) REFERENCES job (id) ON DELETE SET NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
CREATE TABLE item (
  id INT PRIMARY KEY, job_id BIGINT, KEY item_job_idx (job_id),
  CONSTRAINT item_job_fk FOREIGN KEY (job_id) REFERENCES job (id) ON DELETE CASCADE
) DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;
"""
FORWARD = ValueMap((("new", "pending"), ("done", "ok")))
BACKWARD = ValueMap((("pending", "new"), ("ok", "done"), ("held", "new")))
SPELLED = """
apiVersion: rollout/v1
name: spelled
table:
  schema: SCHEMA
  name: t
  before: {columns: [{name: id, type: integer, null: false}], indexes: [{name: PRIMARY, columns: [id], unique: true}]}
contract:
  columns:
    - {name: a, type: datetime(3), null: false, default: now(3)}
    - {name: b, type: varchar(9), default: abc}
    - {name: c, type: int, default: {sql: 1+1}}
    - {name: d, type: boolean, null: false, default: false}
    - {name: e, type: "decimal(10,2)", default: 0}
    - {name: f, type: varchar(20), default: "now(3)"}
"""
STATE = Mapping("state", "status", FORWARD, BACKWARD)


@pytest.fixture
def session(primary: Server) -> Iterator[Session]:
    opened = Session(settings_of(primary), role="test")
    yield opened
    opened.close()


def frozen(session: Session, schema: str) -> Contract:
    """The contract that names all of the table ``job`` as it is now."""
    return replace(contract_of(live_shape(session, TableName(schema, "job"))), mappings=(STATE,))


def live(session: Session, contract: Contract) -> tuple[Difference, ...]:
    return compare(contract, table_on(session, contract))


def read(text: str, schema: str) -> tuple[Target, ...]:
    return file_tables((Source("file.sql", text),), "ddl", schema)


def one(tables: tuple[Target, ...], named: str) -> Target:
    (found,) = [t for t in tables if t.shape.table.name == named]
    return found


def test_at_least_forty_kinds_of_change_are_tried() -> None:
    assert len(MUTATIONS) >= 40


def test_one_change_of_a_live_table_is_told_and_nothing_else(primary: Server, session: Session, schema: str) -> None:
    script(primary, TABLE, schema)
    contract = frozen(session, schema)
    assert live(session, contract) == ()
    wrong = {}
    for kind, (change, wanted, thing, name, words) in MUTATIONS.items():
        script(primary, f"DROP TABLE IF EXISTS bill, item, job, parent; {TABLE}{change}", schema)
        found = live(session, contract)
        if [(d.kind, d.thing, d.name) for d in found] != [(wanted, thing, name)] or words not in found[0].told:
            wrong[kind] = found
    assert wrong == {}


def test_the_same_change_in_a_file_of_ddl_is_told_alike_and_with_its_line(
    primary: Server, session: Session, schema: str
) -> None:
    """What no server is asked for: the file with each change at its end, read by us."""
    script(primary, TABLE, schema)
    contract = frozen(session, schema)
    assert compare(contract, one(read(TABLE, schema), "job")) == ()
    for kind, (change, wanted, thing, name, words) in MUTATIONS.items():
        if kind.startswith("a status") and change.startswith("INSERT"):
            continue  # only a server has rows
        found = compare(contract, one(read(f"{TABLE};\n{change};", schema), "job"))
        assert [(d.kind, d.thing, d.name) for d in found] == [(wanted, thing, name)], kind
        assert words in found[0].told, kind
        assert found[0].line >= 3, kind


def test_without_what_stood_before_later_work_is_still_told(primary: Server, session: Session, schema: str) -> None:
    script(primary, TABLE, schema)
    whole = frozen(session, schema)
    contract = replace(whole, before=None)
    assert live(session, contract) == ()
    script(
        primary, "ALTER TABLE job ADD COLUMN more INT, ADD INDEX more_idx (more), ADD INDEX of_state (state)", schema
    )
    assert {(d.kind, d.thing, d.name) for d in live(session, contract)} == {
        (Kind.CONTRACT_LACKS, "column", "more"),
        (Kind.CONTRACT_LACKS, "index", "more_idx"),
        (Kind.CONTRACT_LACKS, "index", "of_state"),
    }


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(drawn=contracts("S"))
def test_a_contract_that_became_a_table_is_the_same_to_every_reader(
    primary: Server, session: Session, schema: str, drawn: Contract
) -> None:
    contract = in_schema(drawn, schema)
    text = f"DROP TABLE IF EXISTS t; {PARENT.replace('TABLE', 'TABLE IF NOT EXISTS')}; {ddl(contract)}"
    script(primary, text, schema)
    assert live(session, contract) == ()
    ((_, stored),) = sql(primary, f"SHOW CREATE TABLE {schema}.t")
    for file in (stored, ddl(contract)):
        assert compare(contract, one(read(file, schema), "t")) == (), file


def test_defaults_in_other_words_are_no_drift_right_after_the_expand(
    primary: Server, session: Session, schema: str
) -> None:
    """B149: now(3), a quoted text, an expression, booleans and numbers, as people write them."""
    script(primary, "CREATE TABLE t (id INT PRIMARY KEY)", schema)
    contract = parse(SPELLED.replace("SCHEMA", schema), "a.yaml").contract
    adds = ", ".join(f"ADD COLUMN {column_definition(c)}" for c in contract.columns)
    script(primary, f"ALTER TABLE t {adds}", schema)
    assert live(session, contract) == ()
    text = live_shape(session, TableName(schema, "t")).column("f")
    assert text is not None
    assert text.default is not None
    assert not text.default.is_expression


def in_schema(contract: Contract, schema: str) -> Contract:
    """The same contract in another schema."""
    before = contract.before
    assert before is not None

    def moved(keys: tuple) -> tuple:  # type: ignore[type-arg]
        return tuple(replace(f, references=TableName(schema, f.references.name)) for f in keys)

    return replace(
        contract,
        table=TableName(schema, contract.table.name),
        foreign_keys=moved(contract.foreign_keys),
        before=replace(before, foreign_keys=moved(before.foreign_keys)),
    )


@pytest.mark.parametrize("text", SPELLINGS, ids=range(len(SPELLINGS)))
def test_our_reader_sees_what_the_server_sees(primary: Server, schema: str, text: str) -> None:
    source = (Source("file.sql", text),)
    seen = scratch_tables(source, schema, settings_of(primary))
    assert seen
    for target in seen:
        ours = one(read(f"CREATE DATABASE x DEFAULT CHARSET utf8mb4;{text}", schema), target.shape.table.name)
        assert compare(contract_of(target.shape), ours) == ()
        assert compare(contract_of(ours.shape), target) == ()
        assert ours.shape.partitioned == target.shape.partitioned


def test_a_scratch_schema_is_removed_also_after_a_refusal(primary: Server, schema: str) -> None:
    for text, words in (
        (
            "CREATE TABLE t (\n id INT PRIMARY KEY);\n\nALTER TABLE t ADD COLUMN id INT",
            "file.sql:4: the server refuses",
        ),
        (
            f"CREATE TABLE {schema}.t (id INT PRIMARY KEY);\nDROP TABLE mysql.user",
            "file.sql:2: the statement names the schema mysql",
        ),
    ):
        with pytest.raises(FileFindings) as caught:
            scratch_tables((Source("file.sql", text),), schema, settings_of(primary))
        assert caught.value.seen.startswith(words)
    assert sql(primary, f"SHOW DATABASES LIKE '{PREFIX}%'") == []
    assert sql(primary, f"SHOW TABLES FROM {schema}") == []


def test_a_table_whose_name_differs_in_case_only_is_offered(primary: Server, session: Session, schema: str) -> None:
    """B102: names are compared as this server compares them."""
    script(primary, TABLE, schema)
    contract = replace(frozen(session, schema), table=TableName(schema, "Job"))
    with pytest.raises(RunbookError) as caught:
        live_target(contract, settings_of(primary))
    assert f"did you mean {schema}.job?" in caught.value.seen
