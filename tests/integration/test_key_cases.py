"""Keys that have made other tools lose rows or write them twice (cases B01 to B15), each by the backfill itself."""

from __future__ import annotations

import pytest

from orchestrator.drivers.rows import FillDriver
from orchestrator.errors import RunbookError
from orchestrator.model.outcome import GO, Progress, Result, Signal
from orchestrator.sandbox.server import Server
from tests.support.cases import Case, positions, writes
from tests.support.log import general_log, said
from tests.support.rows import ToldBeat
from tests.support.servers import script, sql


def test_b01_a_composite_key_near_2_to_the_64_is_walked_once(primary: Server, schema: str) -> None:
    case = Case(
        "acct BIGINT UNSIGNED NOT NULL, seq INT NOT NULL, memo VARCHAR(20) NULL, PRIMARY KEY (acct, seq)",
        "VALUES (9007199254740992,1,'a'),(9007199254740993,1,'b'),(18446744073709551613,1,'c'),"
        "(18446744073709551614,1,'d'),(18446744073709551614,2,'e'),(18446744073709551615,1,'f')",
        "memo_n",
        "varchar(20)",
        "UPPER(memo)",
        "acct, seq",
    )
    case.make(primary, schema)
    outcome = case.backfill(primary, schema, 2)
    assert (outcome.result, writes(primary, schema)) == (Result.DONE, [1] * 6)
    assert sql(primary, f"SELECT COUNT(*), SUM(memo_n <=> UPPER(memo)) FROM {schema}.t") == [(6, 6)]
    assert positions(primary) == '[["int","18446744073709551615"],["int","1"]]'


def test_b03_binary_keys_are_kept_whole_and_as_hex(primary: Server, schema: str) -> None:
    case = Case(
        "id BINARY(16) NOT NULL PRIMARY KEY, state VARCHAR(8) NOT NULL",
        "VALUES (0x00000000000000000000000000000000,'open'),(0x000000000000000000000000000000FF,'shut'),"
        "(0x27275C5C250A0D1A2727272727272700,'open'),(0x27275C5C250A0D1A2727272727272720,'shut'),"
        "(0xF09F9880F09F9880FFFEFDFCFBFAF9F8,'open'),(0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF,'shut')",
        "state_n",
        "tinyint",
        "CASE state WHEN 'open' THEN 1 WHEN 'shut' THEN 2 END",
        "id",
    )
    case.make(primary, schema)
    outcome = case.backfill(primary, schema, 2)
    assert (outcome.result, writes(primary, schema)) == (Result.DONE, [1] * 6)
    assert sql(primary, f"SELECT COUNT(*), SUM(state_n IS NULL), SUM(state_n) FROM {schema}.t") == [(6, 0, 9)]
    assert positions(primary) == '[["hex","ffffffffffffffffffffffffffffffff"]]'


def test_b04_the_greatest_unsigned_key_is_reached_and_nothing_is_computed_beyond_it(
    primary: Server, schema: str
) -> None:
    case = Case(
        "id BIGINT UNSIGNED NOT NULL PRIMARY KEY, kind SMALLINT NOT NULL",
        "VALUES (1,1),(9223372036854775807,2),(9223372036854775808,3),(18446744073709551614,4),"
        "(18446744073709551615,5)",
        "kind_n",
        "smallint",
        "kind + 100",
        "id",
    )
    case.make(primary, schema)
    outcome = case.backfill(primary, schema, 3)
    assert (outcome.result, writes(primary, schema)) == (Result.DONE, [1] * 5)
    assert sql(primary, f"SELECT SUM(kind_n <=> kind + 100) FROM {schema}.t") == [(5,)]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("a INT NULL, b INT NULL, v INT, UNIQUE KEY uq (a, b)", "uq: a can be NULL"),  # B06
        ("a FLOAT NOT NULL, b INT NOT NULL, v INT, PRIMARY KEY (a, b)", "PRIMARY: a is a floating-point number"),  # B10
        ("a DOUBLE NOT NULL PRIMARY KEY, v INT", "PRIMARY: a is a floating-point number"),
        ("a VARCHAR(99) NOT NULL, b INT, v INT, UNIQUE KEY u (a(5))", "u: holds only 5 characters of a"),
        ("a INT, b INT, v INT, KEY k (a)", "there is no PRIMARY KEY and no UNIQUE index"),
    ],
)
def test_b06_b10_a_table_without_a_usable_key_is_refused_by_name_and_reason(
    primary: Server, schema: str, columns: str, reason: str
) -> None:
    case = Case(columns, "VALUES ROW(1, 1, 1)" if " b " in columns else "VALUES ROW(1, 1)", "v_n", "int", "v + 1", "a")
    case.make(primary, schema)
    with pytest.raises(RunbookError) as refused:
        case.backfill(primary, schema, 2)
    assert f"{schema}.t" in refused.value.seen
    assert reason in refused.value.seen
    assert writes(primary, schema) == []


@pytest.mark.parametrize("shown", [1, 0])
def test_b07_a_generated_invisible_key_is_walked_also_when_the_server_hides_it(
    primary: Server, schema: str, shown: int
) -> None:
    case = Case(
        "who INT NOT NULL, on_off VARCHAR(4) NULL",
        "(who, on_off) VALUES (7,'yes'),(7,'yes'),(8,'no'),(9,NULL)",
        "on_n",
        "tinyint",
        "on_off = 'yes'",
        "my_row_id",
    )
    case.make(primary, schema, "SET SESSION sql_generate_invisible_primary_key = ON;")
    try:
        script(primary, f"SET GLOBAL show_gipk_in_create_table_and_information_schema = {shown}")
        outcome = case.backfill(primary, schema, 2)
    finally:
        script(primary, "SET GLOBAL show_gipk_in_create_table_and_information_schema = 1")
    assert (outcome.result, writes(primary, schema)) == (Result.DONE, [1] * 3), "NULL stays NULL"
    assert sql(primary, f"SELECT SUM(on_n <=> (on_off = 'yes')) FROM {schema}.t") == [(4,)]
    assert positions(primary) == '[["int","4"]]'


def test_b08_microseconds_of_a_key_are_kept_in_the_position(primary: Server, schema: str) -> None:
    case = Case(
        "ts DATETIME(6) NOT NULL, n INT NOT NULL, v INT, PRIMARY KEY (ts, n)",
        "VALUES "
        + ", ".join(f"('2026-01-01 00:00:00.{n:06}', 1, {n})" for n in (1, 2, 499999, 500000, 999998, 999999)),
        "v_n",
        "int",
        "v + 1",
        "ts, n",
    )
    case.make(primary, schema)
    outcome = case.backfill(primary, schema, 2)
    assert (outcome.result, writes(primary, schema)) == (Result.DONE, [1] * 6)
    assert positions(primary) == '[["datetime","2026-01-01 00:00:00.999999"],["int","1"]]'


def test_b09_decimal_keys_stay_exact_from_end_to_end(primary: Server, schema: str) -> None:
    case = Case(
        "id DECIMAL(30,10) NOT NULL PRIMARY KEY, v INT",
        "VALUES " + ", ".join(f"(12345678901234567890.000000000{n}, {n})" for n in (1, 2, 3)),
        "v_n",
        "int",
        "v + 1",
        "id",
    )
    case.make(primary, schema)
    outcome = case.backfill(primary, schema, 1)
    assert (outcome.result, writes(primary, schema)) == (Result.DONE, [1] * 3)
    assert positions(primary) == '[["decimal","12345678901234567890.0000000003"]]'


PLAIN = Case("id INT PRIMARY KEY, v INT", "VALUES (1,1),(2,2),(3,3),(4,4),(5,5)", "v_n", "int", "v + 1", "id")


def test_b11_a_row_whose_key_moves_behind_the_position_is_found_by_the_sweep(primary: Server, schema: str) -> None:
    PLAIN.make(primary, schema)

    def move(beats: int, _: Progress) -> Signal:
        if beats == 3:
            sql(primary, f"UPDATE {schema}.t SET id = -2 WHERE id = 5")
        return GO

    driver = FillDriver(PLAIN.site(primary, schema))
    assert driver.apply(PLAIN.step(schema, 1), ToldBeat(answer=move)).result is Result.DONE
    assert sql(primary, f"SELECT id FROM {schema}.t WHERE NOT v_n <=> v + 1") == [(-2,)]
    assert driver.apply(PLAIN.step(schema, 1, "sweep"), ToldBeat()).result is Result.DONE
    assert sql(primary, f"SELECT COUNT(*) FROM {schema}.t WHERE NOT v_n <=> v + 1") == [(0,)]


def test_b12_a_column_that_is_not_unique_is_no_key(primary: Server, schema: str) -> None:
    case = Case(
        "id INT PRIMARY KEY, day DATE NOT NULL, v INT, KEY (day)",
        "VALUES (1,'2026-01-01',1),(2,'2026-01-01',2)",
        "v_n",
        "int",
        "v + 1",
        "id",
        ("day",),
    )
    case.make(primary, schema)
    with pytest.raises(RunbookError) as refused:
        case.backfill(primary, schema, 2)
    assert "no unique index is exactly over (day)" in refused.value.seen


@pytest.mark.parametrize("rows", [0, 1, 3, 4])
def test_b13_empty_single_full_and_overfull_batches_end_at_100_percent(primary: Server, schema: str, rows: int) -> None:
    PLAIN.make(primary, schema)
    sql(primary, f"DELETE FROM {schema}.t WHERE id > {rows}")
    beat = ToldBeat()
    with general_log(primary):
        outcome = FillDriver(PLAIN.site(primary, schema)).apply(PLAIN.step(schema, 3), beat)
        statements = said(primary)
    assert (outcome.result, writes(primary, schema)) == (Result.DONE, [1] * rows)
    assert outcome.figures["rows_done"] == rows, "all of them, when it is done"
    assert all(p.done <= p.total and (p.share or 0.0) < 1.0 for p in beat.seen), "and not before"
    assert statements
    assert not [text for text in statements if "none" in text.lower()]


def test_b14_the_run_ends_although_inserts_go_on(primary: Server, schema: str) -> None:
    PLAIN.make(primary, schema)

    def insert(beats: int, _: Progress) -> Signal:
        sql(
            primary,
            f"INSERT INTO {schema}.t (id, v) SELECT MAX(id) + n, 1 FROM {schema}.t, (SELECT 1 AS n UNION"
            " SELECT 2 UNION SELECT 3) AS three GROUP BY n",
        )
        assert beats < 20, "it chases rows that are inserted"
        return GO

    outcome = FillDriver(PLAIN.site(primary, schema)).apply(PLAIN.step(schema, 1), ToldBeat(answer=insert))
    assert outcome.result is Result.DONE
    assert outcome.figures["rows_done"] == 5


def test_b15_keys_and_values_of_four_bytes_are_not_mistaken_for_a_question_mark(primary: Server, schema: str) -> None:
    case = Case(
        "code VARCHAR(20) NOT NULL PRIMARY KEY, title VARCHAR(40) NULL",
        "VALUES (CONVERT(0x61F09F9880 USING utf8mb4), CONVERT(0xF09F9A80206C61756E6368 USING utf8mb4)),"
        "('a?','plain'),('b',CONVERT(0x63616665CC81 USING utf8mb4))",
        "title_n",
        "varchar(40)",
        "title",
        "code",
    )
    case.make(primary, schema)
    outcome = case.backfill(primary, schema, 1)
    assert (outcome.result, writes(primary, schema)) == (Result.DONE, [1] * 3)
    assert sql(primary, f"SELECT SUM(HEX(title_n) <=> HEX(title)) FROM {schema}.t") == [(3,)]
