"""Values that made other tools write wrong ones, or none, or call right ones wrong (cases B16 to B42, B133 to B135)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import pytest

from orchestrator.drivers.rows import CompareDriver, FillDriver
from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column, Copy, Expression, Mapping, Match, TableName, ValueMap
from orchestrator.model.facts import ValueCount
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import Compare, Fill
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.scan import Reach, scan_values
from orchestrator.mysql.site import Site
from orchestrator.sandbox.server import Server
from tests.support.mirrored import Mirrored, mirrored, new_column
from tests.support.rows import ROLLOUT, ToldBeat, begin_rollout
from tests.support.servers import script
from tests.support.state import settings_of


@dataclass
class Case:
    """One table before its ddl, and what each stage says of its values. ``stopped``: what the backfill named."""

    on: Mirrored
    stopped: tuple[tuple[str, ...], ...] = ()

    def problems(self) -> list[tuple[str, int, str]]:
        """What ``plan`` and the gate before backfill say: (value, rows, problem)."""
        return sorted((p.value, p.rows, p.problem) for p in self._found())

    def keys(self) -> list[tuple[str, ...]]:
        """And the rows that each of them is in."""
        return [p.keys for p in self._found()]

    def _found(self) -> tuple[ValueCount, ...]:
        return scan_values(
            self.on.session, self.on.relation(), self.on.shape(), Reach(10**6, 60, SystemClock())
        ).problems

    def fill(self, batch_rows: int = 2) -> Outcome:
        self.on.expand()
        begin_rollout(self.on.server)
        step = Fill(
            table=self.on.contract.table, walk=1, pass_name="backfill", target_time_s=60.0, max_batch_rows=batch_rows
        )
        return FillDriver(self.site()).apply(step, ToldBeat())

    def verify(self) -> Outcome:
        table = self.on.contract.table
        step = Compare(table=table, walk=1, purpose="verify", relation="old-is-truth", target_time_s=0.1)
        return CompareDriver(self.site()).apply(step, ToldBeat(epoch=0))

    def passes(self, new: str, wanted: list[object]) -> None:
        """The backfill gives exactly these values, in order of the key, and verify agrees."""
        filled = self.fill()
        assert filled.result is Result.DONE, filled
        assert self.on.all(new) == wanted
        assert self.verify().result is Result.DONE

    def refuses(self, problems: list[tuple[str, int, str]]) -> None:
        """Named before, and the backfill stops at it with nothing of its batch written."""
        assert self.problems() == problems
        outcome = self.fill(1000)
        assert outcome.result is Result.FAILED
        self.stopped = outcome.evidence
        assert self.on.all(f"COUNT({self.on.contract.columns[0].name})", "1") == [0]

    def site(self) -> Site:
        runbook = Runbook(ROLLOUT, self.on.contract, "d" * 64, "", "rollout.yaml")
        return Site(settings_of(self.on.server), runbook, SystemClock())


@contextmanager
def case(server: Server, schema: str, ddl: str, column: Column, *mappings: Mapping) -> Iterator[Case]:
    on = mirrored(server, schema, ddl, (column,), *mappings)
    with closing(on.session):
        yield Case(on)


def derived(new: str, sql: str) -> Mapping:
    return Mapping(new, None, Expression(sql), follows=True)


def pair_of(new: str, old: str, values: tuple[tuple[str | None, str], ...], match: Match = Match.EXACT) -> Mapping:
    back = {result: value for value, result in reversed(values)}
    return Mapping(new, old, ValueMap(values, match=match), ValueMap(tuple(back.items())))


def copied(new: str, old: str) -> Mapping:
    return Mapping(new, old, Copy(), Copy())


B16 = (
    "SET NAMES utf8mb4; CREATE TABLE t (id INT PRIMARY KEY, status VARCHAR(20) COLLATE utf8mb4_unicode_ci NULL);"
    " INSERT INTO t VALUES (1,'done'),(2,'DONE'),(3,'done '),(4,'dóne'),(5,CONVERT(0x646F6E6500 USING utf8mb4)),"
    "(6,CONVERT(0x646FE2808D6E65 USING utf8mb4)),(7,'open'),(8,' open'),(9,'')"
)


def test_b16_values_match_byte_by_byte_and_the_seven_outside_are_listed_with_visible_blanks(
    primary: Server, schema: str
) -> None:
    state = new_column("state", "tinyint")
    with case(primary, schema, B16, state, pair_of("state", "status", (("done", "3"), ("open", "1")))) as here:
        found = here.problems()
        assert sum(rows for _, rows, _ in found) == 7
        assert {problem for _, _, problem in found} == {"unmapped"}
        assert {"'DONE'", "'done ' (0x646f6e6520)", "'done\\x00' (0x646f6e6500)", "' open' (0x206f70656e)"} <= {
            value for value, _, _ in found
        }
        assert here.fill(100).result is Result.FAILED


def test_b16_with_the_collation_as_rule_five_more_match_everywhere(primary: Server, schema: str) -> None:
    mapping = pair_of("state", "status", (("done", "3"), ("open", "1")), Match.COLLATION)
    with case(primary, schema, B16, new_column("state", "tinyint"), mapping) as here:
        assert [(value, rows) for value, rows, problem in here.problems() if problem == "unmapped"] == [
            ("' open' (0x206f70656e)", 1),
            ("''", 1),
        ]


def test_b18_unmapped_values_are_counted_and_nothing_loops(primary: Server, schema: str) -> None:
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, sev VARCHAR(10) NULL); INSERT INTO t VALUES"
        " (1,'low'),(2,'high'),(3,'urgent'),(4,'urgent'),(5,'low'),(6,NULL)"
    )
    mapping = pair_of("sev_n", "sev", (("low", "1"), ("high", "9")))
    with case(primary, schema, ddl, new_column("sev_n", "tinyint"), mapping) as here:
        here.refuses([("'urgent'", 2, "unmapped"), ("NULL", 1, "unmapped")])


def test_b20_a_label_becomes_the_number_that_it_spells(primary: Server, schema: str) -> None:
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, choice ENUM('0','1','2') NOT NULL);"
        " INSERT INTO t VALUES (1,'0'),(2,'1'),(3,'2'),(4,'1')"
    )
    mapping = Mapping("choice_n", "choice", Copy(), ValueMap((("0", "0"), ("1", "1"), ("2", "2"))))
    with case(primary, schema, ddl, new_column("choice_n", "tinyint"), mapping) as here:
        assert "AS CHAR" in here.on.relation().assignments(lambda c: c)[0][1]
        here.passes("choice_n", [0, 1, 2, 1])


def test_b23_text_that_is_too_long_is_named_before(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(40)); INSERT INTO t VALUES"
    ddl += " (1, 'short'), (2, 'twelve chars'), (3, 'fits in'), (4, 'ninechars')"
    with case(primary, schema, ddl, new_column("a_n", "varchar(8)"), copied("a_n", "a")) as here:
        assert here.keys() == [("4",), ("2",)]
        here.refuses([("'ninechars'", 1, "unfit"), ("'twelve chars'", 1, "unfit")])
        assert here.stopped == (("unfit", "a ↔ a_n", "1", "4"), ("unfit", "a ↔ a_n", "1", "2"))


def test_b24_latin1_text_comes_as_the_same_characters(primary: Server, schema: str) -> None:
    """What a latin1 column shows is carried; bytes that were decoded twice stay what they show, and nothing fails."""
    ddl = (
        "SET NAMES utf8mb4; CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) CHARACTER SET latin1);"
        " INSERT INTO t VALUES (1, 0x93A0E9), (2, CONVERT(0xC3A9 USING latin1))"
    )
    with case(primary, schema, ddl, new_column("s_n", "varchar(20)"), copied("s_n", "s")) as here:
        assert here.problems() == []
        assert here.fill().result is Result.DONE
        assert here.on.all("HEX(CONVERT(s_n USING latin1)) = HEX(s)") == [1, 1]
        assert here.verify().result is Result.DONE


ALL_BYTES = (
    "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) CHARACTER SET {0} NOT NULL); INSERT INTO t"
    " WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 255)"
    " SELECT i, CONVERT(UNHEX(LPAD(HEX(i), 2, '0')) USING {0}) FROM n"
)


def test_b24_every_byte_of_latin1_comes_back(primary: Server, schema: str) -> None:
    """Those that CP1252 leaves open (81, 8D, 8F, 90, 9D) too: the server takes them for U+0081 and so on."""
    with case(
        primary, schema, ALL_BYTES.format("latin1"), new_column("s_n", "varchar(20)"), copied("s_n", "s")
    ) as here:
        assert here.problems() == []
        assert here.fill(1000).result is Result.DONE
        assert here.on.all("CONVERT(s_n USING latin1) = BINARY s") == [1] * 256
        assert here.on.all("HEX(s_n)")[0x81:0x9E:12] == ["C281", "C28D", "E284A2"]
        assert here.verify().evidence == ()


def test_b24_bytes_that_stand_for_no_character_are_named_by_key_and_never_written(primary: Server, schema: str) -> None:
    """The server reads them as '?', which would compare equal to a '?' that was written."""
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) CHARACTER SET greek);"
        " INSERT INTO t VALUES (1, 0xE1), (2, 0xFF), (3, 0x3F), (4, 0xE1AE)"
    )
    with case(primary, schema, ddl, new_column("s_n", "varchar(20)"), copied("s_n", "s")) as here:
        assert sorted(here.keys()) == [("2",), ("4",)]
        here.refuses([("'?'", 1, "unfit"), ("'α?'", 1, "unfit")])
        script(primary, "UPDATE t SET s_n = CONVERT(s USING utf8mb4)", schema)
        assert here.verify().evidence == (("unfit", "s ↔ s_n", "2", "2", "4"),)
        script(primary, "DELETE FROM t WHERE id IN (2, 4)", schema)
        assert here.verify().result is Result.DONE


def test_b24_characters_that_latin1_lacks_are_named_by_key_and_never_written_as_question_marks(
    primary: Server, schema: str
) -> None:
    ddl = (
        "SET NAMES utf8mb4; CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20));"
        " INSERT INTO t VALUES (1, 'é€?'), (2, '😀'), (3, 'Ā'), (4, _utf8mb4 0xC293), (5, _utf8mb4 0xC281)"
    )
    with case(primary, schema, ddl, new_column("s_n", "varchar(20)", charset="latin1"), copied("s_n", "s")) as here:
        assert sorted(here.keys()) == [("2",), ("3",), ("4",)]
        here.refuses([("'\\x93' (0xc293)", 1, "unfit"), ("'Ā'", 1, "unfit"), ("'😀'", 1, "unfit")])


def test_b24_bytes_that_were_decoded_twice_are_mended_by_a_rule_that_says_so(primary: Server, schema: str) -> None:
    """What is no UTF-8 then is named by key."""
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) CHARACTER SET latin1);"
        " INSERT INTO t VALUES (1, 0x93A0E9), (2, 0xC3A9), (3, 'plain')"
    )
    rule = derived("s_n", "CONVERT(CAST(s AS BINARY) USING utf8mb4)")
    with case(primary, schema, ddl, new_column("s_n", "varchar(20)"), rule) as here:
        assert (here.keys(), [problem for _, _, problem in here.problems()]) == ([("1",)], ["unmapped"])
        script(primary, "DELETE FROM t WHERE id = 1", schema)
        here.passes("s_n", ["é", "plain"])


def test_b25_a_target_of_three_bytes_refuses_what_needs_four(primary: Server, schema: str) -> None:
    ddl = "SET NAMES utf8mb4; CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20)); INSERT INTO t VALUES (1,'a'),(2,'😀')"
    column = new_column("s_n", "varchar(20)", charset="utf8mb3")
    with case(primary, schema, ddl, column, copied("s_n", "s")) as here:
        assert here.problems() == [("'😀'", 1, "unfit")]


def test_b26_two_forms_of_an_accent_are_told_apart_by_their_bytes(primary: Server, schema: str) -> None:
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(20) COLLATE utf8mb4_0900_ai_ci);"
        " INSERT INTO t VALUES (1, _utf8mb4 0x636166C3A9), (2, _utf8mb4 0x63616665CC81)"
    )
    with case(primary, schema, ddl, new_column("c", "char(1)"), pair_of("c", "s", (("café", "c"),))) as here:
        ((value, rows, problem),) = here.problems()
        assert (rows, problem) == (1, "unmapped")
        assert value == "'cafe\u0301' (0x63616665cc81)"


def test_b27_a_bit_is_a_number(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, f BIT(1)); INSERT INTO t VALUES (1,b'1'),(2,b'0'),(3,NULL)"
    with case(primary, schema, ddl, new_column("f_n", "tinyint(1)"), copied("f_n", "f")) as here:
        here.passes("f_n", [1, 0, None])


def test_b27_a_bit_copied_into_text_is_its_number(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, f BIT(1)); INSERT INTO t VALUES (1,b'1'),(2,b'0')"
    with case(primary, schema, ddl, new_column("f_n", "varchar(4)"), derived("f_n", "f")) as here:
        here.passes("f_n", ["1", "0"])


B28 = (
    "SET SESSION sql_mode = ''; CREATE TABLE t (id INT PRIMARY KEY, joined DATETIME NOT NULL); INSERT INTO t VALUES"
    " (1,'0000-00-00 00:00:00'),(2,0),(3,'2024-02-00 00:00:00'),(4,'2024-02-28 12:00:00')"
)


def test_b28_zero_dates_are_named_by_key_without_a_rule(primary: Server, schema: str) -> None:
    with case(primary, schema, B28, new_column("joined_n", "datetime"), copied("joined_n", "joined")) as here:
        assert [(rows, problem) for _, rows, problem in here.problems()] == [(2, "unfit"), (1, "unfit")]
        assert sorted(here.keys()) == [("1", "2"), ("3",)]
        assert here.fill().result is Result.FAILED


def test_b28_zero_dates_become_null_by_a_rule_that_says_so(primary: Server, schema: str) -> None:
    rule = "IF(YEAR(joined) = 0 OR MONTH(joined) = 0 OR DAYOFMONTH(joined) = 0, NULL, joined)"
    with case(primary, schema, B28, new_column("joined_n", "datetime"), derived("joined_n", rule)) as here:
        assert here.fill().result is Result.DONE
        assert here.on.all("CAST(joined_n AS CHAR)") == [None, None, None, "2024-02-28 12:00:00"]


B29 = (
    "SET time_zone = '+00:00'; CREATE TABLE t (id INT PRIMARY KEY, sent TIMESTAMP NULL);"
    " INSERT INTO t VALUES (1,'2026-07-01 10:00:00'),(2,'2026-07-01 10:00:00')"
)


def test_b29_a_timestamp_does_not_become_a_datetime_by_itself(primary: Server, schema: str) -> None:
    with case(primary, schema, B29, new_column("sent_n", "datetime"), copied("sent_n", "sent")) as here:
        with pytest.raises(RunbookError) as refused:
            here.on.relation()
        assert "INTERVAL" in refused.value.next


def test_b29_the_zone_of_the_applications_session_changes_nothing(primary: Server, schema: str) -> None:
    rule = "'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP(sent) SECOND"
    with case(primary, schema, B29, new_column("sent_n", "datetime"), derived("sent_n", rule)) as here:
        assert here.fill().result is Result.DONE
        here.on.mirror()
        script(primary, "SET time_zone = '+02:00'; INSERT INTO t (id, sent) VALUES (3, '2026-07-01 12:00:00')", schema)
        assert here.on.all("CAST(sent_n AS CHAR)") == ["2026-07-01 10:00:00"] * 3
        assert here.verify().result is Result.DONE


def test_b31_a_zone_that_does_not_resolve_is_refused(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, at_local DATETIME NOT NULL); INSERT INTO t VALUES (1,'2026-05-01 09:00')"
    rule = derived("at_utc", "CONVERT_TZ(at_local, 'Mars/Olympus', '+00:00')")
    with case(primary, schema, ddl, new_column("at_utc", "datetime"), rule) as here:
        with pytest.raises(RunbookError) as refused:
            here.on.relation()
        assert "Mars/Olympus" in refused.value.seen


B32 = (
    "CREATE TABLE t (id INT PRIMARY KEY, issued DATETIME(6) NOT NULL); INSERT INTO t VALUES"
    " (1,'2026-12-31 23:59:59.600000'),(2,'2026-06-30 12:00:00.400000'),(3,'2026-01-01 00:00:00.000000')"
)


def test_b32_fractions_that_would_be_rounded_are_refused(primary: Server, schema: str) -> None:
    with case(primary, schema, B32, new_column("issued_n", "datetime"), copied("issued_n", "issued")) as here:
        here.refuses([("'2026-06-30 12:00:00.400000'", 1, "unfit"), ("'2026-12-31 23:59:59.600000'", 1, "unfit")])


def test_b32_fractions_are_cut_by_a_rule_and_verify_uses_the_rule(primary: Server, schema: str) -> None:
    rule = derived("issued_n", "issued - INTERVAL MICROSECOND(issued) MICROSECOND")
    with case(primary, schema, B32, new_column("issued_n", "datetime"), rule) as here:
        assert here.fill().result is Result.DONE
        assert here.on.all("YEAR(issued_n)") == [2026] * 3
        assert here.verify().result is Result.DONE


B33 = "CREATE TABLE t (id INT PRIMARY KEY, dt DATETIME); INSERT INTO t VALUES (1,'2040-01-01'),(2,'1969-12-31 23:00')"


def test_b33_b34_a_local_datetime_never_becomes_a_timestamp_without_a_rule(primary: Server, schema: str) -> None:
    """So no value out of 1970 to 2038 is met late, and no write at an hour that does not exist fails."""
    column = new_column("ts", "timestamp")
    with case(primary, schema, B33, column, copied("ts", "dt")) as here, pytest.raises(RunbookError):
        here.on.relation()


def test_b33_moments_outside_of_a_timestamp_are_named_where_a_rule_says_what_they_mean(
    primary: Server, schema: str
) -> None:
    rule = derived("ts", "FROM_UNIXTIME(TIMESTAMPDIFF(SECOND, '1970-01-01', dt))")
    with case(primary, schema, B33, new_column("ts", "timestamp"), rule) as here:
        here.refuses([("'1969-12-31 23:00:00'", 1, "unfit"), ("'2040-01-01 00:00:00'", 1, "unfit")])
        assert sorted(here.keys()) == [("1",), ("2",)]
        assert sorted(keys for *_, keys in here.stopped) == ["1", "2"]
    assert ServerError(1292, "").cure is Cure.STOP, "never tried again"


B35 = (
    "SET NAMES utf8mb4; CREATE TABLE t (id INT PRIMARY KEY, body TEXT NULL); INSERT INTO t VALUES"
    """ (1,'{"b":1,"a":2}'),(2,'[1.0, 1e2,100]'),(3,'{"a":1,"a":2}'),(4,'{"n":123456789012345678901}'),"""
    """(5,'{"s":"\\\\ud83d\\\\ude00"}'),(6,''),(7,'{bad'),(8,NULL)"""
)


def test_b35_text_that_is_no_json_is_named_before(primary: Server, schema: str) -> None:
    with case(primary, schema, B35, new_column("body_j", "json"), derived("body_j", "NULLIF(body, '')")) as here:
        here.refuses([("'{bad'", 1, "unfit")])


def test_b35_json_is_compared_as_json(primary: Server, schema: str) -> None:
    with case(primary, schema, B35, new_column("body_j", "json"), derived("body_j", "NULLIF(body, '')")) as here:
        script(primary, "DELETE FROM t WHERE id = 7", schema)
        assert here.fill().result is Result.DONE
        assert here.on.all("body_j IS NOT NULL") == [1, 1, 1, 1, 1, 0, 0]
        verified = here.verify()
        assert (verified.result, verified.figures["mismatches"]) == (Result.DONE, 0)
        assert verified.evidence == (("lossy-ok", "body_j (derived)", "2", "3", "4"),)
        script(primary, """UPDATE t SET body_j = '{"a": 2, "b": 2}' WHERE id = 1""", schema)
        assert here.verify().evidence == (
            ("lossy-ok", "body_j (derived)", "2", "3", "4"),
            ("stale", "body_j (derived)", "1", "1"),
        )


KEPT_AS_JSON = (
    '{"b": 1,"a" :2,\n"c":[ ]}',
    "[1.0, 1e2, -1.5E+3, 0.10, 5e-324, -0, 0, 18446744073709551615, -9223372036854775808]",
    '"123456789012345678901 , [1.5] {\\"a\\":1,\\"a\\":2}"',
    r'{"\"":":","\\":"\u003a,","\\\"":"\/","\\\\":"[1.5"}',
    '{"a":{"x":1},"b":{"x":1},"A":[[],{},"",true,false,null]}',
    "[" + ",".join(["1"] * 32_700) + "]",
    "[" + ",".join(['""', "[]", "1.5"] * 6_000) + "]",
)
LOST_AS_JSON = (
    '{"a":1,"a":1}',
    '[{"x":{"a":1,"b":2,"a" :3}}]',
    '{"a":1,"\\u0061":2}',
    '{"a":[1.5,2.5,3.5],"a":[]}',
    '{"a":1,"a":[1,2,3,4,18446744073709551616]}',
    "18446744073709551616",
    "[-9223372036854775809]",
    '{"n":[1.5, "x", 100000000000000000000 ]}',
    '["' + "x" * 65_535 + '"]',
)


def test_b35_text_that_lost_something_as_json_is_named_and_another_writing_of_the_same_is_not(
    primary: Server, schema: str
) -> None:
    """A key that is there twice, an integer that no 64 bits hold; and what is too long to be looked into."""
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, body MEDIUMTEXT NULL)"
    with case(primary, schema, ddl, new_column("body_j", "json"), derived("body_j", "body")) as here:
        for id_, text in enumerate((*KEPT_AS_JSON, *LOST_AS_JSON)):
            here.on.session.execute(f"INSERT INTO {here.on.table} (id, body) VALUES (%s, %s)", (id_, text))
        assert here.fill().result is Result.DONE
        lost = [str(id_) for id_ in range(len(KEPT_AS_JSON), len(KEPT_AS_JSON) + len(LOST_AS_JSON))]
        assert here.verify().evidence == (("lossy-ok", "body_j (derived)", str(len(lost)), *lost),)


def test_b36_json_null_a_missing_member_and_sql_null_are_three_things(primary: Server, schema: str) -> None:
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, doc JSON NULL); INSERT INTO t VALUES"
        """ (1,'{"score":7}'),(2,'{"score":null}'),(3,'{}'),(4,NULL),(5,'{"score":"null"}'),(6,'{"score":""}')"""
    )
    rule = derived("score_n", "JSON_VALUE(doc, '$.score')")
    with case(primary, schema, ddl, new_column("score_n", "varchar(10)"), rule) as here:
        assert here.fill().result is Result.DONE
        assert here.on.all("score_n") == ["7", None, None, None, "null", ""]


def test_b37_money_is_rounded_by_what_is_shown(primary: Server, schema: str) -> None:
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, amount DOUBLE NULL); INSERT INTO t VALUES"
        " (1,1.005),(2,0.29),(3,2.5),(4,0.025),(5,-0.025),(6,19.99),(7,NULL)"
    )
    rule = derived("cents", "ROUND(CAST(CAST(amount AS CHAR) AS DECIMAL(20,6)) * 100)")
    with case(primary, schema, ddl, new_column("cents", "bigint"), rule) as here:
        here.passes("cents", [101, 29, 250, 3, -3, 1999, None])


def test_b39_a_float_is_compared_by_the_expression_that_filled_it(primary: Server, schema: str) -> None:
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, f FLOAT); INSERT INTO t VALUES (1, 0.1), (2, 0.25)"
    with case(primary, schema, ddl, new_column("n", "decimal(12,4)"), derived("n", "ROUND(f, 4)")) as here:
        assert here.fill().result is Result.DONE
        assert here.on.all("n * 10000") == [1000, 2500]
        assert here.verify().result is Result.DONE


def test_b40_a_difference_below_zero_is_computed_and_named_and_never_an_error(primary: Server, schema: str) -> None:
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, qty INT UNSIGNED, sold INT UNSIGNED);"
        " INSERT INTO t VALUES (1, 5, 3), (2, 3, 5)"
    )
    with case(primary, schema, ddl, new_column("left_n", "int unsigned"), derived("left_n", "qty - sold")) as here:
        assert (here.problems(), here.keys()) == ([("'-2'", 1, "unfit")], [("2",)])
    with case(primary, schema, "SELECT 1", new_column("rest_n", "int"), derived("rest_n", "qty - sold")) as here:
        here.passes("rest_n", [2, -2])


RAISING = {
    "CAST(qty AS UNSIGNED) - CAST(sold AS UNSIGNED)": ("3", "7"),
    "IF(sold > 0, EXP(qty * 1000), NULL)": ("1", "2", "4", "5", "6"),
    "big * big * big": ("4",),
    "big * 10000000000": ("4",),
    "wide + wide": ("5",),
}


@pytest.mark.parametrize("expression", RAISING)
def test_b40_an_expression_that_is_an_error_for_some_rows_is_refused_with_their_keys_and_stops_a_batch_at_once(
    primary: Server, schema: str, expression: str
) -> None:
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, qty INT UNSIGNED, sold INT UNSIGNED, big INT, wide DOUBLE);"
        " INSERT INTO t VALUES (1, 5, 3, 1, 1), (2, 3, 3, 1, 1), (3, 0, 5, 1, 1), (4, 9, 1, 2000000000, 1),"
        " (5, 2, 2, 1, 1e308), (6, 4, 1, 1, 1), (7, 0, 1, 1, 1)"
    )
    with case(primary, schema, ddl, new_column("left_n", "double"), derived("left_n", expression)) as here:
        assert here.keys() == [RAISING[expression]]
        ((value, rows, problem),) = here.problems()
        assert (value, rows) == ("what it computes", len(RAISING[expression]))
        assert problem.startswith("an error (1690 ")
        outcome = here.fill(1000)
        assert outcome.result is Result.FAILED
        assert outcome.evidence == (("poison", "", "1690", RAISING[expression][0]),)
        assert outcome.figures["retries"] == 0
        assert here.on.all("COUNT(left_n)", "1") == [0]


def test_b42_columns_with_on_update_stay_as_they_are_and_right_rows_are_not_written(
    primary: Server, schema: str
) -> None:
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, kind VARCHAR(8) NOT NULL, updatedAt DATETIME(3) NOT NULL DEFAULT"
        " CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), touched TIMESTAMP NULL ON UPDATE CURRENT_TIMESTAMP);"
        " INSERT INTO t (id, kind, updatedAt) VALUES (1,'news','2001-01-01'),(2,'blog','2001-01-01'),"
        "(3,'news','2001-01-01')"
    )
    rule = derived("kind_n", "IF(kind = 'news', 1, 2)")
    with case(primary, schema, ddl, new_column("kind_n", "tinyint"), rule) as here:
        here.passes("kind_n", [1, 2, 1])
        assert here.on.all("updatedAt = '2001-01-01' AND touched IS NULL") == [1, 1, 1]
        script(primary, "DELETE FROM _rollout.position")
        again = FillDriver(here.site()).apply(
            Fill(table=TableName(schema, "t"), walk=2, pass_name="backfill", target_time_s=60.0, max_batch_rows=2),
            ToldBeat(),
        )
        assert again.figures["rows_changed"] == 0


def test_b133_null_case_and_blanks_are_seen(primary: Server, schema: str) -> None:
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, old_v VARCHAR(10) COLLATE utf8mb4_general_ci NULL,"
        " new_v VARCHAR(10) COLLATE utf8mb4_general_ci NULL);"
        " INSERT INTO t VALUES (1,'a','a'),(2,'b',NULL),(3,NULL,'c'),(4,NULL,NULL),(5,'Dd','dd'),(6,'e','e ')"
    )
    with case(primary, schema, ddl, new_column("new_v", "varchar(10)"), copied("new_v", "old_v")) as here:
        outcome = here.verify()
        assert outcome.result is Result.FAILED
        assert outcome.figures["mismatches"] == 4
        assert outcome.evidence == (
            ("stale", "old_v ↔ new_v", "3", "3", "5", "6"),
            ("missing", "old_v ↔ new_v", "1", "2"),
        )


def test_b135_a_difference_behind_the_first_kilobyte_is_seen(primary: Server, schema: str) -> None:
    ddl = (
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), a_n VARCHAR(20));"
        " INSERT INTO t WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 200)"
        " SELECT i, CONCAT('value ', i), CONCAT('value ', i, IF(i = 190, '!', '')) FROM n"
    )
    with case(primary, schema, ddl, new_column("a_n", "varchar(20)"), copied("a_n", "a")) as here:
        assert here.verify().evidence == (("stale", "a ↔ a_n", "1", "190"),)
