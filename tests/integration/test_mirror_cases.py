"""What triggers of other tools did to applications (cases B16 to B62, B100, B103), each told of this mirror.

What backfill and verify do with the same values stands in ``test_value_cases``.
"""

from __future__ import annotations

import threading
from contextlib import closing

import pymysql
import pytest

from orchestrator.drivers.ddl import NativeDdlDriver
from orchestrator.drivers.shadow import TriggerDriver
from orchestrator.model.contract import Copy, Expression, Mapping, TableName, ValueMap
from orchestrator.model.facts import Part, Presence
from orchestrator.model.outcome import Result, Seen
from orchestrator.model.step import DropColumns, InstallTrigger, RemoveMirror
from orchestrator.mysql.look.mirror import judge_mirror
from orchestrator.mysql.site import Site
from orchestrator.sandbox.server import Server
from tests.support.ddl import Application, Beats, site_on
from tests.support.mirrored import Mirrored, cell, mirrored, new_column
from tests.support.servers import connect, script, sql

RAW = "SET SESSION sql_mode = ''"


def derived(new: str, expression: str) -> Mapping:
    return Mapping(new, None, Expression(expression), follows=True)


def says(made: Mirrored, *statements: str) -> None:
    """One session of the application; every statement passes."""
    with closing(connect(made.server, database=made.schema)) as session, session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def up(made: Mirrored) -> Mirrored:
    made.expand()
    made.fill(made.mirror())
    return made


def test_b16_the_trigger_matches_as_the_backfill_does(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, status VARCHAR(20) COLLATE utf8mb4_unicode_ci NULL)"
    known = ValueMap((("done", "3"), ("open", "1")))
    made = up(mirrored(primary, schema, ddl, (new_column("state", "tinyint"),), Mapping("state", "status", known)))
    says(made, "INSERT INTO t (id, status) VALUES (1,'done'),(2,'DONE'),(3,'done '),(4,'dóne'),(7,'open'),(8,' open')")
    assert made.all("state") == [3, None, None, None, 1, None]
    assert made.all(made.relation().mappings[0].mismatch_class(cell, "old-is-truth")).count("unmapped") == 4


def test_b18_a_value_that_no_mapping_knows_leaves_the_partner_and_is_named(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, sev VARCHAR(10) NULL); INSERT INTO t VALUES (1, 'low')"
    known, back = ValueMap((("low", "1"), ("high", "9"))), ValueMap((("1", "low"), ("9", "high")))
    made = up(mirrored(primary, schema, ddl, (new_column("n", "tinyint"),), Mapping("n", "sev", known, back)))
    says(made, "UPDATE t SET sev = 'urgent'", "INSERT INTO t (id, n) VALUES (2, 5)")
    assert made.all("sev, n") == [("urgent", 1), (None, 5)]
    assert made.all(made.relation().pairs[0].mismatch_class(cell, "old-is-truth")) == ["unmapped", "unmapped"]


def test_b20_the_trigger_reads_the_label_and_never_the_position(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, choice ENUM('0','1','2') NOT NULL)"
    made = up(
        mirrored(
            primary,
            schema,
            ddl,
            (new_column("n", "tinyint"),),
            Mapping("n", "choice", Copy(), Expression("CAST(n AS CHAR)")),
        )
    )
    says(made, "INSERT INTO t (id, choice) VALUES (1,'0'),(2,'1'),(3,'2'),(4,'1')", "UPDATE t SET n = 0 WHERE id = 3")
    assert made.all("choice, n") == [("0", 0), ("1", 1), ("0", 0), ("1", 1)]


def test_b28_b34_moments_that_are_none_cost_the_application_nothing(primary: Server, schema: str) -> None:
    ddl = f"{RAW}; CREATE TABLE t (id INT PRIMARY KEY, dt DATETIME NOT NULL DEFAULT '0000-00-00 00:00:00')"
    seconds = "FROM_UNIXTIME(TIMESTAMPDIFF(SECOND, '1970-01-01', dt))"
    made = mirrored(
        primary,
        schema,
        ddl,
        (new_column("ts", "timestamp"), new_column("c", "datetime")),
        derived("ts", seconds),
        Mapping("c", "dt", Copy(), Copy()),
    )
    made.session.execute(RAW)
    made = up(made)
    zone = "SET SESSION sql_mode = '', time_zone = '+02:00'"
    says(
        made,
        zone,
        "INSERT INTO t (id) VALUES (1)",
        "INSERT INTO t (id, dt) VALUES (2, '2024-02-00')",
        "INSERT INTO t (id, dt) VALUES (3, '2026-03-29 02:30:00')",  # B34: an hour that some zones do not have
    )
    assert made.all("CAST(c AS CHAR), UNIX_TIMESTAMP(ts)") == [
        (None, None),
        (None, None),
        ("2026-03-29 02:30:00", 1774751400),
    ]


def test_b29_ten_o_clock_from_a_session_at_plus_two(primary: Server, schema: str) -> None:
    rule = derived("n", "'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP(sent) SECOND")
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, sent TIMESTAMP NULL)"
    made = up(mirrored(primary, schema, ddl, (new_column("n", "datetime"),), rule))
    for key, zone, hour in ((1, "+00:00", 10), (2, "+02:00", 12), (3, "-08:00", 2)):
        says(made, f"SET time_zone = '{zone}'", f"INSERT INTO t (id, sent) VALUES ({key}, '2026-07-01 {hour}:00:00')")
    assert made.all("CAST(n AS CHAR)") == ["2026-07-01 10:00:00"] * 3


def test_b32_the_trigger_never_rounds_into_the_next_year(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, issued DATETIME(6) NOT NULL)"
    columns = (new_column("n", "datetime"), new_column("cut", "datetime"))
    rule = derived("cut", "issued - INTERVAL MICROSECOND(issued) MICROSECOND")
    made = up(mirrored(primary, schema, ddl, columns, Mapping("n", "issued", Copy(), Copy()), rule))
    says(made, "INSERT INTO t (id, issued) VALUES (1,'2026-12-31 23:59:59.600000'),(3,'2026-01-01')")
    assert made.all("n IS NULL, YEAR(cut)") == [(1, 2026), (0, 2026)]


@pytest.mark.parametrize("mode", ["", "STRICT_ALL_TABLES"])
def test_b35_b37_b40_texts_and_sums_that_cannot_be_computed_raise_nothing(
    primary: Server, schema: str, mode: str
) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, body TEXT, amount DOUBLE, qty INT UNSIGNED, sold INT UNSIGNED)"
    columns = (
        new_column("j", "json"),
        new_column("cents", "bigint"),
        new_column("rest", "int"),
        new_column("each", "int"),
    )
    cents = "ROUND(CAST(CAST(amount AS CHAR) AS DECIMAL(20,6)) * 100)"
    made = up(
        mirrored(
            primary,
            schema,
            ddl,
            columns,
            derived("j", "CAST(body AS JSON)"),
            derived("cents", cents),
            derived("rest", "qty - sold"),
            derived("each", "qty DIV sold"),
        )
    )
    says(
        made,
        f"SET SESSION sql_mode = '{mode}'",
        "INSERT INTO t (id, body, amount, qty, sold) VALUES (1, '{bad', 1.005, 1, 2), (2, '{\"a\": 1}', -0.025, 5, 0)",
        "UPDATE t SET body = '' WHERE id = 2",
    )
    assert made.all("CAST(j AS CHAR), cents, rest, `each`") == [(None, 101, -1, 0), ('{"a": 1}', -3, 5, None)]


def test_b51_the_mirror_runs_last_and_says_so_when_it_does_not(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, e VARCHAR(40) NOT NULL)"
    made = mirrored(primary, schema, ddl, (new_column("n", "varchar(40)"),), Mapping("n", "e", Copy(), Copy()))
    normal = "BEFORE INSERT ON t FOR EACH ROW SET NEW.e = LOWER(TRIM(NEW.e))"
    script(primary, f"CREATE TRIGGER zz_norm {normal}", schema)
    made = up(made)
    says(made, "INSERT INTO t (id, e) VALUES (1, '  Ann@X.test ')")
    assert made.all("e, n") == [("ann@x.test", "ann@x.test")]
    script(primary, f"DROP TRIGGER zz_norm; CREATE TRIGGER zz_norm {normal}", schema)
    facts = judge_mirror(made.shape(), "r", made.relation())
    assert dict(facts.parts) == {Part.INSERT: Presence.CHANGED, Part.UPDATE: Presence.PRESENT}
    assert "zz_norm runs after ours" in facts.problem


def test_b52_an_insert_that_worked_works_and_is_cut_by_the_rule(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, title VARCHAR(40) NOT NULL)"
    columns = (new_column("n", "varchar(8)"), new_column("whole", "varchar(8)"))
    made = up(mirrored(primary, schema, ddl, columns, derived("n", "LEFT(title, 8)"), derived("whole", "title")))
    says(made, RAW, "INSERT INTO t (id, title) VALUES (3, 'a title of some length')")
    assert made.all("title, CONCAT('[', n, ']'), whole") == [("a title of some length", "[a title ]", None)]


def test_b54_both_arms_of_an_upsert_and_a_replace_are_mirrored(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, qty INT NOT NULL); INSERT INTO t VALUES (1,1),(2,2)"
    made = mirrored(
        primary,
        schema,
        ddl,
        (new_column("n", "int"), new_column("hint", "varchar(9)")),
        Mapping("n", "qty", Expression("qty * 10"), Expression("n DIV 10")),
    )
    made = up(made)
    says(
        made,
        "UPDATE t SET hint = 'keep'",
        "INSERT INTO t (id, qty) VALUES (1, 5) ON DUPLICATE KEY UPDATE qty = VALUES(qty)",
        "REPLACE INTO t (id, qty) VALUES (2, 7)",
        "INSERT INTO t (id, qty) VALUES (3, 3)",
    )
    assert made.all("n, hint") == [(50, "keep"), (70, None), (30, None)], "REPLACE resets what only the new one writes"


def driven(primary: Server, schema: str) -> tuple[Mirrored, Site, tuple[TableName, ...]]:
    """A mirrored column ``n`` of ``a``, put up by the driver."""
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL); INSERT INTO t VALUES (1, 10), (2, 20)"
    made = mirrored(primary, schema, ddl, (new_column("n", "int"),), Mapping("n", "a", Copy(), Copy()))
    made.expand()
    return made, site_on(primary, made.contract, id="r"), (made.contract.table,)


def test_b55_triggers_go_before_their_columns_and_the_application_sees_no_error(primary: Server, schema: str) -> None:
    made, site, family = driven(primary, schema)
    table = made.contract.table
    driver, native = TriggerDriver(site), NativeDdlDriver(site)
    for event in ("update", "insert"):
        driver.apply(InstallTrigger(table=table, event=event, family=family), Beats())  # type: ignore[arg-type] # both are
    remove, drop = (
        RemoveMirror(table=table, accepted=(), family=family),
        DropColumns(table=table, columns=made.contract.columns, family=family),
    )
    with Application(primary, table) as application:
        for _ in range(2):
            # The second time is what a rollback does that was killed behind either step.
            assert driver.apply(remove, Beats()).result is Result.DONE
            assert native.apply(drop, Beats()).result is Result.DONE
    assert application.errors == []
    assert application.statements > 0


def test_b57_what_was_written_while_the_triggers_went_up_corresponds_after_one_fill(
    primary: Server, schema: str
) -> None:
    made, site, family = driven(primary, schema)
    stop, errors, written = threading.Event(), list[Exception](), list[int]()

    def write() -> None:
        with closing(connect(primary, database=schema)) as session, session.cursor() as cursor:
            for key in range(100, 100_000):
                if stop.is_set():
                    return
                try:
                    cursor.execute(f"INSERT INTO t (id, a) VALUES ({key}, 1)")
                    cursor.execute(f"UPDATE t SET a = 2 WHERE id IN ({key}, {key - 40})")
                except pymysql.MySQLError as error:
                    errors.append(error)
                    return
                written.append(key)

    writer = threading.Thread(target=write)
    writer.start()
    driver = TriggerDriver(site)
    try:
        for event in ("update", "insert"):
            driver.apply(InstallTrigger(table=family[0], event=event, family=family), Beats())  # type: ignore[arg-type] # both are
        made.fill(made.relation())
    finally:
        stop.set()
        writer.join()
    assert errors == [], "the application was told no"
    assert len(written) > 10, "nobody wrote meanwhile"
    assert sql(primary, f"SELECT COUNT(*) FROM {schema}.t WHERE NOT (n <=> a)") == [(0,)]


def test_b58_a_mirror_of_which_somebody_dropped_or_changed_a_part_is_seen(primary: Server, schema: str) -> None:
    made, site, family = driven(primary, schema)
    driver = TriggerDriver(site)
    insert = InstallTrigger(table=family[0], event="insert", family=family)
    driver.apply(insert, Beats())
    name = next(t.name for t in made.shape().triggers)
    script(primary, f"DROP TRIGGER `{name}`", schema)
    assert dict(judge_mirror(made.shape(), "r", made.relation()).parts)[Part.INSERT] is Presence.ABSENT
    script(primary, f"CREATE TRIGGER `{name}` BEFORE INSERT ON t FOR EACH ROW SET NEW.n = 0", schema)
    assert dict(judge_mirror(made.shape(), "r", made.relation()).parts)[Part.INSERT] is Presence.CHANGED
    assert driver.observe(insert, Beats()) is Seen.PARTIAL


def test_b100_the_mirror_says_the_same_to_a_session_of_any_mode(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, body VARCHAR(40) NOT NULL)"
    slash = ValueMap((('back\\slash "dq"', "bs"), ("it's", "q")))
    columns = (new_column("tag", "varchar(50)"), new_column("m", "varchar(9)"))
    made = up(
        mirrored(primary, schema, ddl, columns, derived("tag", "CONCAT('<', body, '>')"), Mapping("m", "body", slash))
    )
    odd = "SET SESSION sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES'"
    says(made, odd, """INSERT INTO t (id, body) VALUES (1, 'plain'), (2, 'back\\slash "dq"'), (3, 'it''s')""")
    assert made.all("tag, m") == [("<plain>", None), ('<back\\slash "dq">', "bs"), ("<it's>", "q")]


def test_b103_percent_signs_are_no_format_codes_in_a_trigger(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, o VARCHAR(20), d DATE, `100%` INT)"
    columns = (new_column("has", "int"), new_column("month", "varchar(9)"), new_column("p", "int"))
    made = up(
        mirrored(
            primary,
            schema,
            ddl,
            columns,
            derived("has", "IF(o LIKE '%s%', 1, 0)"),
            derived("month", "DATE_FORMAT(d, '%Y-%m')"),
            derived("p", "`100%` % 7"),
        )
    )
    says(made, "INSERT INTO t (id, o, d, `100%`) VALUES (1, 'as', '2026-05-01', 10), (2, 'b', NULL, NULL)")
    assert made.all("has, month, p") == [(1, "2026-05", 3), (0, None, None)]
