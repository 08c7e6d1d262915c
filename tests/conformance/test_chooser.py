"""The chooser says of every clause what the real server does: the way is taken, no cheaper one is, and it uses up what
was said. The rows are those of the measured table of online DDL, and what a contract may add besides."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pymysql
import pytest
from msgspec.structs import replace
from pymysql.cursors import Cursor

from orchestrator.model.chooser import Ground, way_of
from orchestrator.model.clauses import (
    ChangedColumn,
    CheckClause,
    Clause,
    GoneColumn,
    GoneForeignKey,
    NewColumn,
    NewDefault,
    NewForeignKey,
    NewIndex,
    OtherIndex,
    RenamedColumn,
    TableClause,
)
from orchestrator.model.contract import Column, Default, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.types import parse_type
from orchestrator.mysql.look.server import read_server
from orchestrator.mysql.look.size import read_row_versions
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.alter import column_definition, index_definition
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import ROOT
from tests.support.servers import connect, script
from tests.support.shapes import live_shape
from tests.support.state import settings_of

BASE = """
CREATE TABLE par (id INT PRIMARY KEY);
CREATE TABLE t (id INT PRIMARY KEY, a INT, v VARCHAR(60), w VARCHAR(32), long_one VARCHAR(300), e ENUM('a','b'),
 s SET('a','b','c','d','e','f','g','h'), n INT NOT NULL DEFAULT 0, u3 VARCHAR(20) CHARACTER SET utf8mb3,
 l1 VARCHAR(20) CHARACTER SET latin1, d DATETIME(3), tx TEXT, j JSON, x INT, par_id INT, g INT AS (a + 1) VIRTUAL,
 KEY kx (x), KEY kp (par_id), KEY kv (w), CONSTRAINT ck CHECK (a < 1000) NOT ENFORCED{more}){options};
CREATE TABLE child (id INT PRIMARY KEY, t_id INT, KEY kt (t_id),
 CONSTRAINT child_fk FOREIGN KEY (t_id) REFERENCES t (id));
INSERT INTO t (id, a, v, w, e) VALUES (1, 1, 'x', 'x', 'a'), (2, 2, 'y', 'y', 'b');
"""
PLAIN = BASE.format(more="", options="")
COMPRESSED = BASE.format(more="", options=" ROW_FORMAT=COMPRESSED")
FULLTEXT = BASE.format(more=", FULLTEXT KEY ft (tx)", options="")
KEYED = BASE.format(more=", CONSTRAINT t_fk FOREIGN KEY (par_id) REFERENCES par (id)", options="")


class Case(NamedTuple):
    name: str
    clause: Clause
    text: str
    table: str = PLAIN


def new(name: str, type: str, default: Default | None = None, **more: object) -> Column:
    return Column(name, parse_type(type), default=default, **more)  # type: ignore[arg-type]  # fields by name


def adding(name: str, column: Column, table: str = PLAIN) -> Case:
    return Case(name, NewColumn(column), f"ADD COLUMN {column_definition(column)}", table)


def indexing(name: str, *parts: IndexPart, table: str = PLAIN, **more: object) -> Case:
    index = Index("new_index", parts, **more)  # type: ignore[arg-type]  # fields by name
    return Case(name, NewIndex(index), f"ADD {index_definition(index)}", table)


def changing(name: str, column: str, text: str, after: Column, *, moved: bool = False) -> Case:
    """The column as it lives is filled in by the test."""
    return Case(name, ChangedColumn(new(column, "int"), after, moved), f"MODIFY COLUMN {text}")


ADD_KEY = "ADD CONSTRAINT new_fk FOREIGN KEY (par_id) REFERENCES par (id)"
KEY = ForeignKey("new_fk", ("par_id",), TableName("", "par"), ("id",))
CASES = (
    adding("a nullable column", new("c", "int")),
    adding("a NOT NULL column with a default", new("c", "varchar(20)", Default("x"), null=False)),
    adding("a NOT NULL column without a default", new("c", "int", null=False)),
    adding("a JSON column", new("c", "json")),
    adding("a moment of now", new("c", "datetime(3)", Default("CURRENT_TIMESTAMP(3)", True), null=False)),
    adding("a moment that updates", new("c", "datetime", Default("CURRENT_TIMESTAMP", True), on_update=True)),
    adding("a column in the middle", new("c", "int", after="a")),
    adding("an invisible column", new("c", "int", invisible=True)),
    adding("an ENUM", new("c", "enum('x','y')", Default("x"), null=False)),
    adding("a column of its own collation", new("c", "varchar(9)", charset="latin1", collation="latin1_bin")),
    adding("a point", new("c", "point")),
    adding("a JSON column with an expression", new("c", "json", Default("(json_object())", True))),
    adding("a NOT NULL expression", new("c", "int", Default("(1 + 1)", True), null=False)),
    adding("a VIRTUAL column", new("c", "int", generated="a + 1")),
    adding("a STORED column", new("c", "int", generated="a + 1", stored=True)),
    Case("AUTO_INCREMENT", NewColumn(new("c", "int", null=False, auto_increment=True)),
         "ADD COLUMN c INT NOT NULL AUTO_INCREMENT, ADD UNIQUE KEY kc (c)"),
    Case("a column with a CHECK", NewColumn(new("c", "int"), checked=True), "ADD COLUMN c INT CHECK (c > 0)"),
    adding("a column on a COMPRESSED table", new("c", "int"), COMPRESSED),
    adding("a column on a FULLTEXT table", new("c", "int"), FULLTEXT),
    adding("a VIRTUAL column on a FULLTEXT table", new("c", "int", generated="a + 1"), FULLTEXT),
    adding("a VIRTUAL column on a COMPRESSED table", new("c", "int", generated="a + 1"), COMPRESSED),
    Case("dropping a column", GoneColumn("a2"), "DROP COLUMN a2", PLAIN + "ALTER TABLE t ADD COLUMN a2 INT;"),
    Case("dropping an indexed column", GoneColumn("x"), "DROP COLUMN x"),
    Case("dropping a VIRTUAL column", GoneColumn("g"), "DROP COLUMN g"),
    Case("dropping a column of a COMPRESSED table", GoneColumn("v"), "DROP COLUMN v", COMPRESSED),
    Case("dropping a column of a FULLTEXT table", GoneColumn("v"), "DROP COLUMN v", FULLTEXT),
    Case("renaming a column", RenamedColumn("v", "v2"), "RENAME COLUMN v TO v2"),
    Case("renaming a referenced column", RenamedColumn("id", "id2"), "RENAME COLUMN id TO id2"),
    Case("a default", NewDefault("v"), "ALTER COLUMN v SET DEFAULT 'q'"),
    Case("a default expression", NewDefault("j"), "ALTER COLUMN j SET DEFAULT (json_object())"),
    Case("no default", NewDefault("n"), "ALTER COLUMN n DROP DEFAULT"),
    changing("a comment", "v", "v VARCHAR(60) COMMENT 'x'", new("v", "varchar(60)")),
    changing("60 → 63 characters", "v", "v VARCHAR(63)", new("v", "varchar(63)")),
    changing("300 → 500 characters", "long_one", "long_one VARCHAR(500)", new("long_one", "varchar(500)")),
    changing("60 → 64 characters", "v", "v VARCHAR(64)", new("v", "varchar(64)")),
    changing("32 → 64 characters, indexed", "w", "w VARCHAR(64)", new("w", "varchar(64)")),
    changing("a shorter VARCHAR", "v", "v VARCHAR(10)", new("v", "varchar(10)")),
    changing("an ENUM label at the end", "e", "e ENUM('a','b','c')", new("e", "enum('a','b','c')")),
    changing("an ENUM label in the middle", "e", "e ENUM('a','c','b')", new("e", "enum('a','c','b')")),
    changing("the ninth label of a SET", "s", "s SET('a','b','c','d','e','f','g','h','i')",
             new("s", "set('a','b','c','d','e','f','g','h','i')")),
    changing("int → bigint", "a", "a BIGINT", new("a", "bigint")),
    changing("text → mediumtext", "tx", "tx MEDIUMTEXT", new("tx", "mediumtext")),
    changing("datetime(3) → (6)", "d", "d DATETIME(6)", new("d", "datetime(6)")),
    changing("a collation, unindexed", "v", "v VARCHAR(60) COLLATE utf8mb4_bin",
             new("v", "varchar(60)", charset="utf8mb4", collation="utf8mb4_bin")),
    changing("a collation, indexed", "w", "w VARCHAR(32) COLLATE utf8mb4_bin",
             new("w", "varchar(32)", charset="utf8mb4", collation="utf8mb4_bin")),
    changing("utf8mb3 → utf8mb4", "u3", "u3 VARCHAR(20) CHARACTER SET utf8mb4",
             new("u3", "varchar(20)", charset="utf8mb4", collation="utf8mb4_0900_ai_ci")),
    changing("latin1 → utf8mb4", "l1", "l1 VARCHAR(20) CHARACTER SET utf8mb4",
             new("l1", "varchar(20)", charset="utf8mb4", collation="utf8mb4_0900_ai_ci")),
    changing("NULL → NOT NULL", "w", "w VARCHAR(32) NOT NULL", new("w", "varchar(32)", null=False)),
    changing("NOT NULL → NULL", "n", "n INT DEFAULT 0", new("n", "int", Default("0"))),
    changing("another place", "v", "v VARCHAR(60) FIRST", new("v", "varchar(60)"), moved=True),
    indexing("an index", IndexPart("a"), IndexPart("v", prefix=10), IndexPart("d", descending=True)),
    indexing("an invisible index", IndexPart("a"), visible=False),
    indexing("a unique index", IndexPart("a"), unique=True),
    indexing("an index on a VIRTUAL column", IndexPart("g")),
    indexing("an index on a COMPRESSED table", IndexPart("a"), table=COMPRESSED),
    indexing("a functional index", IndexPart("", expression="lower(`v`)")),
    indexing("the first FULLTEXT index", IndexPart("tx"), kind="FULLTEXT"),
    indexing("the second FULLTEXT index", IndexPart("v"), kind="FULLTEXT", table=FULLTEXT),
    indexing("a SPATIAL index", IndexPart("p"), kind="SPATIAL",
             table=PLAIN.replace("tx TEXT", "tx TEXT, p POINT NOT NULL SRID 0").replace("(id, a,", "(id, p, a,")
             .replace("(1, 1", "(1, POINT(1, 1), 1").replace("(2, 2", "(2, POINT(1, 1), 2")),
    Case("renaming an index", OtherIndex("kx"), "RENAME INDEX kx TO kx2"),
    Case("dropping an index", OtherIndex("kx"), "DROP INDEX kx"),
    Case("hiding an index", OtherIndex("kx"), "ALTER INDEX kx INVISIBLE"),
    Case("a foreign key, checked", NewForeignKey(KEY, checked=True), ADD_KEY),
    Case("a foreign key, unchecked", NewForeignKey(KEY), ADD_KEY),
    Case("dropping a foreign key", GoneForeignKey("t_fk"), "DROP FOREIGN KEY t_fk", KEYED),
    Case("a CHECK", CheckClause("add"), "ADD CONSTRAINT ck2 CHECK (a > -1)"),
    Case("a CHECK, not enforced", CheckClause("add not enforced"), "ADD CONSTRAINT ck2 CHECK (a > -1) NOT ENFORCED"),
    Case("dropping a CHECK", CheckClause("drop"), "DROP CHECK ck"),
    Case("enforcing a CHECK", CheckClause("enforce"), "ALTER CHECK ck ENFORCED"),
    Case("a table comment", TableClause("comment"), "COMMENT 'x'"),
    Case("the default character set", TableClause("default charset"), "DEFAULT CHARACTER SET latin1"),
    Case("CONVERT TO", TableClause("convert charset"), "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
    Case("another primary key", TableClause("primary key"), "DROP PRIMARY KEY, ADD PRIMARY KEY (id, n)",
         PLAIN.replace("REFERENCES t (id)", "REFERENCES par (id)")),
    Case("FORCE", TableClause("force"), "FORCE"),
)  # fmt: skip
CHEAPER = ("ALGORITHM=INSTANT", "ALGORITHM=INPLACE, LOCK=NONE", "ALGORITHM=INPLACE, LOCK=SHARED")
REFUSED = frozenset({1845, 1846, 4092})


@pytest.fixture(scope="module")
def ground_schema(primary: Server) -> Iterator[str]:
    name = f"c_{uuid.uuid4().hex[:12]}"
    script(primary, f"CREATE DATABASE {name} DEFAULT CHARACTER SET utf8mb4")
    yield name
    script(primary, f"DROP DATABASE {name}")


@pytest.fixture(scope="module")
def look(primary: Server) -> Iterator[Session]:
    with closing(Session(settings_of(primary), role="test")) as session:
        yield session


@pytest.fixture
def hand(primary: Server, ground_schema: str) -> Iterator[pymysql.Connection[Cursor]]:
    script(primary, "DROP TABLE IF EXISTS child, t, par", ground_schema)
    with closing(connect(primary, ROOT, ground_schema)) as session:
        yield session


def run(session: pymysql.Connection[Cursor], text: str) -> int:
    """The number of the server's refusal, 0 when it was done."""
    try:
        with session.cursor() as cursor:
            cursor.execute(text)
    except pymysql.err.MySQLError as error:
        return int(error.args[0])
    return 0


def ground(look: Session, schema: str) -> Ground:
    table = TableName(schema, "t")
    return Ground(live_shape(look, table), read_server(look).version, read_row_versions(look, table))


def stands(look: Session, schema: str) -> tuple[int, int]:
    row = look.one(
        "SELECT TABLE_ID, TOTAL_ROW_VERSIONS FROM information_schema.INNODB_TABLES WHERE NAME = %s", (f"{schema}/t",)
    )
    assert row is not None
    return int(row[0]), int(row[1])


def filled(clause: Clause, at: Ground) -> Clause:
    """A change gets the column as it lives; what it does not say of its characters stays."""
    if not isinstance(clause, ChangedColumn):
        return clause
    before = at.shape.column(clause.after.name)
    assert before is not None
    after = (
        clause.after
        if clause.after.collation
        else replace(clause.after, charset=before.charset, collation=before.collation)
    )
    return replace(clause, before=before, after=after)


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_a_clause_goes_the_way_that_was_chosen_and_no_cheaper_one(
    primary: Server, ground_schema: str, look: Session, hand: pymysql.Connection[Cursor], case: Case
) -> None:
    script(primary, case.table, ground_schema)
    at = ground(look, ground_schema)
    way = way_of(filled(case.clause, at), at)
    checks = int(isinstance(case.clause, NewForeignKey) and case.clause.checked)
    assert run(hand, f"SET foreign_key_checks = {checks}") == 0
    named = f"ALGORITHM={way.algorithm}" + (f", LOCK={way.lock}" if way.lock else "")
    for cheaper in CHEAPER[: CHEAPER.index(named) if named in CHEAPER else len(CHEAPER)]:
        assert run(hand, f"ALTER TABLE t {case.text}, {cheaper}") in REFUSED, f"{cheaper} is cheaper than {way}"
    before = stands(look, ground_schema)
    assert run(hand, f"ALTER TABLE t {case.text}, {named}") == 0, way
    after = stands(look, ground_schema)
    assert (after[0] != before[0]) == (way.rebuilds or way.copies)
    if after[0] == before[0]:
        assert after[1] - before[1] == int(way.row_version)


def test_a_table_without_row_versions_left_is_rebuilt_and_never_in_silence(
    primary: Server, ground_schema: str, look: Session, hand: pymysql.Connection[Cursor]
) -> None:
    script(primary, "CREATE TABLE t (id INT PRIMARY KEY, a INT)", ground_schema)
    limit = read_row_versions(look, TableName(ground_schema, "t")).limit
    for n in range(limit):
        text = f"ADD COLUMN c{n} INT" if n % 2 == 0 else f"DROP COLUMN c{n - 1}"
        assert run(hand, f"ALTER TABLE t {text}, ALGORITHM=INSTANT") == 0
    at = ground(look, ground_schema)
    way = way_of(NewColumn(new("z", "int")), at)
    assert (way.algorithm, way.lock, way.rebuilds) == ("INPLACE", "NONE", True)
    assert str(limit) in way.reason
    assert run(hand, "ALTER TABLE t ADD COLUMN z INT, ALGORITHM=INSTANT") == 4092
    before = stands(look, ground_schema)
    assert run(hand, "ALTER TABLE t ADD COLUMN z INT, ALGORITHM=INPLACE, LOCK=NONE") == 0
    after = stands(look, ground_schema)
    assert after[0] != before[0]
    assert after[1] == 0
