"""Reading an operator's expression: columns are found, everything that is not of the row is refused."""

from __future__ import annotations

import pytest

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column
from orchestrator.model.types import parse_type
from orchestrator.mysql import quote
from orchestrator.mysql.expression import Columns, parse
from orchestrator.mysql.tokens import as_shown, tokenise

TYPES = {
    "status": "varchar(32)",
    "a": "int",
    "b": "int",
    "big": "bigint",
    "u": "int unsigned",
    "year": "int",
    "second": "int",
    "end": "int",
    "date": "datetime",
    "sent": "timestamp",
    "doc": "json",
    "choice": "enum('0','1')",
    "f": "bit(1)",
    "odd name`": "int",
    "größe": "int",
}
COLUMNS: Columns = {name: Column(name=name, type=parse_type(text)) for name, text in TYPES.items()}


def rendered(sql: str) -> str:
    return parse(sql, COLUMNS, "mapping").render(quote.name)


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("a", "`a`"),
        ("A * 1000", "(`a` * 1000)"),
        ("`odd name``` + a", "(`odd name``` + `a`)"),
        ("größe", "`größe`"),
        ("LEFT(status, 8)", "(LEFT(`status`, 8))"),
        ("CASE WHEN a IS NULL THEN 'a' ELSE 'it''s a' END", "(CASE WHEN `a` IS NULL THEN 'a' ELSE 'it''s a' END)"),
        ("CASE a WHEN 1 THEN end ELSE b END", "(CASE `a` WHEN 1 THEN `end` ELSE `b` END)"),
        ("date + INTERVAL a DAY", "(`date` + INTERVAL `a` DAY)"),
        ("date + INTERVAL second SECOND", "(`date` + INTERVAL `second` SECOND)"),
        ("date + INTERVAL (a + 1) YEAR", "(`date` + INTERVAL (`a` + 1) YEAR)"),
        ("EXTRACT(YEAR FROM date) + year", "(EXTRACT(YEAR FROM `date`) + `year`)"),
        ("TIMESTAMPDIFF(SECOND, '1970-01-01', date)", "(TIMESTAMPDIFF(SECOND, '1970-01-01', `date`))"),
        ("YEAR(date)", "(YEAR(`date`))"),
        ("DATE '2024-01-01' < date", "(DATE '2024-01-01' < `date`)"),
        ("CAST(status AS DATE)", "(CAST(`status` AS DATE))"),
        ("CAST(a AS UNSIGNED INTEGER)", "(CAST(`a` AS UNSIGNED INTEGER))"),
        ("CONVERT(status USING latin1)", "(CONVERT(`status` USING latin1))"),
        ("status COLLATE utf8mb4_bin = _utf8mb4'a'", "(`status` COLLATE utf8mb4_bin = _utf8mb4'a')"),
        ('CONCAT("say ""a"" or \'b\'", status)', "(CONCAT('say \"a\" or ''b''', `status`))"),
        ("doc->'$.a'", "(JSON_EXTRACT(`doc`, '$.a'))"),
        ("a = 1 AND doc ->> '$.a' = 'x'", "(`a` = 1 AND JSON_UNQUOTE(JSON_EXTRACT(`doc` ,  '$.a')) = 'x')"),
        ("IF(choice = '1', f, a)", "(IF(CAST(`choice` AS CHAR) = '1', (`f` + 0), `a`))"),
        ("big * 1000 - u", "(CAST(`big` AS DECIMAL(20)) * 1000 - CAST(`u` AS DECIMAL(20)))"),
        ("COALESCE(big, u)", "(COALESCE(`big`, `u`))"),
        ("UNIX_TIMESTAMP(sent)", "(UNIX_TIMESTAMP(`sent`))"),
        ("IF(sent IS NULL, 0, UNIX_TIMESTAMP(`sent`))", "(IF(`sent` IS NULL, 0, UNIX_TIMESTAMP(`sent`)))"),
        ("sent", "`sent`"),
        ("a in (1, 2) and not b", "(`a` in (1, 2) and not `b`)"),
        ("a - -1.5e3", "(`a` - -1.5e3)"),
        ("'order'", "'order'"),
        ("x'4D'", "x'4D'"),
        ("DATE_FORMAT(date, '%Y-%m')", "(DATE_FORMAT(`date`, '%Y-%m'))"),
    ],
)
def test_columns_are_found_and_nothing_else_is_touched(sql: str, wanted: str) -> None:
    assert rendered(sql) == wanted


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "a; DROP TABLE t",
        "(SELECT a)",
        "EXISTS (SELECT 1)",
        "@v",
        "@@sql_mode",
        "a := 1",
        "a + ?",
        "a /* b */",
        "a -- b",
        "a # b",
        "t.a",
        "NOW()",
        "now ()",
        "CURRENT_TIMESTAMP",
        "a + RAND()",
        "UUID()",
        "USER()",
        "CURRENT_USER",
        "LAST_INSERT_ID()",
        "CONNECTION_ID()",
        "SLEEP(1)",
        "GET_LOCK('a', 1)",
        "DEFAULT(a)",
        "VALUES(a)",
        "SUM(a)",
        "COUNT(*)",
        "ROW_NUMBER() OVER ()",
        "DAYNAME(date)",
        "WEEK(date)",
        "UNIX_TIMESTAMP()",
        "UNIX_TIMESTAMP(date)",
        "FROM_UNIXTIME(a) + 1",
        "DATE(sent)",
        "CONCAT(sent, '')",
        "sent > date",
        "'unfinished",
        "\\N",
    ],
)
def test_what_is_not_of_the_row_alone_is_refused(sql: str) -> None:
    with pytest.raises(RunbookError) as refused:
        parse(sql, COLUMNS, "mapping x, forward")
    assert "mapping x, forward" in refused.value.seen
    assert refused.value.expected
    assert refused.value.next


def test_an_unknown_column_names_the_nearest_one() -> None:
    with pytest.raises(RunbookError) as refused:
        parse("statsu", COLUMNS, "m")
    assert "statsu" in refused.value.seen
    assert "status" in refused.value.expected


def test_a_timestamp_is_refused_with_the_form_that_is_safe() -> None:
    with pytest.raises(RunbookError) as refused:
        parse("DATE_ADD(sent, INTERVAL 1 DAY)", COLUMNS, "m")
    assert "'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP(sent) SECOND" in refused.value.expected


@pytest.mark.parametrize(
    ("sql", "keeps"),
    [
        ("a * 1000", True),
        ("LEAST(CEIL(a / 1000), 5)", True),
        ("COALESCE(a, b)", True),
        ("CASE WHEN a THEN 1 ELSE 2 END", True),
        ("a / b", False),
        ("a % 0", False),
        ("CASE WHEN a THEN 1 END", False),
        ("CONVERT_TZ(date, 'x', 'y')", False),
        ("NULLIF(a, 0)", False),
    ],
)
def test_null_where_no_column_is_null_is_foreseen(sql: str, keeps: bool) -> None:
    assert parse(sql, COLUMNS, "m").null_keeping is keeps


@pytest.mark.parametrize("sql", ["IF(a = 0, NULL, a)", "NULLIF(status, '')", "doc->>'$.x'", "JSON_VALUE(doc, '$.x')"])
def test_null_that_is_written_is_meant(sql: str) -> None:
    assert parse(sql, COLUMNS, "m").null_named


@pytest.mark.parametrize("sql", ["a IS NULL", "a IS NOT NULL", "COALESCE(a, b)"])
def test_asking_for_null_is_not_writing_it(sql: str) -> None:
    assert not parse(sql, COLUMNS, "m").null_named


def test_zones_of_convert_tz_are_found() -> None:
    assert parse("CONVERT_TZ(date, 'Mars/Olympus', '+00:00')", COLUMNS, "m").zones == ("'Mars/Olympus'", "'+00:00'")


def test_every_character_is_in_some_token() -> None:
    text = "a <=> _utf8mb4'x''y' AND `b``c` ->> \"$.q\" != 0x1F -- end"
    assert "".join(t.text for t in tokenise(text)) == text


def test_a_body_is_told_as_the_server_shows_it() -> None:
    made = "SET NEW.`it''s` = _utf8mb4'it''s' , 'a\\\\b\\n\\%', \"d\"\"q\", x'4d'"
    assert as_shown(made) == "SET NEW.`it''s` = 'it's' , 'a\\b\n\\%', \"d\"q\", x'4d'"
