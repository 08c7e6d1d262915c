"""A table is read as it is, and compared with a contract without being misled by how the server spells things."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orchestrator.model.contract import (
    Column,
    Contract,
    Default,
    ForeignKey,
    Index,
    IndexPart,
    TableName,
)
from orchestrator.model.facts import Shape
from orchestrator.model.shape_diff import compare_shape
from orchestrator.model.shape_digest import OUR_TRIGGERS, shape_digest
from orchestrator.model.types import parse_type
from orchestrator.mysql.relation import MIRROR_PREFIX
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import OPERATOR
from orchestrator.settings import Secret, ServerSettings
from tests.support.servers import script
from tests.support.shapes import live_shape


@pytest.fixture
def session(primary: Server) -> Iterator[Session]:
    settings = ServerSettings(
        host=primary.host, port=primary.port, user=OPERATOR.user, password=Secret(OPERATOR.password)
    )
    opened = Session(settings, role="test")
    yield opened
    opened.close()


class Tables:
    """Makes tables in the test's schema and reads them."""

    def __init__(self, server: Server, session: Session, schema: str) -> None:
        self._server, self._session, self.schema = server, session, schema

    def run(self, text: str) -> None:
        script(self._server, text, self.schema)

    def named(self, name: str) -> TableName:
        return TableName(self.schema, name)

    def shape(self, name: str = "t", key: tuple[str, ...] = ()) -> Shape:
        return live_shape(self._session, self.named(name), key)


@pytest.fixture
def tables(primary: Server, session: Session, schema: str) -> Tables:
    return Tables(primary, session, schema)


def test_a_table_that_is_not_there_is_none(session: Session, schema: str) -> None:
    assert read_shape(session, TableName(schema, "nothing")) is None


def test_columns_come_with_what_the_server_knows_of_them(tables: Tables) -> None:
    tables.run(
        """CREATE TABLE t (
        id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
        a VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL DEFAULT 'it''s',
        b DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
        c JSON DEFAULT (JSON_OBJECT('k', 'it''s')),
        d INT GENERATED ALWAYS AS (f + 1) STORED,
        e VARCHAR(10) AS (CONCAT(a, 'z')) VIRTUAL,
        f INT INVISIBLE,
        g ENUM('x', 'it''s') DEFAULT 'x',
        h VARCHAR(10) DEFAULT 'NULL',
        v VECTOR(3))"""
    )
    c = {x.name: x for x in tables.shape().columns}
    assert c["id"].auto_increment
    assert not c["id"].null
    assert (c["a"].charset, c["a"].collation, c["a"].default) == ("latin1", "latin1_bin", Default("it's"))
    assert c["b"].on_update
    assert c["b"].default == Default("CURRENT_TIMESTAMP(3)", is_expression=True)
    assert c["c"].default == Default(r"(json_object(_utf8mb4'k',_utf8mb4'it\'s'))", is_expression=True)
    assert (c["d"].generated, c["d"].stored) == ("(`f` + 1)", True)
    assert (c["e"].generated, c["e"].stored) == ("concat(`a`,_utf8mb4'z')", False)
    assert c["f"].invisible
    assert c["f"].default is None
    assert c["g"].type.labels == ("x", "it's")
    assert c["h"].default == Default("NULL")
    assert str(c["v"].type) == "vector(3)"
    assert c["g"].collation == tables.shape().collation


def test_a_default_that_was_read_can_be_written_again(tables: Tables) -> None:
    tables.run(
        "CREATE TABLE t (id INT PRIMARY KEY, c JSON DEFAULT (JSON_OBJECT('k', 'it''s')), t TEXT DEFAULT ('a''b'))"
    )
    for column in tables.shape().columns[1:]:
        assert column.default is not None
        tables.run(
            f"ALTER TABLE t ADD COLUMN {column.name}2 {column.type} DEFAULT {column.default.text}, ALGORITHM=COPY"
        )
    live = {c.name: c for c in tables.shape().columns}
    assert live["c2"].default == live["c"].default


def test_indexes_come_with_parts_order_prefix_expression_and_visibility(tables: Tables) -> None:
    tables.run(
        """CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), b INT, txt TEXT,
        UNIQUE KEY u (b, a), KEY p (a(5) DESC, b), KEY f ((a + 1)), KEY i (b) INVISIBLE, FULLTEXT KEY ft (txt))"""
    )
    shape = tables.shape()
    assert shape.index("u") == Index("u", (IndexPart("b"), IndexPart("a")), unique=True)
    assert shape.index("p") == Index("p", (IndexPart("a", prefix=5, descending=True), IndexPart("b")))
    f = shape.index("f")
    assert f is not None
    assert f.parts[0].column == ""
    assert f.parts[0].expression == "(`a` + 1)"
    i, ft = shape.index("i"), shape.index("ft")
    assert i is not None
    assert ft is not None
    assert not i.visible
    assert ft.kind == "FULLTEXT"


def test_foreign_keys_are_seen_both_ways_and_from_other_schemas(tables: Tables, primary: Server) -> None:
    other = f"{tables.schema}_b"
    tables.run(
        f"""CREATE TABLE parent (a INT, b INT, PRIMARY KEY (a, b));
        CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, up INT,
          CONSTRAINT fp FOREIGN KEY (a, b) REFERENCES parent (a, b) ON DELETE CASCADE ON UPDATE SET NULL,
          CONSTRAINT fs FOREIGN KEY (up) REFERENCES t (id));
        CREATE DATABASE {other};
        CREATE TABLE {other}.child (id INT PRIMARY KEY, t_id INT,
          CONSTRAINT fc FOREIGN KEY (t_id) REFERENCES {tables.schema}.t (id) ON DELETE SET NULL)"""
    )
    try:
        shape = tables.shape()
    finally:
        script(primary, f"DROP DATABASE {other}")
    parent, me = tables.named("parent"), tables.named("t")
    assert shape.foreign_key("fp") == ForeignKey("fp", ("a", "b"), parent, ("a", "b"), "CASCADE", "SET NULL")
    assert shape.foreign_key("fs") == ForeignKey("fs", ("up",), me, ("id",), "RESTRICT", "RESTRICT")
    assert [(t, f.name) for t, f in shape.referenced_by] == [(me, "fs"), (TableName(other, "child"), "fc")]
    assert shape.family == (me, parent, TableName(other, "child"))


def test_checks_triggers_partitions_and_views_are_told(tables: Tables) -> None:
    tables.run(
        """CREATE TABLE t (id INT PRIMARY KEY, a INT, CONSTRAINT pos CHECK (a > 0 OR a = -1))
          PARTITION BY HASH (id) PARTITIONS 2;
        CREATE TRIGGER app_bi BEFORE INSERT ON t FOR EACH ROW SET NEW.a = IFNULL(NEW.a, 1);
        CREATE VIEW v AS SELECT id FROM t"""
    )
    shape = tables.shape()
    assert shape.partitioned
    assert shape.checks == (("pos", "((`a` > 0) or (`a` = -(1)))"),)
    (trigger,) = shape.triggers
    assert (trigger.name, trigger.timing, trigger.event, trigger.order) == ("app_bi", "BEFORE", "INSERT", 1)
    assert "IFNULL" in trigger.body
    view = tables.shape("v")
    assert view.kind == "VIEW"
    assert view.engine == ""


KEYS = {
    "primary": ("id INT PRIMARY KEY, u INT NOT NULL UNIQUE", ("id",), ""),
    "primary-is-cheaper-even-when-wide": ("a VARCHAR(191) PRIMARY KEY, u INT NOT NULL UNIQUE", ("a",), ""),
    "composite-in-mixed-order": ("a INT, b INT, PRIMARY KEY (a, b DESC)", ("a", "b"), ""),
    "not-null-unique": ("a INT, u BINARY(16) NOT NULL UNIQUE", ("u",), ""),
    "narrowest-unique": ("w VARCHAR(100) NOT NULL UNIQUE, n INT NOT NULL UNIQUE", ("n",), ""),
    "nullable-unique": ("a INT, u INT NULL UNIQUE", (), "NULL"),
    "float": ("f DOUBLE PRIMARY KEY", (), "floating"),
    "float-but-unique-besides": ("f FLOAT PRIMARY KEY, u INT NOT NULL UNIQUE", ("u",), ""),
    "prefix": ("p VARCHAR(100) NOT NULL, UNIQUE KEY p (p(10))", (), "10 characters"),
    "none": ("a INT, KEY k (a)", (), "no UNIQUE"),
    "invisible-unique": ("f FLOAT PRIMARY KEY, a INT NOT NULL, UNIQUE KEY u (a) INVISIBLE", (), "invisible"),
    "functional-unique": ("a INT NOT NULL, UNIQUE KEY u ((a + 1))", (), "expression"),
    "enum": ("e ENUM('b', 'a') NOT NULL PRIMARY KEY", ("e",), ""),
}


@pytest.mark.parametrize("name", KEYS)
def test_the_walking_key_is_the_cheapest_usable_one_or_says_why_there_is_none(tables: Tables, name: str) -> None:
    columns, key, why = KEYS[name]
    tables.run(f"CREATE TABLE t ({columns})")
    shape = tables.shape()
    assert shape.key == key
    assert why in shape.key_problem
    assert bool(shape.key_name) == bool(key)


def test_the_generated_invisible_key_is_a_key(tables: Tables) -> None:
    tables.run("SET SESSION sql_generate_invisible_primary_key = ON; CREATE TABLE t (a INT)")
    shape = tables.shape()
    assert shape.key == ("my_row_id",)
    assert shape.key_name == "PRIMARY"


def test_a_key_that_the_runbook_names_is_taken_or_refused(tables: Tables) -> None:
    tables.run("CREATE TABLE t (id INT PRIMARY KEY, u INT NOT NULL UNIQUE, n INT UNIQUE)")
    assert tables.shape(key=("U",)).key == ("u",)
    assert "NULL" in tables.shape(key=("n",)).key_problem
    assert "no unique index" in tables.shape(key=("id", "u")).key_problem


CONTRACT_COLUMNS = (
    Column("s", parse_type("varchar(32)")),
    Column("n", parse_type("integer(11)"), null=False, default=Default("0")),
    Column("m", parse_type("decimal(10,2)"), null=False, default=Default("0")),
    Column("f", parse_type("boolean"), null=False, default=Default("1")),
    Column("t", parse_type("datetime(3)"), default=Default("CURRENT_TIMESTAMP(3)", True), on_update=True),
    Column("d", parse_type("datetime"), default=Default("2020-01-01")),
    Column("l", parse_type("varchar(20)"), charset="latin1", collation="latin1_swedish_ci"),
    Column("j", parse_type("json"), default=Default("( JSON_ARRAY('A B', \"c\", 'it''s') )", True)),
    Column("g", parse_type("int"), generated="n+1"),
)
CONTRACT_DDL = """ALTER TABLE t ADD COLUMN s VARCHAR(32), ADD COLUMN n INT NOT NULL DEFAULT 0,
 ADD COLUMN m DECIMAL(10,2) NOT NULL DEFAULT 0, ADD COLUMN f BOOLEAN NOT NULL DEFAULT TRUE,
 ADD COLUMN t DATETIME(3) DEFAULT NOW(3) ON UPDATE NOW(3), ADD COLUMN d DATETIME DEFAULT '2020-01-01',
 ADD COLUMN l VARCHAR(20) CHARACTER SET latin1, ADD COLUMN j JSON DEFAULT (JSON_ARRAY('A B', 'c', 'it''s')),
 ADD COLUMN g INT AS (n + 1);
 ALTER TABLE t ADD INDEX i (s(32), n DESC), ADD UNIQUE INDEX u (n, id);
 ALTER TABLE t ADD CONSTRAINT up FOREIGN KEY (parent) REFERENCES t (id) ON DELETE SET NULL"""


def contract(schema: str) -> Contract:
    me = TableName(schema, "t")
    return Contract(
        me,
        CONTRACT_COLUMNS,
        changes=(Column("w", parse_type("varchar(60)"), null=False, default=Default("x")),),
        indexes=(
            Index("i", (IndexPart("S"), IndexPart("n", descending=True))),
            Index("u", (IndexPart("n"), IndexPart("id")), unique=True),
        ),
        foreign_keys=(ForeignKey("up", ("parent",), me, ("id",), "SET NULL", "NO ACTION"),),
    )


BEFORE = "CREATE TABLE t (id INT PRIMARY KEY, parent INT, w VARCHAR(20) NOT NULL DEFAULT 'x')"


def test_what_ddl_has_not_done_yet_is_missing_and_nothing_else(tables: Tables) -> None:
    tables.run(BEFORE)
    diff = compare_shape(contract(tables.schema), tables.shape())
    assert diff.columns_missing == CONTRACT_COLUMNS
    assert [c.name for c in diff.changes_missing] == ["w"]
    assert [i.name for i in diff.indexes_missing] == ["i", "u"]
    assert [f.name for f in diff.foreign_keys_missing] == ["up"]
    assert not diff.different
    assert not diff.complete


def test_the_expanded_table_equals_the_contract_however_the_server_spells_it(tables: Tables) -> None:
    tables.run(BEFORE)
    tables.run(CONTRACT_DDL)
    tables.run("ALTER TABLE t MODIFY w VARCHAR(60) NOT NULL DEFAULT 'x'")
    diff = compare_shape(contract(tables.schema), tables.shape())
    assert diff.different == ()
    assert diff.complete, diff


@pytest.mark.parametrize(
    ("change", "name", "reason"),
    [
        ("MODIFY s VARCHAR(31)", "s", "type is varchar(31), wanted varchar(32)"),
        ("MODIFY s VARCHAR(32) NOT NULL", "s", "NULL is no"),
        ("MODIFY s VARCHAR(32) COLLATE utf8mb4_bin", "s", "collation is utf8mb4_bin"),
        ("ALTER COLUMN n SET DEFAULT 1", "n", "default is '1', wanted '0'"),
        ("ALTER COLUMN n DROP DEFAULT", "n", "default is none"),
        ("MODIFY t DATETIME(3) DEFAULT NOW(3)", "t", "ON UPDATE is no"),
        ("ALTER COLUMN j SET DEFAULT (JSON_ARRAY('A b', 'c', 'it''s'))", "j", "default is"),
        ("ALTER COLUMN s SET INVISIBLE", "s", "invisible is yes"),
        ("ALTER INDEX i INVISIBLE", "i", "visible is no"),
        ("DROP INDEX i, ADD INDEX i (s, n)", "i", "parts is (s, n), wanted (s, n desc)"),
        ("DROP INDEX i, ADD INDEX i (s(31), n DESC)", "i", "parts is (s(31), n desc)"),
        ("DROP INDEX u, ADD INDEX u (n, id)", "u", "unique is no"),
    ],
)
def test_a_thing_of_the_same_name_that_is_otherwise_is_named_with_the_reason(
    tables: Tables, change: str, name: str, reason: str
) -> None:
    tables.run(BEFORE)
    tables.run(CONTRACT_DDL)
    tables.run(f"ALTER TABLE t {change}")
    (different,) = compare_shape(contract(tables.schema), tables.shape()).different
    assert different.name == name
    assert reason in str(different)


def test_a_foreign_key_with_another_rule_is_different(tables: Tables) -> None:
    tables.run(BEFORE)
    tables.run(CONTRACT_DDL)
    tables.run("ALTER TABLE t DROP FOREIGN KEY up")
    tables.run("ALTER TABLE t ADD CONSTRAINT up FOREIGN KEY (parent) REFERENCES t (id) ON DELETE CASCADE")
    (different,) = compare_shape(contract(tables.schema), tables.shape()).foreign_keys_different
    assert different.reasons == ("ON DELETE is CASCADE, wanted SET NULL",)


def test_the_digest_ignores_comments_statistics_and_our_triggers_and_nothing_else(tables: Tables) -> None:
    tables.run("CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 1)")
    assert OUR_TRIGGERS == MIRROR_PREFIX
    digest = shape_digest(tables.shape())
    for same in (
        "ALTER TABLE t COMMENT 'x'",
        "ALTER TABLE t MODIFY a INT COMMENT 'y'",
        "INSERT INTO t VALUES (2, 2)",
        "ANALYZE TABLE t",
        "CREATE TABLE c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES t (id))",
        f"CREATE TRIGGER {MIRROR_PREFIX}x_bu BEFORE UPDATE ON t FOR EACH ROW SET NEW.a = NEW.a",
    ):
        tables.run(same)
        assert shape_digest(tables.shape()) == digest, same
    for other in (
        "ALTER TABLE t ADD COLUMN b INT",
        "ALTER TABLE t ADD INDEX b (b)",
        "ALTER TABLE t MODIFY a BIGINT",
        "ALTER TABLE t ALTER COLUMN a SET DEFAULT 5",
        "CREATE TRIGGER app_bi BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
    ):
        tables.run(other)
        changed = shape_digest(tables.shape())
        assert changed != digest, other
        digest = changed
