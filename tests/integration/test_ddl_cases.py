"""Public bug reports and hard cases of expands, each in the words of what must come out; the case's number is named."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from orchestrator.app.wiring import App, Surroundings, build
from orchestrator.errors import RolloutError
from orchestrator.model.contract import TableName
from orchestrator.model.step import Compare
from orchestrator.mysql.look.dependents import read_dependents
from orchestrator.mysql.session import Session
from orchestrator.runbook.load import parse
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import ROOT, Account
from tests.support.log import general_log, said
from tests.support.rows import ToldBeat
from tests.support.servers import connect, script, sql, wait_caught_up
from tests.support.state import settings_of
from tests.support.world import Silent

HEAD = """\
apiVersion: rollout/v1
name: {name}
table: {{schema: {schema}, name: "{table}"}}
contract:
{contract}
checks: {{max_wait: 1s, disk: {{from: {{none: a test}}}}}}
replicas: {{none: a test}}
{more}
"""


@dataclass
class Ground:
    """One table in a schema of its own, and what a contract does to it."""

    server: Server
    schema: str

    def make(self, text: str) -> None:
        script(self.server, text, self.schema)

    @contextmanager
    def app(self, table: str, contract: str, more: str = "") -> Iterator[App]:
        name = f"c{uuid.uuid4().hex[:8]}"
        text = HEAD.format(name=name, schema=self.schema, table=table, contract=contract, more=more)
        app = build(parse(text, "case.yaml"), settings_of(self.server), Surroundings(Silent()))
        try:
            yield app
        finally:
            app.close()

    def seen(self) -> list[str]:
        """Every table's definition and rows, and what is left of ours."""
        tables = [row[0] for row in sql(self.server, f"SHOW FULL TABLES FROM {self.schema} WHERE Table_type <> 'VIEW'")]
        made = [sql(self.server, f"SHOW CREATE TABLE {self.schema}.`{t}`")[0][1] for t in tables]
        sums = [str(sql(self.server, f"CHECKSUM TABLE {self.schema}.`{t}`")) for t in tables]
        scratch = sql(self.server, "SHOW DATABASES LIKE '%scratch%'")
        return [*made, *sums, str(scratch)]

    def refused(self, table: str, contract: str, more: str = "") -> tuple[set[str], str]:
        """The plan's rules, and what ``next`` says; nothing is altered by it."""
        before = self.seen()
        with self.app(table, contract, more) as app:
            rules = {p.rule for p in app.planner.plan("ddl").problems}
            with pytest.raises(RolloutError) as caught:
                app.commands.next("ddl")
        assert self.seen() == before
        return rules, f"{caught.value.seen} {caught.value.next}"

    def passes(self, table: str, contract: str, more: str = "") -> None:
        with self.app(table, contract, more) as app:
            assert app.planner.plan("ddl").problems == ()
            app.commands.next("ddl")
            assert app.planner.present().state.value == "done"


AS_ADVISED = "mappings: [{{new: uid_n, forward: {{sql: '{}'}}}}]"


@pytest.fixture
def ground(pair: Pair, schema: str) -> Iterator[Ground]:
    yield Ground(pair.primary, schema)
    wait_caught_up(pair)


def test_b44_a_partitioned_table_is_refused_at_plan_with_both_reasons_and_nothing_is_altered(ground: Ground) -> None:
    ground.make(
        "CREATE TABLE host (id INT PRIMARY KEY);"
        " CREATE TABLE metric (id INT NOT NULL, day DATE NOT NULL, host VARCHAR(10),"
        " PRIMARY KEY (id, day)) PARTITION BY RANGE COLUMNS(day) (PARTITION p1 VALUES LESS THAN ('2026-01-01'),"
        " PARTITION pmax VALUES LESS THAN (MAXVALUE)); INSERT INTO metric VALUES (1, '2025-12-31', 'a')"
    )
    column = "  columns: [{name: host_id, type: int}]\n"
    more = column + (
        "  indexes: [{name: uq_host, columns: [host_id], unique: true}]\n"
        "  foreign_keys: [{name: fk_host, columns: [host_id], references: host(id)}]"
    )
    rules, said = ground.refused("metric", more)
    assert {"partitioned-unique", "partitioned-foreign-key"} <= rules
    assert "1503" in said
    assert "1506" in said
    ground.passes("metric", column)


def test_b45_a_generated_target_is_refused_and_virtual_is_offered(ground: Ground) -> None:
    ground.make("CREATE TABLE g (id INT PRIMARY KEY, o INT); INSERT INTO g VALUES (1, 2)")
    stored = '  columns: [{name: n, type: int, generated: "o * 2", stored: true}]'
    rules, said = ground.refused("g", stored)
    assert rules == {"rebuild-not-allowed"}
    assert "VIRTUAL, which is INSTANT" in said
    mapping = "mappings: [{old: o, new: n, forward: {sql: o * 2}, backward: {sql: n DIV 2}}]"
    rules, said = ground.refused("g", stored.replace(", stored: true", ""), mapping)
    assert "generated-mapped" in rules
    assert "needs no backfill" in said
    ground.passes("g", stored.replace(", stored: true", ""))
    assert sql(ground.server, f"SELECT n FROM {ground.schema}.g") == [(4,)]


POSITIVE = "  columns: [{name: n, type: int}]\n  checks: [{name: n_positive, sql: n > 0}]"
FOLLOWS = "mappings: [{{old: o, new: n, forward: {{{}}}, follows: true}}]"
VALUES = "values: {'-1': a, '6': c}, null_value: b"
BOTH_WAYS = "mappings: [{old: o, new: n, forward: copy, backward: copy}]"


def verified(app: App) -> str:
    """What verify says of every row now, without a beat that could stop it."""
    step = Compare(table=app.parts.runbook.table, walk=1, purpose="verify", relation="old-is-truth", target_time_s=0.1)
    return app.parts.drivers[step.kind].apply(step, ToldBeat(epoch=0)).note


@pytest.mark.parametrize(
    ("check", "mapping", "broken"),
    [
        ("n > 0", BOTH_WAYS, "by '-1' in 2 rows (keys 1 4)"),
        ("n + 1 < o OR o < 0", FOLLOWS.format("sql: ABS(o) - 1"), "by '5, 6' in 1 rows (keys 2)"),
        ("n IN ('a', 'b')", FOLLOWS.format(VALUES), "by 'c' in 1 rows (keys 2)"),
    ],
)
def test_b46_the_rows_that_would_break_a_check_are_found_before_anything_is_added(
    ground: Ground, check: str, mapping: str, broken: str
) -> None:
    """B46: dry-run the expression against the CHECK; REFUSE with keys."""
    ground.make("CREATE TABLE c (id INT PRIMARY KEY, o INT); INSERT INTO c VALUES (1, -1), (2, 6), (3, NULL), (4, -1)")
    kind = "varchar(9)" if "'" in check else "int"
    contract = f'  columns: [{{name: n, type: {kind}}}]\n  checks: [{{name: n_right, sql: "{check}"}}]'
    rules, said = ground.refused("c", contract, mapping)
    assert "check-broken" in rules
    assert f"CHECK n_right ({check}) would be broken {broken}" in said


def test_b46_a_check_is_not_enforced_while_the_rollout_lives_and_verify_proves_it(ground: Ground) -> None:
    """B46: add the constraint only after verify. Nobody is refused by it before, and verify names who breaks it."""
    ground.make("CREATE TABLE c (id INT PRIMARY KEY, o INT); INSERT INTO c VALUES (1, 1), (2, NULL)")
    with ground.app("c", POSITIVE, f"{BOTH_WAYS}\nphases: {{shadow_write: {{soak: 0s}}}}") as app:
        for phase in ("ddl", "backfill", "shadow-write"):
            app.commands.next(phase)
        assert "all hold" in verified(app)
        ground.make("UPDATE c SET o = -5 WHERE id = 2")
        assert sql(ground.server, f"SELECT n FROM {ground.schema}.c") == [(1,), (-5,)]
        assert "check:n_positive: 1 (key 2)" in verified(app)
    (made,) = sql(ground.server, f"SHOW CREATE TABLE {ground.schema}.c")
    assert "NOT ENFORCED" in made[1]


def test_b46_a_check_that_cannot_be_tried_is_said_and_hides_no_value(ground: Ground) -> None:
    """B46: and what one row makes an error is no row that holds."""
    ground.make("CREATE TABLE c (id INT PRIMARY KEY, o VARCHAR(9)); INSERT INTO c VALUES (1, '{')")
    contract = (
        "  columns: [{name: n, type: varchar(9)}]\n"
        "  checks: [{name: of_o, sql: \"JSON_EXTRACT(o, '$.a') > n\"}, {name: of_n, sql: n <> 'y'}]"
    )
    rules, said = ground.refused("c", contract, FOLLOWS.format("values: {x: seen}"))
    assert {"check-untried", "unmapped-value"} <= rules
    assert "3141" in said


def test_b46_a_check_over_a_moment_is_tried_as_the_server_would(ground: Ground) -> None:
    ground.make("CREATE TABLE c (id INT PRIMARY KEY, at TIMESTAMP NULL); INSERT INTO c VALUES (1, '2026-01-01')")
    contract = (
        "  columns: [{name: n, type: int, default: 3}]\n  checks: [{name: k, sql: \"at > '2026-02-01' OR n > 3\"}]"
    )
    rules, said = ground.refused("c", contract)
    assert rules == {"check-broken"}
    assert "by '2026-01-01 00:00:00, 3' in 1 rows (keys 1)" in said


def test_b46_a_check_is_declared_and_refuses_nobody(ground: Ground) -> None:
    ground.make("CREATE TABLE c (id INT PRIMARY KEY, o INT); INSERT INTO c VALUES (1, -1)")
    ground.passes("c", "  columns: [{name: n, type: int}]\n  checks: [{name: n_positive, sql: n > 0}]")
    ground.make("UPDATE c SET n = -5")
    (made,) = sql(ground.server, f"SHOW CREATE TABLE {ground.schema}.c")
    assert "NOT ENFORCED" in made[1]


def test_b47_a_not_null_column_without_default_is_refused(ground: Ground) -> None:
    ground.make("CREATE TABLE t (id INT PRIMARY KEY, o INT)")
    rules, said = ground.refused("t", "  columns: [{name: n, type: int, null: false}]")
    assert "new-column-not-null" in rules
    assert "leave out null: false" in said


MADE = "{name: created, type: datetime(3), null: false, default: now(3)}"


@pytest.mark.parametrize(
    ("contract", "rule"),
    [
        (f"  changes: [{MADE}]\n  allow_rebuild: small", "not-a-widening"),
        (f"  columns: [{MADE}]", "exists-otherwise"),
    ],
)
def test_b48_null_to_not_null_is_refused_with_the_count_and_no_value_is_invented(
    ground: Ground, contract: str, rule: str
) -> None:
    """B48: REFUSE while NULLs exist (count shown); never invent values. However it is written; and without NULLs too:
    an application that writes one would get 1048."""
    ground.make("CREATE TABLE t (id INT PRIMARY KEY, created DATETIME(3) NULL)")
    ground.make("INSERT INTO t VALUES (1, NOW(3)), (2, NULL), (7, NULL)")
    rules, _ = ground.refused("t", contract)
    assert {rule, "null-in-not-null"} <= rules
    with ground.app("t", contract, "phases: {ddl: {engine: gh-ost}}") as app:
        told = [p for p in app.planner.plan("ddl").problems if p.rule == "null-in-not-null"]
    assert [p.seen for p in told] == [
        "column created is NULL in 2 rows (keys 2 7), and the contract says NOT NULL",
    ]
    assert "null_value" in told[0].next
    ground.make("DELETE FROM t WHERE created IS NULL")
    rules, _ = ground.refused("t", contract)
    assert rule in rules
    assert "null-in-not-null" not in rules


def test_b48_the_way_that_is_offered_says_what_null_becomes(ground: Ground) -> None:
    """B48: a new column that is NOT NULL, filled by a mapping."""
    ground.make("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) NULL); INSERT INTO t VALUES (1, NULL), (2, 'x')")
    column = "  columns: [{name: w, type: varchar(9), null: false, default: none}]"
    values = "values: {x: x}, null_value: none, unmapped: keep"
    with ground.app("t", column, f"mappings: [{{old: v, new: w, forward: {{{values}}}, follows: true}}]") as app:
        app.commands.next("ddl")
        app.commands.next("backfill")
    assert sql(ground.server, f"SELECT v, w FROM {ground.schema}.t ORDER BY id") == [(None, "none"), ("x", "x")]


def test_b74_a_rebuild_is_planned_with_the_size_of_the_servers_online_log(ground: Ground) -> None:
    """B74: plan warns for rebuilds on busy tables, with what this server has."""
    ground.make("CREATE TABLE t (id INT PRIMARY KEY) ROW_FORMAT=COMPRESSED")
    contract = "  columns: [{name: n, type: int}]\n  allow_rebuild: it is small"
    with ground.app("t", contract, "phases: {ddl: {engine: native}}") as app:
        plan = app.planner.plan("ddl")
    assert [b.have.partition(":")[0] for b in plan.budgets if b.name == "online log"] == ["128 MiB for each"]
    assert plan.problems == ()


LINES = """CREATE TABLE item (id INT NOT NULL PRIMARY KEY, code INT NOT NULL, UNIQUE KEY (code));
CREATE TABLE line (id INT NOT NULL PRIMARY KEY, item_code INT NULL, CONSTRAINT line_item FOREIGN KEY (item_code)
  REFERENCES item (code) ON UPDATE CASCADE ON DELETE SET NULL);
INSERT INTO item VALUES (1, 10), (2, 20), (3, 30); INSERT INTO line VALUES (1, 10), (2, 20), (3, 30)"""
CASCADES = "UPDATE item SET code = 11 WHERE id = 1; DELETE FROM item WHERE id = 2"
ITEM_N = "  columns: [{name: item_n, type: int}]"
MIRRORED = "mappings: [{old: item_code, new: item_n, forward: copy, follows: true}]\nphases: {shadow_write: {soak: 0s}}"


@contextmanager
def cascades_fire_triggers(server: Server) -> Iterator[None]:
    script(server, "SET GLOBAL enable_cascade_triggers = ON")
    try:
        yield
    finally:
        script(server, "SET GLOBAL enable_cascade_triggers = OFF")


def test_b62_a_column_that_a_cascade_changes_is_refused_before_anything_is_added(ground: Ground) -> None:
    """B62: detect cascading FKs on source columns; REFUSE; read enable_cascade_triggers, not the version (9.7)."""
    ground.make(LINES)
    rules, said = ground.refused("line", ITEM_N, MIRRORED)
    assert rules == {"cascade-unseen"}
    assert "line_item can change item_code" in said
    assert "enable_cascade_triggers is OFF" in said
    assert "SET PERSIST enable_cascade_triggers = ON" in said
    with ground.app("line", ITEM_N, MIRRORED.replace("{soak: 0s}", "{driver: flag, soak: 0s}")) as app:
        assert "a cascade is no statement of theirs" in next(
            p.seen for p in app.planner.plan("ddl").problems if p.rule == "cascade-unseen"
        )


def test_b62_with_the_rule_waived_verify_finds_what_cascades_did_and_the_sweep_fills_it(ground: Ground) -> None:
    """B62: repair + verify. Verify after the traffic must fail with 2 rows when nothing repaired them."""
    ground.make(LINES)
    waiver = "\nwaivers: [{rule: cascade-unseen, reason: swept before every stage}]"
    with ground.app("line", ITEM_N, MIRRORED + waiver) as app:
        for phase in ("ddl", "backfill", "shadow-write"):
            app.commands.next(phase)
        ground.make(CASCADES)
        assert "2 of 3 rows are wrong" in verified(app)
        app.commands.repair()
        assert "all hold" in verified(app)
    assert sql(ground.server, f"SELECT item_n FROM {ground.schema}.line ORDER BY id") == [(11,), (None,), (30,)]


def test_b62_where_cascades_fire_triggers_in_every_session_the_mirror_sees_them(ground: Ground) -> None:
    """B62: 9.7 with the variable ON globally and in every writer session: PASS, and then 0 rows are wrong."""
    ground.make(LINES)
    old = connect(ground.server)
    with cascades_fire_triggers(ground.server):
        _, said = ground.refused("line", ITEM_N, MIRRORED)
        assert f"enable_cascade_triggers is ON, but OFF in the session {old.thread_id()} of rollout@" in said
        old.close()
        with ground.app("line", ITEM_N, MIRRORED) as app:
            for phase in ("ddl", "backfill", "shadow-write"):
                app.commands.next(phase)
            ground.make(CASCADES)
            assert "all hold" in verified(app)
    assert sql(ground.server, f"SELECT item_n FROM {ground.schema}.line ORDER BY id") == [(11,), (None,), (30,)]


def test_b97_names_with_blanks_quotes_and_percent_signs_walk_through_ddl_backfill_and_mirror(ground: Ground) -> None:
    name, quoted = "we ird-order`s%s", "`we ird-order``s%s`"
    ground.make(
        f"CREATE TABLE {quoted} (`id#` INT PRIMARY KEY, `key` VARCHAR(10), `100%` VARCHAR(20), `a b` INT);"
        f" INSERT INTO {quoted} VALUES (1, 'k', '%s', 1), (2, 'k', '50% x', 2)"
    )
    contract = '  columns: [{name: rank, type: int}]\n  indexes: [{name: in-dex, columns: ["`rank`"]}]'
    more = """mappings: [{new: rank, forward: {sql: "LENGTH(`100%`)"}, follows: true}]
phases: {shadow_write: {soak: 0s}, rollback: {quiet: 0s}}
applications: {old: ["UPDATE `we ird-order``s%s` SET `100%` = ? WHERE `id#` = ?"]}"""
    with ground.app(name, contract, more) as app:
        for phase in ("ddl", "backfill", "shadow-write"):
            app.commands.next(phase)
        ground.make(f"INSERT INTO {quoted} VALUES (3, 'k', '100%', 3, NULL)")
        found = sql(ground.server, f"SELECT `rank` FROM {ground.schema}.{quoted} ORDER BY `id#`")
        app.commands.rollback("", ())
    assert [rank for (rank,) in found] == [2, 5, 4]


@pytest.mark.parametrize("engine", ["auto", "gh-ost"])
def test_b61_gh_ost_is_refused_up_front_for_a_table_with_a_trigger_with_the_other_choice(
    ground: Ground, engine: str
) -> None:
    ground.make(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.v = 1"
    )
    contract = "  allow_rebuild: it is small\n  changes: [{name: v, type: bigint}]"
    _, said = ground.refused("t", contract, f"phases: {{ddl: {{engine: {engine}}}}}")
    assert "triggers (tr)" in said
    assert "native" in said or "a new column with a mapping" in said


def test_b64_a_key_that_cannot_work_is_refused_before_the_column_is_added(ground: Ground) -> None:
    ground.make(
        "CREATE TABLE owner (id VARCHAR(191) COLLATE utf8mb4_unicode_ci NOT NULL PRIMARY KEY);"
        " CREATE TABLE team (id INT PRIMARY KEY, k INT NULL, KEY (k));"
        " CREATE TABLE other (id INT PRIMARY KEY, o VARCHAR(191) COLLATE utf8mb4_unicode_ci NULL,"
        " CONSTRAINT fk_owner FOREIGN KEY (o) REFERENCES owner(id)); CREATE TABLE task (id INT PRIMARY KEY)"
    )
    _, said = ground.refused(
        "task",
        "  columns: [{name: ownerId, type: varchar(191)}, {name: grp, type: int}]\n"
        "  indexes: [{name: o_idx, columns: [ownerId]}, {name: g_idx, columns: [grp]}]\n"
        "  foreign_keys: [{name: fk_owner, columns: [ownerId], references: owner(id)},"
        " {name: fk_team, columns: [grp], references: team(k)}]",
    )
    for reason in ("1826", "3780", "6125"):
        assert reason in said


def test_b67_without_row_versions_left_instant_is_refused_and_no_rebuild_happens_in_silence(ground: Ground) -> None:
    ground.make("CREATE TABLE wide (id INT PRIMARY KEY, base INT); INSERT INTO wide VALUES (1, 1)")
    where = f"{ground.schema}/wide"
    read = "SELECT TOTAL_ROW_VERSIONS FROM information_schema.INNODB_TABLES WHERE NAME = %s"
    limit = 255
    for n in range(limit):
        word = "ADD COLUMN c INT NULL" if n % 2 == 0 else "DROP COLUMN c"
        ground.make(f"ALTER TABLE wide {word}, ALGORITHM=INSTANT")
    assert sql(ground.server, read, (where,)) == [(limit,)]
    rules, said = ground.refused("wide", "  columns: [{name: extra_n, type: int}]")
    assert "rebuild-not-allowed" in rules
    assert f"all {limit} row versions are used" in said or f"{limit} of {limit} used" in said
    ground.passes(
        "wide",
        "  allow_rebuild: small\n  columns: [{name: extra_n, type: int}]",
        "phases: {ddl: {engine: native}}",
    )
    assert sql(ground.server, read, (where,)) == [(0,)]


def test_b68_a_fulltext_table_is_refused_with_the_reason_and_gh_ost_is_offered(ground: Ground) -> None:
    ground.make(
        "CREATE TABLE art (id INT PRIMARY KEY, body TEXT, FULLTEXT KEY (body)); INSERT INTO art VALUES (1, 'x')"
    )
    rules, said = ground.refused("art", "  columns: [{name: lang_n, type: char(2)}]")
    assert rules == {"rebuild-not-allowed"}
    assert "FULLTEXT" in said
    assert "gh-ost" in said
    ground.make("CREATE TABLE packed (id INT PRIMARY KEY, body TEXT) ROW_FORMAT=COMPRESSED")
    _, said = ground.refused("packed", "  columns: [{name: lang_n, type: char(2)}]")
    assert "COMPRESSED" in said


def test_b69_row_size_and_key_length_are_refused_with_both_reasons_and_the_scratch_copy_is_removed(
    ground: Ground,
) -> None:
    ground.make("CREATE TABLE prof (id INT PRIMARY KEY, nick VARCHAR(1000), a VARCHAR(7500), b VARCHAR(7500))")
    rules, said = ground.refused(
        "prof",
        "  columns: [{name: bio_n, type: varchar(500)}]\n  indexes: [{name: ix_bio, columns: [nick]}]",
    )
    assert "index-too-long" in rules
    assert "1071" in said
    _, said = ground.refused("prof", "  columns: [{name: bio_n, type: varchar(500)}]")
    assert "1118" in said


@pytest.mark.parametrize("engine", ["native", "gh-ost"])
def test_b70_duplicates_are_refused_with_groups_and_no_row_goes(ground: Ground, engine: str) -> None:
    ground.make(
        "CREATE TABLE usr (id INT PRIMARY KEY, mail VARCHAR(40) NULL); INSERT INTO usr VALUES (1, 'a@x.test'),"
        "(2, 'A@x.test'), (3, 'a@x.test'), (4, 'b@x.test'), (5, 'b@x.test'), (6, NULL), (7, NULL)"
    )
    contract = "  allow_rebuild: small\n  indexes: [{name: uq_mail, columns: [mail], unique: true}]"
    _, said = ground.refused("usr", contract, f"phases: {{ddl: {{engine: {engine}}}}}")
    assert "5 rows" in said
    assert "in 2 groups" in said
    assert re.search(r"3 rows with \(a@x\.test\), keys 1 … 3", said, re.IGNORECASE)


def test_b72_a_default_that_is_another_value_each_time_is_refused(ground: Ground) -> None:
    ground.make("CREATE TABLE token (id INT PRIMARY KEY, who INT); INSERT INTO token VALUES (1, 1)")
    rules, said = ground.refused("token", "  columns: [{name: uid_n, type: char(36), default: {sql: UUID()}}]")
    assert "default-unsafe" in rules
    assert "A mapping refuses UUID() too" in said
    assert "SHA2(id, 256)" in said
    with ground.app("token", "  columns: [{name: uid_n, type: char(64)}]", AS_ADVISED.format("UUID()")) as app:
        assert "expression-of-the-row" in {p.rule for p in app.planner.plan("ddl").problems}
    with ground.app("token", "  columns: [{name: uid_n, type: char(64)}]", AS_ADVISED.format("SHA2(id, 256)")) as app:
        assert app.planner.plan("ddl").problems == (), "what is advised is no dead end"


HUNG = (
    "ALTER TABLE t ADD COLUMN g INT AS (n * 2), ADD INDEX theirs ((n + 1)), ADD CONSTRAINT c CHECK (n > a);"
    "CREATE VIEW v AS SELECT * FROM t; CREATE PROCEDURE p() SELECT n FROM t;"
    "CREATE EVENT e ON SCHEDULE EVERY 1 YEAR DISABLE DO UPDATE t SET n = 1;"
    "CREATE TRIGGER o BEFORE INSERT ON other FOR EACH ROW UPDATE t SET n = 2 WHERE id = 1;"
    "CREATE VIEW harmless AS SELECT id AS n FROM t; CREATE PROCEDURE idle() SELECT a FROM t"
)
FREED = (
    "DROP VIEW v; DROP PROCEDURE p; DROP EVENT e; DROP TRIGGER o;"
    "ALTER TABLE t DROP CHECK c, DROP INDEX theirs, DROP COLUMN g"
)


def test_b45_b50_whatever_needs_a_column_that_goes_is_named_before_anything_is_taken_down(ground: Ground) -> None:
    """Views, routines, events and triggers of other tables (1356); generated columns (3108), functional indexes (3837)
    and CHECKs (3959)."""
    ground.make("CREATE TABLE t (id INT PRIMARY KEY, a INT); CREATE TABLE other (id INT PRIMARY KEY)")
    with ground.app("t", "  columns: [{name: n, type: int}]", "phases: {rollback: {ddl: drop}}") as app:
        app.commands.next("ddl")
        ground.make(HUNG)
        before, back = ground.seen(), " ".join(app.planner.plan_back("").remarks)
        with pytest.raises(RolloutError) as caught:
            app.commands.rollback("", ())
        assert ground.seen() == before
        named = [
            f"the {what} {ground.schema}.{name}" for what, name in (("view", "v"), ("procedure", "p"), ("event", "e"))
        ]
        named += ["the column g,", "the index theirs", "the CHECK c", f"the trigger {ground.schema}.o on other"]
        assert [x for x in named if x not in caught.value.seen or x not in back] == []
        assert "harmless" not in caught.value.seen
        assert "idle" not in caught.value.seen
        ground.make(FREED)
        app.commands.rollback("", ())
    assert "`n`" not in ground.seen()[1]


def test_b50_a_definition_that_this_account_may_not_read_is_told(ground: Ground) -> None:
    ground.make("CREATE TABLE t (id INT PRIMARY KEY); CREATE VIEW v AS SELECT * FROM t; CREATE PROCEDURE p() DO 1")
    blind = Account("blind", "", "SELECT, EXECUTE ON *.*")
    sql(ground.server, "CREATE USER blind IDENTIFIED BY ''", account=ROOT)
    try:
        sql(ground.server, f"GRANT SELECT, EXECUTE ON `{ground.schema}`.* TO blind", account=ROOT)
        with closing(Session(settings_of(ground.server, account=blind), role="test")) as session:
            found = read_dependents(session, TableName(ground.schema, "t"))
    finally:
        sql(ground.server, "DROP USER blind", account=ROOT)
    assert [str(d) for d in found] == [
        f"perhaps procedure {ground.schema}.p (this account may not read it: SHOW_ROUTINE)",
        f"perhaps view {ground.schema}.v (this account may not read it: SHOW VIEW)",
    ]


def test_a_default_expression_ends_exactly_as_the_contract_says(ground: Ground) -> None:
    ground.make("CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 1)")
    ground.passes(
        "t",
        "  columns:\n    - {name: meta, type: json, default: {sql: JSON_OBJECT()}, after: id}\n"
        "    - {name: twice, type: int, generated: a * 2}\n"
        "  indexes:\n    - {name: d_idx, columns: [a desc, id]}\n"
        "    - {name: twice_idx, columns: [twice], visible: false}",
    )
    ground.make("INSERT INTO t (id, a) VALUES (2, 5)")
    rows = sql(ground.server, f"SELECT id, CAST(meta AS CHAR), twice FROM {ground.schema}.t ORDER BY id")
    assert rows == [(1, None, 2), (2, "{}", 10)]


def test_an_index_that_is_shown_last_is_built_hidden_and_shown_when_all_else_is_there(ground: Ground) -> None:
    ground.make("CREATE TABLE p (id INT PRIMARY KEY); CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    contract = (
        "  columns: [{name: p_id, type: int}]\n"
        "  indexes: [{name: v_idx, columns: [v], visible: last}, {name: p_idx, columns: [p_id]}]\n"
        "  foreign_keys: [{name: p_fk, columns: [p_id], references: p(id)}]"
    )
    with general_log(ground.server):
        ground.passes("t", contract)
        told = said(ground.server)
    words = ("ADD COLUMN", "ADD INDEX `v_idx`", "ADD INDEX `p_idx`", "ADD CONSTRAINT", "ALTER INDEX `v_idx` VISIBLE")
    altered = [t for t in told if t.startswith("ALTER") and f"TABLE `{ground.schema}`.`t`" in t]
    assert [next(w for w in words if w in t) for t in altered] == list(words)
    assert [t for t in altered if "INVISIBLE" in t] == [altered[1]]
    ground.make("ALTER TABLE t ALTER INDEX v_idx INVISIBLE")
    with ground.app("t", contract) as app:
        ddl = next(s for s in app.planner.plan("ddl").stages if s.name == "ddl")
        assert [s.key for s in ddl.steps if "index" in s.key] == ["show-index:v_idx"]


def test_b97_names_with_backticks_blanks_and_percent_signs_are_quoted(ground: Ground) -> None:
    ground.make("CREATE TABLE `a``b 50%-x` (id INT PRIMARY KEY, `se lect` INT); INSERT INTO `a``b 50%-x` VALUES (1, 2)")
    ground.passes(
        "a`b 50%-x",
        '  columns: [{name: "o`rder %s", type: int, default: 5, null: false}]\n'
        '  indexes: [{name: "i %d`x", columns: ["`o``rder %s`", "`se lect` desc"], unique: true}]',
    )
    assert sql(ground.server, f"SELECT * FROM {ground.schema}.`a``b 50%%-x`", ()) == [(1, 2, 5)]


def test_b99_a_name_outside_the_plane_that_mysql_has_is_refused_when_it_is_read(ground: Ground) -> None:
    with pytest.raises(RolloutError) as caught, ground.app("u\U0001f600", "  columns: [{name: n, type: int}]"):
        pass
    assert "which no name can have" in caught.value.seen


def test_b100_the_servers_own_sql_mode_changes_nothing(ground: Ground) -> None:
    ground.make("CREATE TABLE q (id INT PRIMARY KEY, v VARCHAR(9)); INSERT INTO q VALUES (1, 'x')")
    ((mode,),) = sql(ground.server, "SELECT @@GLOBAL.sql_mode")
    script(ground.server, "SET GLOBAL sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'")
    try:
        ground.passes("q", '  columns: [{name: n, type: varchar(20), default: "it\'s a \\\\ back", null: false}]')
    finally:
        script(ground.server, f"SET GLOBAL sql_mode = '{mode}'")
    assert sql(ground.server, f"SELECT n FROM {ground.schema}.q") == [("it's a \\ back",)]


def test_b127_a_rollback_after_half_an_expand_ends_at_the_start_and_again_is_nothing(ground: Ground) -> None:
    ground.make("CREATE TABLE t (id INT PRIMARY KEY, v INT, keep INT); INSERT INTO t VALUES (1, 1, 1), (2, 1, 2)")
    before = ground.seen()
    contract = (
        "  columns: [{name: n, type: int}]\n  indexes: [{name: n_idx, columns: [n]},"
        " {name: v_uq, columns: [v, keep], unique: true}]"
    )
    with ground.app("t", contract, "phases: {rollback: {ddl: drop}}") as app:
        ground.make("UPDATE t SET keep = 1")
        with pytest.raises(RolloutError):
            app.commands.next("ddl")
        ground.make("UPDATE t SET keep = id")
        app.commands.rollback("", ())
        assert ground.seen() == before
        app.commands.rollback("", ())
    assert ground.seen() == before


def test_b143_errors_are_told_by_their_number_whatever_language_the_server_speaks(ground: Ground) -> None:
    ground.make("CREATE TABLE usr (id INT PRIMARY KEY, mail VARCHAR(9)); INSERT INTO usr VALUES (1, 'a'), (2, 'a')")
    script(ground.server, "SET GLOBAL lc_messages = 'de_DE'")
    try:
        _, said = ground.refused("usr", "  indexes: [{name: u, columns: [mail], unique: true}]")
        assert "in 1 groups" in said
        ground.make("CREATE TABLE prof (id INT PRIMARY KEY, a VARCHAR(9000))")
        _, said = ground.refused("prof", "  columns: [{name: w, type: varchar(9000)}]")
        assert "1118" in said
    finally:
        script(ground.server, "SET GLOBAL lc_messages = 'en_US'")


COLUMN = "  columns: [{name: n, type: int}]"


def test_a_value_of_somebodys_behind_the_end_of_the_scan_is_found_before_anything_is_altered(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scan of live values is bounded; a column that was there is asked of every row, and backfill writes none."""
    monkeypatch.setattr("orchestrator.mysql.promised._MOST_ROWS", 200)
    ground.make(
        "CREATE TABLE t (id INT PRIMARY KEY, o INT, n INT, g INT AS (o + 1) VIRTUAL); INSERT INTO t (id, o)"
        " WITH RECURSIVE i AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM i WHERE x < 900) SELECT x, x FROM i;"
        " UPDATE t SET n = 7 WHERE id IN (899, 900)"
    )
    contract = '  columns: [{name: n, type: int}, {name: g, type: int, generated: "o + 1"}, {name: m, type: int}]'
    before = ground.seen()
    with ground.app("t", contract, BOTH_WAYS) as app:
        plan = app.planner.plan("ddl")
        assert (plan.problems, plan.stages[0].steps[0].key) == ((), "compare:in-use")
        assert "the first 200 rows were looked at" in " ".join(plan.remarks)
        with pytest.raises(RolloutError) as caught:
            app.commands.next("ddl")
        assert "column n: 2 (key 899, 900)" in caught.value.seen
        assert "name the new column otherwise" in caught.value.next
        assert ground.seen() == before
        script(ground.server, f"UPDATE {ground.schema}.t SET n = IF(id = 900, o, NULL) WHERE id > 898")
        app.commands.next("ddl")
        assert app.planner.present().columns_added == ("m",)
        app.commands.next("backfill")
        assert sql(ground.server, f"SELECT COUNT(*) FROM {ground.schema}.t WHERE n = o") == [(900,)]


def test_values_that_cannot_be_looked_at_alter_nothing(ground: Ground) -> None:
    """A mapping that the server refuses was found by backfill, when ddl had altered the table."""
    ground.make("CREATE TABLE t (id INT PRIMARY KEY, o INT); INSERT INTO t VALUES (1, 2)")
    rules, said = ground.refused("t", COLUMN, "mappings: [{new: n, forward: {sql: NO_SUCH_FUNCTION(o)}}]")
    assert rules == {"values-unseen"}
    assert "NO_SUCH_FUNCTION" in said
