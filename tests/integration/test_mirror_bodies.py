"""The relation and the mirror on a real server: hard values, hard expressions, an application that notices nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest
from msgspec.structs import replace

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Copy, Expression, Mapping, Match, TableName, Unmapped, ValueMap, Winner
from orchestrator.mysql.relation import load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import mirror
from orchestrator.runbook.load import load
from orchestrator.sandbox.server import Server
from tests.support.mirrored import Mirrored, cell, mirrored, new_column, settings_of
from tests.support.servers import connect, script, sql
from tests.support.shapes import live_shape

RUNBOOKS = Path(__file__).parents[2] / "runbooks"
STRICT = "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO"


def says(server: Server, schema: str, *statements: str, mode: str = "", zone: str = "+00:00") -> list[int]:
    """What the application says in one session, and how many rows it is told that each statement touched."""
    told = []
    with closing(connect(server, database=schema)) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = %s, time_zone = %s", (mode, zone))
        for statement in statements:
            told.append(cursor.execute(statement))
    return told


def derived(new: str, expression: str, *, follows: bool = False) -> Mapping:
    return Mapping(new=new, old=None, forward=Expression(expression), follows=follows)


def values(**pairs: str) -> ValueMap:
    return ValueMap(tuple(pairs.items()))


def refused(made: Mirrored) -> RunbookError:
    with pytest.raises(RunbookError) as caught:
        made.relation()
    assert caught.value.expected
    assert caught.value.next
    return caught.value


LOOKALIKES = """CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) COLLATE utf8mb4_unicode_ci NULL);
INSERT INTO t VALUES (1, 'done'), (2, 'DONE'), (3, 'done '), (4, 'dóne'), (5, CONVERT(0x646F6E6500 USING utf8mb4)),
  (6, CONVERT(0x646FE2808D6E65 USING utf8mb4)), (7, 'open'), (8, ' open'), (9, ''),
  (10, CONVERT(0x636166C3A9 USING utf8mb4)), (11, CONVERT(0x63616665CC81 USING utf8mb4))"""


@pytest.mark.parametrize(
    ("match", "wanted"),
    [
        (Match.EXACT, [3, None, None, None, None, None, 1, None, None, 5, None]),
        (Match.COLLATION, [3, 3, 3, 3, 3, 3, 1, None, None, 5, 5]),
    ],
)
def test_a_value_map_matches_bytes_unless_it_says_collation(
    primary: Server, schema: str, match: Match, wanted: list[Any]
) -> None:
    forward = ValueMap((("done", "3"), ("open", "1"), ("café", "5")), match=match)
    made = mirrored(primary, schema, LOOKALIKES, (new_column("n", "tinyint"),), Mapping("n", "s", forward))
    made.expand()
    made.fill(made.relation())
    assert made.all("n") == wanted
    script(primary, "DELETE FROM t", schema)
    made.mirror()
    script(primary, LOOKALIKES[LOOKALIKES.index("INSERT") :].replace("INTO t", "INTO t (id, s)"), schema)
    assert made.all("n") == wanted, "the mirror and the fill must have one rule"


def test_an_enum_is_read_as_its_label(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('0','1','2')); INSERT INTO t VALUES (1,'0'),(2,'1'),(3,'2')"
    columns = (new_column("n", "tinyint"), new_column("m", "int"))
    made = mirrored(primary, schema, ddl, columns, Mapping("n", "e", Copy()), derived("m", "e + 10"))
    made.expand()
    relation = made.mirror()
    made.fill(relation)
    assert any("AS CHAR)" in text for _, text in relation.assignments(cell))
    says(primary, schema, "INSERT INTO t (id, e) VALUES (4, '1')")
    assert made.all("n, m") == [(0, 10), (1, 11), (2, 12), (1, 11)]


def test_a_timestamp_becomes_one_datetime_in_every_session(primary: Server, schema: str) -> None:
    ddl = "SET time_zone='+00:00'; CREATE TABLE t (id INT PRIMARY KEY, s TIMESTAMP NULL); INSERT INTO t VALUES "
    ddl += "(1, '2026-07-01 10:00:00')"
    safe = "'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP(s) SECOND"
    made = mirrored(primary, schema, ddl, (new_column("n", "datetime"),), derived("n", safe, follows=True))
    made.expand()
    made.fill(made.mirror())
    says(primary, schema, "INSERT INTO t (id, s) VALUES (2, '2026-07-01 12:00:00')", zone="+02:00")
    assert made.all("CAST(n AS CHAR)") == ["2026-07-01 10:00:00"] * 2


@pytest.mark.parametrize("forward", [Copy(), Expression("s"), Expression("DATE(s)"), Expression("FROM_UNIXTIME(i)")])
def test_a_conversion_that_hangs_on_the_sessions_zone_is_refused(primary: Server, schema: str, forward: Any) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, s TIMESTAMP NULL, i INT)"
    made = mirrored(primary, schema, ddl, (new_column("n", "varchar(20)"),), Mapping("n", "s", forward))
    error = refused(made)
    assert "UNIX_TIMESTAMP" in error.expected + error.next or "zone" in error.seen or "CAST" in error.next


def test_an_unknown_zone_is_refused_before_anything_is_written(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, a DATETIME NOT NULL)"
    zone = derived("n", "CONVERT_TZ(a, 'Mars/Olympus', '+00:00')")
    made = mirrored(primary, schema, ddl, (new_column("n", "datetime"),), zone)
    assert "Mars/Olympus" in refused(made).seen


def test_null_out_of_values_is_unmapped_unless_it_is_written(primary: Server, schema: str) -> None:
    ddl = """CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b INT NULL, doc JSON NULL);
      INSERT INTO t VALUES (1, 8, 2, '{"score":7}'), (2, 8, 0, '{"score":null}'), (3, 8, NULL, '{}'), (4, 0, 0, NULL),
      (5, 1, 1, '{"score":"null"}'), (6, 1, 1, '{"score":""}')"""
    lost, meant = derived("lost", "a DIV b", follows=True), derived("meant", "IF(b = 0, NULL, a DIV b)", follows=True)
    score = derived("score", "IF(JSON_TYPE(doc->'$.score') = 'NULL', NULL, doc->>'$.score')", follows=True)
    columns = (new_column("lost", "int"), new_column("meant", "int"), new_column("score", "varchar(10)"))
    made = mirrored(primary, schema, ddl, columns, lost, meant, score)
    made.expand()
    relation = made.mirror()
    made.fill(relation)
    classes = made.all(", ".join(m.mismatch_class(cell, "old-is-truth") for m in relation.mappings))
    assert [c[0] for c in classes] == [None, "unmapped", None, "unmapped", None, None]
    assert [c[1:] for c in classes] == [(None, None)] * 6
    assert made.all("score") == ["7", None, None, None, "null", ""]


def test_zero_dates_go_nowhere_without_a_rule(primary: Server, schema: str) -> None:
    ddl = """SET sql_mode=''; CREATE TABLE t (id INT PRIMARY KEY, j DATETIME NOT NULL);
      INSERT INTO t VALUES (1,'0000-00-00 00:00:00'),(2,0),(3,'2024-02-00 00:00:00'),(4,'2024-02-28 12:00:00')"""
    rule = "IF(YEAR(j) = 0 OR MONTH(j) = 0 OR DAYOFMONTH(j) = 0, NULL, j)"
    columns = (new_column("n", "datetime"), new_column("r", "datetime"))
    made = mirrored(primary, schema, ddl, columns, Mapping("n", "j", Copy()), derived("r", rule, follows=True))
    made.expand()
    relation = made.relation()
    made.fill(relation)
    assert made.all("CAST(n AS CHAR)") == [None, None, None, "2024-02-28 12:00:00"]
    assert made.all("CAST(r AS CHAR)") == [None, None, None, "2024-02-28 12:00:00"]
    both = made.all(", ".join(m.mismatch_class(cell, "old-is-truth") for m in relation.mappings))
    assert both == [("unfit", None)] * 3 + [(None, None)]


def test_text_becomes_json_where_it_is_json(primary: Server, schema: str) -> None:
    ddl = """CREATE TABLE t (id INT PRIMARY KEY, b TEXT NULL);
      INSERT INTO t VALUES (1,'{"b":1,"a":2}'),(2,'[1.0, 1e2,100]'),(3,'{"a":1,"a":2}'),
      (4,'{"s":"\\\\ud83d\\\\ude00"}'),(5,''),(6,'{bad'),(7,NULL)"""
    made = mirrored(primary, schema, ddl, (new_column("j", "json"),), Mapping("j", "b", Copy(), Copy()))
    made.expand()
    relation = made.mirror()
    assert made.fill(relation) == 4
    assert made.all(relation.pairs[0].mismatch_class(cell, "old-is-truth")) == [None] * 4 + ["unfit"] * 2 + [None]
    says(primary, schema, "UPDATE t SET b = '{worse' WHERE id = 1", "UPDATE t SET j = '[5]' WHERE id = 6", mode=STRICT)
    assert made.all("b")[0] == "{worse"
    assert made.all("b")[5] == "[5]", "a value that cannot be read does not stop the one that replaces it"


def test_money_is_computed_by_the_one_expression(primary: Server, schema: str) -> None:
    ddl = """CREATE TABLE t (id INT PRIMARY KEY, amount DOUBLE NULL); INSERT INTO t VALUES
      (1,1.005),(2,0.29),(3,2.5),(4,0.025),(5,-0.025),(6,19.99),(7,NULL)"""
    cents = derived("c", "ROUND(CAST(CAST(amount AS CHAR) AS DECIMAL(20,6)) * 100)", follows=True)
    made = mirrored(primary, schema, ddl, (new_column("c", "bigint"),), cents)
    made.expand()
    made.fill(made.mirror())
    says(primary, schema, "INSERT INTO t (id, amount) VALUES (8, 1.005)")
    assert made.all("c") == [101, 29, 250, 3, -3, 1999, None, 101]


def test_an_application_trigger_runs_first(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, e VARCHAR(40) NOT NULL)"
    made = mirrored(primary, schema, ddl, (new_column("n", "varchar(40)"),), Mapping("n", "e", Copy(), Copy()))
    made.expand()
    normal = "FOR EACH ROW SET NEW.e = LOWER(TRIM(NEW.e))"
    for name, event in (("a", "INSERT"), ("zz", "INSERT"), ("zzz", "UPDATE")):
        made.session.execute(f"CREATE TRIGGER {schema}.{name} BEFORE {event} ON {made.table} {normal}")
    made.mirror()
    says(primary, schema, "INSERT INTO t (id, e) VALUES (1, '  Ann@X.test ')", "UPDATE t SET e = ' B '")
    assert made.all("e, n") == [("b", "b")]
    orders = [t.order for t in sorted(made.shape().triggers, key=lambda t: t.name) if t.event.upper() == "INSERT"]
    assert orders[0] == 3, "ours, whose name begins with _, is the last one"


def test_a_mirror_is_recognised_and_a_changed_one_is_not(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) NOT NULL DEFAULT 'a\\\\b')"
    mapping = Mapping("n", "s", values(**{"a\\b": "x'y"}), values(**{"x'y": "a\\b"}))
    made = mirrored(primary, schema, ddl, (new_column("n", "varchar(9)"),), mapping)
    made.expand()
    relation = made.mirror()
    live = {t.event.lower(): t for t in made.shape().triggers}
    for event in ("update", "insert"):
        wanted = mirror.create_trigger(relation, made.contract.table, event, live[event].name, "/* another tag */")
        assert mirror.same_body(live[event], wanted)
        assert not mirror.same_body(live[event], wanted.replace("x''y", "x''z"))
        made.session.execute(mirror.drop_trigger(made.contract.table, live[event].name, "/* rollout:r */"))
        made.session.execute(wanted)
        strict = next(t for t in made.shape().triggers if t.event.lower() == event)
        assert not mirror.same_body(strict, wanted), "under another sql_mode it does another thing"


def test_trigger_names_fit_and_differ() -> None:
    long = ["x" * 64, "x" * 63 + "y"]
    made = {mirror.trigger_name(r, e) for r in [*long, "short"] for e in ("update", "insert")}
    assert len(made) == 6
    assert all(len(name) <= 64 for name in made)


TALK: Sequence[str] = (
    "INSERT INTO t (id, s, k) VALUES (1, 'new', 1), (2, 'done', 2)",
    "UPDATE t SET s = 'done' WHERE id = 1",
    "UPDATE t SET s = 'done'",
    "UPDATE t SET k = k + 1",
    "UPDATE t SET s = 'odd' WHERE id = 2",
    "INSERT INTO t (id, s, k) VALUES (2, 'new', 5) ON DUPLICATE KEY UPDATE s = VALUES(s)",
    "INSERT INTO t (id, s, k) VALUES (2, 'new', 5) ON DUPLICATE KEY UPDATE s = VALUES(s)",
    "INSERT IGNORE INTO t (id, s, k) VALUES (2, 'done', 9), (3, 'done', 9)",
    "REPLACE INTO t (id, s, k) VALUES (3, 'new', 1)",
    "INSERT INTO t (id, s, k) SELECT id + 10, s, k FROM t",
    "DELETE FROM t WHERE id = 11",
)


@pytest.mark.parametrize("mode", ["", STRICT])
def test_an_application_is_told_the_same_with_the_mirror(primary: Server, schema: str, mode: str) -> None:
    ddl = "CREATE TABLE {} (id INT PRIMARY KEY, s VARCHAR(9) NOT NULL DEFAULT 'new', k INT)"
    mapping = Mapping("n", "s", values(new="pending", done="over"), values(pending="new", over="done"))
    made = mirrored(primary, schema, ddl.format("t"), (new_column("n", "varchar(9)"),), mapping)
    script(primary, ddl.format("u"), schema)
    made.expand()
    made.mirror()
    told = says(primary, schema, *TALK, mode=mode)
    assert told == says(
        primary,
        schema,
        *(s.replace("INTO t", "INTO u").replace("FROM t", "FROM u").replace("UPDATE t", "UPDATE u") for s in TALK),
        mode=mode,
    )
    assert made.all("id, s, k") == sql(primary, f"SELECT id, s, k FROM {schema}.u ORDER BY id")
    assert made.all("n") == ["over", "pending", "pending", "pending", "pending"]


def test_what_does_not_fit_leaves_the_partner_and_hurts_nobody(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, title VARCHAR(40) NOT NULL, a INT NULL)"
    columns = (new_column("n", "varchar(8)"), new_column("cut", "varchar(8)"), new_column("m", "tinyint", "0"))
    cut = derived("cut", "LEFT(title, 8)", follows=True)
    made = mirrored(
        primary, schema, ddl, columns, Mapping("n", "title", Copy(), Copy()), cut, Mapping("m", "a", Copy())
    )
    made.expand()
    made.mirror()
    for mode in ("", STRICT):
        says(primary, schema, "REPLACE INTO t (id, title, a) VALUES (1, 'a title of some length', 999)", mode=mode)
        assert made.all("title, n, cut, m") == [("a title of some length", None, "a title ", 0)]


@pytest.mark.parametrize("winner", [Winner.NEW, Winner.OLD])
def test_null_into_a_column_that_takes_none_passes_where_it_passed(
    primary: Server, schema: str, winner: Winner
) -> None:
    """Without strict mode the server makes 0 or '' of it, after the trigger, which sees the NULL."""
    ddl = """CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, s VARCHAR(9) NOT NULL, b INT NOT NULL);
      INSERT INTO t VALUES (1, 5, 'x', 7)"""
    columns = (new_column("n", "bigint", "0"), new_column("m", "varchar(9)", "p"), new_column("c", "bigint", "0"))
    there, back = values(x="p", y="q"), values(p="x", q="y")
    mappings = (
        Mapping("n", "a", Expression("a * 1000"), Expression("n DIV 1000"), on_conflict=winner),
        Mapping("m", "s", there, back, on_conflict=winner),
        Mapping("c", "b", Copy(), Copy(), on_conflict=winner),
    )
    made = mirrored(primary, schema, ddl, columns, *mappings)
    made.expand()
    made.fill(made.mirror())
    for said in (
        "a = NULL, s = NULL, b = NULL",
        "n = NULL, m = NULL, c = NULL",
        "s = NULL, m = 'odd', a = NULL, n = 7",
    ):
        says(primary, schema, f"UPDATE t SET {said}", mode="")
        with pytest.raises(pymysql.err.MySQLError) as caught:
            says(primary, schema, f"UPDATE t SET {said}", mode=STRICT)
        assert caught.value.args[0] == 1048
    says(primary, schema, "REPLACE INTO t (id, a, s, b) VALUES (1, 5, 'x', 7), (2, NULL, NULL, NULL)", mode="")
    assert made.all("a, s, b") == [(5, "x", 7), (0, "", 0)]


def test_an_expression_that_raises_is_swallowed(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, s TEXT, k INT)"
    columns = (new_column("n", "json"), new_column("d", "int"), new_column("p", "varchar(9)"))
    raising = Mapping("n", "s", Expression("CAST(s AS JSON)"), Expression("CAST(n AS CHAR)"))
    length, path = derived("d", "JSON_LENGTH(s)", follows=True), derived("p", "s->>'$[0]'", follows=True)
    made = mirrored(primary, schema, ddl, columns, raising, length, path)
    made.expand()
    made.mirror()
    says(
        primary,
        schema,
        "INSERT INTO t (id, s) VALUES (1, '{bad'), (2, '[1]')",
        "UPDATE t SET k = 1",
        "UPDATE t SET s = '[1, 2]' WHERE id = 1",
        "UPDATE t SET s = 'worse' WHERE id = 2",
        "UPDATE t SET n = '[7]' WHERE id = 2",
        mode=STRICT,
    )
    assert made.all("s, CAST(n AS CHAR), d, p") == [("[1, 2]", "[1, 2]", 2, "1"), ("[7]", "[7]", 1, "7")]
    says(primary, schema, "UPDATE t SET s = 'worst' WHERE id = 2", mode=STRICT)
    assert made.all("s, CAST(n AS CHAR), d, p")[1] == ("worst", "[7]", 1, "7")


def test_a_derived_column_is_filled_once_or_follows(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) NULL, b VARCHAR(9) NULL)"
    columns = (new_column("q", "varchar(9)"), new_column("f", "varchar(9)"))
    made = mirrored(
        primary, schema, ddl, columns, derived("q", "'plain'"), derived("f", "COALESCE(a, b)", follows=True)
    )
    script(primary, "INSERT INTO t VALUES (0, 'x', NULL)", schema)
    made.expand()
    relation = made.mirror()
    says(
        primary,
        schema,
        "INSERT INTO t (id, a, b) VALUES (1, NULL, 'b')",
        "INSERT INTO t (id, a, q, f) VALUES (2, 'a', 'fast', 'mine')",
        "UPDATE t SET a = 'new' WHERE id = 1",
        "UPDATE t SET q = NULL WHERE id = 2",
    )
    assert made.all("q, f") == [(None, None), ("plain", "new"), (None, "a")]
    assert made.all(relation.derived[0].mismatch_class(cell, "corresponds")) == ["derived-empty", None, "derived-empty"]
    says(primary, schema, "UPDATE t SET b = 'c'")
    assert made.all("q, f") == [("plain", "x"), ("plain", "new"), ("plain", "a")]
    assert made.all(relation.holds(cell)) == [1, 1, 1]


def test_names_and_values_of_every_look(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE `a ``b%s-c` (id INT PRIMARY KEY, `order by` VARCHAR(40), `100%` INT)"
    columns = (new_column("sel``ect", "varchar(50)"), new_column("n%d", "int"))
    made = mirrored(
        primary,
        schema,
        ddl,
        columns,
        derived("sel``ect", "CONCAT('<', `order by`, '>')", follows=True),
        derived("n%d", "IF(`order by` LIKE '%s%', `100%` % 7, 0)", follows=True),
        table="a `b%s-c",
    )
    made.expand()
    made.mirror()
    insert = f"INSERT INTO {made.table} (id, `order by`, `100%`) VALUES (1, 'back\\\\slash \"s\"', 10), (2, 'it''s', 3)"
    says(primary, schema, insert)
    rows = made.all("`sel````ect`, `n%d`")
    assert rows == [('<back\\slash "s">', 3), ("<it's>", 3)]


@pytest.mark.parametrize(
    ("expression", "type_", "seen"),
    [
        ("LOWER()", "int", "1582"),
        ("nosuch(s)", "int", "built in"),
        ("s +", "int", "1064"),
        ("POINT(1, 2)", "int", "cannot be mapped"),
        ("UNHEX(s)", "varchar(9)", "bytes"),
        ("s", "datetime", ""),
        ("CAST(s AS TIME)", "datetime", "time"),
        ("'seven77'", "varchar(3)", "seven77"),
        ("300", "tinyint", "300"),
        ("NULL", "int", "cannot be mapped"),
    ],
)
def test_what_the_server_or_the_column_refuses_is_an_error_of_the_runbook(
    primary: Server, schema: str, expression: str, type_: str, seen: str
) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9))"
    made = mirrored(primary, schema, ddl, (new_column("n", type_),), derived("n", expression))
    if seen:
        assert seen in refused(made).seen
    else:
        made.relation()


def test_a_map_into_a_type_that_cannot_hold_it_is_refused(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9))"
    made = mirrored(primary, schema, ddl, (new_column("n", "tinyint"),), Mapping("n", "s", values(a="300")))
    assert "'300'" in refused(made).seen
    date = mirrored(primary, schema, "SELECT 1", (new_column("n", "date"),), Mapping("n", "s", values(a="2024-02-30")))
    assert "2024-02-30" in refused(date).seen


def test_a_default_that_cannot_be_told_from_a_value_is_refused(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(36) DEFAULT (CONCAT('a', 'b')))"
    made = mirrored(primary, schema, ddl, (new_column("n", "varchar(36)"),), Mapping("n", "s", Copy(), Copy()))
    assert "default" in refused(made).seen


def test_current_timestamp_is_not_given(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3))"
    made = mirrored(primary, schema, ddl, (new_column("n", "datetime(3)"),), Mapping("n", "at", Copy(), Copy()))
    made.session.execute(f"ALTER TABLE {made.table} ADD COLUMN n DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)")
    made.mirror()
    says(
        primary,
        schema,
        "INSERT INTO t (id) VALUES (1)",
        "INSERT INTO t (id, at) VALUES (2, '2020-01-01')",
        "INSERT INTO t (id, n) VALUES (3, '2021-01-01')",
    )
    rows = made.all("CAST(at AS CHAR), CAST(n AS CHAR)")
    assert rows[0][0] == rows[0][1]
    assert rows[1:] == [("2020-01-01 00:00:00.000",) * 2, ("2021-01-01 00:00:00.000",) * 2]


def test_on_update_columns_are_mirrored_as_the_application_leaves_them(primary: Server, schema: str) -> None:
    ddl = """CREATE TABLE t (id INT PRIMARY KEY, k INT, up DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE
      CURRENT_TIMESTAMP(6)); INSERT INTO t VALUES (1, 1, '2020-01-01')"""
    made = mirrored(primary, schema, ddl, (new_column("n", "datetime(6)"),), Mapping("n", "up", Copy(), Copy()))
    made.expand()
    relation = made.mirror()
    says(primary, schema, "UPDATE t SET k = 2")
    assert made.all(f"n <=> up, up > '2020-01-01', {relation.holds(cell)}") == [(1, 1, 1)]
    says(primary, schema, "UPDATE t SET n = '2021-01-01'")
    assert made.all("CAST(up AS CHAR)") == ["2021-01-01 00:00:00.000000"]


def test_mappings_are_read_before_ddl_with_select_only(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, s VARCHAR(9))"
    columns = (new_column("n", "bigint"), new_column("m", "varchar(20)"))
    made = mirrored(primary, schema, ddl, columns, derived("n", "a * 1000"), derived("m", "CONCAT(s, '!')"))
    shape = made.shape()
    script(
        primary, f"CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'r'; GRANT SELECT ON {schema}.t TO reader@'127.0.0.1'"
    )
    try:
        with closing(Session(settings_of(primary, "reader", "r"))) as session:
            relation = load_relation(session, made.contract, shape)
    finally:
        script(primary, "DROP USER reader@'127.0.0.1'")
    assert relation.assignments(str)[0] == ("n", "IF(n IS NULL, (a * 1000), n)")


def test_keep_copies_only_what_fits(primary: Server, schema: str) -> None:
    ddl = """CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) CHARACTER SET utf8mb4 NOT NULL);
      INSERT INTO t VALUES (1, 'a'), (2, 'keep'), (3, 'much too long'), (4, '😀')"""
    keep = ValueMap((("a", "alpha"),), Unmapped.KEEP)
    made = mirrored(primary, schema, ddl, (new_column("n", "varchar(6)", charset="utf8mb3"),), Mapping("n", "s", keep))
    made.session.execute(f"ALTER TABLE {made.table} ADD COLUMN n VARCHAR(6) CHARACTER SET utf8mb3")
    relation = made.relation()
    made.fill(relation)
    assert made.all("n") == ["alpha", "keep", None, None]
    assert made.all(relation.mappings[0].mismatch_class(cell, "old-is-truth")) == [None, None, "unfit", "unfit"]


@pytest.mark.parametrize(
    ("type_", "default", "forward", "backward", "fine"),
    [
        ("bigint", "120000", "s * 1000", "n DIV 1000", True),
        ("bigint", "119500", "s * 1000", "n DIV 1000", False),
        ("bigint", None, "s * 1000", "COALESCE(n DIV 1000, 0)", False),
        ("bigint", None, "s * 1000", "n DIV 1000", True),
        ("varchar(9)", "1", "CAST(s AS CHAR)", "CAST(n AS SIGNED)", True),
        ("varchar(9)", "01", "CAST(s AS CHAR)", "CAST(n AS SIGNED)", False),
    ],
)
def test_a_default_of_a_computed_pair_survives_the_round_trip(
    primary: Server, schema: str, type_: str, default: str | None, forward: str, backward: str, fine: bool
) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, s INT NOT NULL DEFAULT 120)"
    mapping = Mapping("n", "s", Expression(forward), Expression(backward))
    made = mirrored(primary, schema, ddl, (new_column("n", type_, default),), mapping)
    if fine:
        made.relation()
    else:
        assert "default" in refused(made).seen


@pytest.mark.parametrize("name", ["aijob", "orders", "documents"])
def test_the_mappings_of_every_runbook_are_accepted(primary: Server, schema: str, name: str) -> None:
    runbook = load(RUNBOOKS / f"{name}.yaml")
    script(primary, (RUNBOOKS / "sandbox" / f"{name}.sql").read_text(), schema)
    contract = replace(runbook.contract, table=TableName(schema, runbook.contract.table.name))
    with closing(Session(settings_of(primary))) as session:
        shape = live_shape(session, contract.table)
        relation = load_relation(session, contract, shape)
    assert len(relation.mappings) == len(contract.mappings)


def test_an_expression_may_name_a_collation_of_its_own(primary: Server, schema: str) -> None:
    ddl = """CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) COLLATE utf8mb4_unicode_ci, b VARCHAR(9));
      INSERT INTO t VALUES (1, 'x', 'X'), (2, 'y', 'y')"""
    same = derived("n", "IF(a COLLATE utf8mb4_bin = b, a COLLATE utf8mb4_bin, 'differs')", follows=True)
    code = derived("m", "REPLACE(a COLLATE utf8mb4_bin, 'x', 'ok')", follows=True)
    columns = (new_column("n", "varchar(9)"), new_column("m", "enum('ok','y')"))
    made = mirrored(primary, schema, ddl, columns, same, code)
    made.expand()
    relation = made.mirror()
    made.fill(relation)
    says(primary, schema, "UPDATE t SET a = 'x', b = 'x' WHERE id = 2")
    assert made.all(f"n, m, {relation.holds(cell)}") == [("differs", "ok", 1), ("x", "ok", 1)]


def test_a_pair_over_several_columns_follows_each_of_them(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, first VARCHAR(9), last VARCHAR(9), k INT)"
    forward = Expression("CONCAT(first, ' ', last)")
    backward = Expression("SUBSTRING(whole, 1, LOCATE(' ', whole) - 1)")
    made = mirrored(
        primary, schema, ddl, (new_column("whole", "varchar(19)"),), Mapping("whole", "first", forward, backward)
    )
    made.expand()
    made.mirror()
    says(
        primary,
        schema,
        "INSERT INTO t (id, first, last) VALUES (1, 'Ann', 'Lee'), (2, 'Bo', NULL)",
        "UPDATE t SET last = 'May' WHERE id = 1",
        "UPDATE t SET whole = 'Cy Doe' WHERE id = 2",
    )
    assert made.all("first, last, whole") == [("Ann", "May", "Ann May"), ("Cy", None, "Cy Doe")]
    says(primary, schema, "UPDATE t SET first = 'Di' WHERE id = 1", "UPDATE t SET k = 1")
    assert made.all("first, last, whole") == [("Di", "May", "Di May"), ("Cy", None, "Cy Doe")]
