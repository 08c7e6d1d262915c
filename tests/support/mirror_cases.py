"""Pairs of every kind, each with values that fit, that its mapping does not know, that the other side cannot hold."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from orchestrator.model.contract import Expression, Match, Unmapped
from tests.support.mirror_model import COPY, Lost, PairCase, value_map
from tests.support.mirror_model import spec as mapped

UNMAPPED, UNFIT = Lost.UNMAPPED, Lost.UNFIT

STATUS_THERE = {"pending": "pending", "processing": "running", "completed": "succeeded", "failed": "failed"}
STATUS_BACK = {
    "pending": "pending",
    "locked": "processing",
    "running": "processing",
    "succeeded": "completed",
    "failed": "failed",
    "cancelled": "failed",
}
CODES = {"done": 3, "open": 1, None: 0}
LOUD = {"DONE": 3, "done": 3, "dóne": 3, "done ": 3, "open": 1}


def within(low: int, high: int) -> Any:
    return lambda v: v if v is None or low <= v <= high else UNFIT


def as_is(value: Any) -> Any:
    return value


def longest(length: int) -> Any:
    return lambda v: v if v is None or len(v) <= length else UNFIT


def keep_code(value: Any) -> Any:
    known = {"a": "alpha", "b": None}
    if value in known:
        return known[value]
    return longest(6)(value)


def keep_back(value: Any) -> Any:
    return {"alpha": "a", None: "b"}.get(value, value)


def seconds(value: int) -> int:
    return max(-(2**31), min(-(-value // 1000), 2**31 - 1))


def document(text: Any) -> Any:
    try:
        return None if text is None else json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return UNFIT


def whole(text: Any) -> Any:
    if text is None:
        return None
    plain = re.fullmatch(r"0|-?[1-9][0-9]*", text)
    return int(text) if plain and -(2**31) <= int(text) < 2**31 else UNFIT


def unhex(text: Any) -> Any:
    if text is None:
        return None
    try:
        return bytes.fromhex(text if len(text) % 2 == 0 else "0" + text)
    except ValueError:
        return UNMAPPED


def latin(text: Any) -> Any:
    try:
        return text if text is None else text.encode("cp1252").decode("cp1252")
    except UnicodeEncodeError:
        return UNFIT


def short_char(text: Any) -> Any:
    return text if text is None or (len(text) <= 4 and not text.endswith(" ")) else UNFIT


def one_digit(value: Any) -> Any:
    return value if value is None or (abs(value) < 10**5 and value == value.quantize(Decimal("0.1"))) else UNFIT


def whole_second(text: Any) -> Any:
    if text is None:
        return None
    return text[:19] if text.endswith(".000000") and text[5:7] != "00" and text[8:10] != "00" else UNFIT


def midnight(text: Any) -> Any:
    return text if text is None else text[:10] if text.endswith(" 00:00:00") else UNFIT


def instant(text: Any) -> Any:
    return text if text is None or "1970-01-01 00:00:01" <= text <= "2038-01-19 03:14:07" else UNFIT


def cents(value: Any) -> Any:
    if value is None:
        return None
    return Decimal(f"{value:.2f}") if round(value, 2) == value and abs(value) < 1e6 else UNFIT


def optional(way: Any) -> Any:
    return lambda v: None if v is None else way(v)


BACKSLASH = 'back\\slash "dq"'
CASES: tuple[PairCase, ...] = (
    PairCase(
        "status",
        "VARCHAR(32) NOT NULL DEFAULT 'pending'",
        "varchar(32)",
        mapped(STATUS_THERE),
        mapped(STATUS_BACK),
        value_map(STATUS_THERE),
        value_map(STATUS_BACK),
        ("pending", "processing", "completed", "failed", "weird", "COMPLETED", "failed ", ""),
        (None, "pending", "locked", "running", "succeeded", "cancelled", "paused", "Running"),
        old_default="pending",
    ),
    PairCase(
        "code",
        "VARCHAR(20) COLLATE utf8mb4_unicode_ci NULL",
        "tinyint",
        mapped(CODES),
        mapped({3: "done", 1: "open", 0: None}),
        value_map(CODES),
        value_map({3: "done", 1: "open", 0: None}),
        (None, "done", "DONE", "done ", "dóne", "open", " open", "done\0", "do\u200dne"),
        (None, 0, 1, 3, 7),
    ),
    PairCase(
        "loud",
        "VARCHAR(20) COLLATE utf8mb4_unicode_ci NULL",
        "tinyint",
        mapped({"done": 3, "open": 1}, match=Match.COLLATION),
        mapped({3: "done", 1: "open"}),
        value_map(LOUD),
        value_map({3: "done", 1: "open"}),
        (None, "done", "DONE", "done ", "dóne", "open", " open"),
        (None, 1, 3, 7),
    ),
    PairCase(
        "keep",
        "VARCHAR(12) COLLATE utf8mb4_unicode_ci NULL",
        "varchar(6)",
        mapped({"a": "alpha", "b": None}, Unmapped.KEEP),
        mapped({"alpha": "a", None: "b"}, Unmapped.KEEP),
        keep_code,
        keep_back,
        (None, "a", "b", "A", "six6", "seven77", "x" * 12, "é" * 6),
        (None, "alpha", "a", "six6", "é" * 6),
    ),
    PairCase(
        "slash",
        "VARCHAR(40) NOT NULL",
        "enum('bs','it''s','plain')",
        mapped({BACKSLASH: "bs", "it's": "it's", "plain": "plain"}),
        mapped({"bs": BACKSLASH, "it's": "it's", "plain": "plain"}),
        value_map({BACKSLASH: "bs", "it's": "it's", "plain": "plain"}),
        value_map({"bs": BACKSLASH, "it's": "it's", "plain": "plain"}),
        (BACKSLASH, "it's", "plain", "other"),
        (None, "bs", "it's", "plain"),
        old_default=UNMAPPED,
    ),
    PairCase(
        "tries",
        "BIGINT NULL DEFAULT 0",
        "smallint NOT NULL DEFAULT 0",
        COPY,
        COPY,
        lambda v: UNFIT if v is None else within(-32768, 32767)(v),
        as_is,
        (None, 0, 1, -1, 32767, 40000, 2**63 - 1, -(2**63)),
        (0, 1, 7, -32768),
        old_default=0,
        new_default=0,
    ),
    PairCase(
        "time",
        "INT NOT NULL DEFAULT 120",
        "bigint NOT NULL DEFAULT 120000",
        Expression("OLD * 1000"),
        Expression("LEAST(GREATEST(NEW DIV 1000 + (MOD(NEW, 1000) > 0), -2147483648), 2147483647)"),
        lambda v: v * 1000,
        lambda v: seconds(v) if v >= 0 else max(-(2**31), int(v / 1000)),
        (0, 1, 2, 120, 2**31 - 1, -5),
        (0, 1, 1500, 2000, 120000, 2**62, 999),
        old_default=120,
        new_default=120000,
    ),
    PairCase(
        "text",
        "VARCHAR(12) COLLATE utf8mb4_unicode_ci NULL",
        "varchar(6)",
        COPY,
        COPY,
        longest(6),
        as_is,
        (None, "", "abc", "ABC", "abc ", "seven77", "😀é"),
        (None, "", "abc", "ABC", "abc ", "😀"),
    ),
    PairCase(
        "vote",
        "ENUM('0','1','2') NULL",
        "tinyint",
        COPY,
        Expression("CAST(NEW AS CHAR)"),
        optional(int),
        optional(lambda v: str(v) if v in (0, 1, 2) else UNFIT),
        (None, "0", "1", "2"),
        (None, 0, 1, 2, 5),
    ),
    PairCase(
        "money",
        "DECIMAL(10,3) NULL",
        "decimal(6,1)",
        COPY,
        COPY,
        one_digit,
        as_is,
        (None, Decimal("1.500"), Decimal("1.050"), Decimal("-99999.900"), Decimal("100000.000"), Decimal("0.000")),
        (None, Decimal("1.5"), Decimal("0.0"), Decimal("-99999.9")),
    ),
    PairCase(
        "at",
        "DATETIME(6) NULL",
        "datetime",
        COPY,
        COPY,
        whole_second,
        optional(lambda v: v + ".000000"),
        (None, "2026-12-31 23:59:59.600000", "2026-06-30 12:00:00.000000", "0000-00-00 00:00:00.000000"),
        (None, "2026-06-30 12:00:00", "1000-01-01 00:00:00"),
        read_old="CAST({} AS CHAR)",
        read_new="CAST({} AS CHAR)",
    ),
    PairCase(
        "day",
        "DATETIME NULL",
        "date",
        COPY,
        COPY,
        midnight,
        optional(lambda v: v + " 00:00:00"),
        (None, "2026-06-30 12:00:00", "2026-06-30 00:00:00"),
        (None, "2026-06-30", "2024-02-29"),
        read_old="CAST({} AS CHAR)",
        read_new="CAST({} AS CHAR)",
    ),
    PairCase(
        "sent",
        "TIMESTAMP NULL",
        "datetime",
        Expression("'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP(OLD) SECOND"),
        Expression("FROM_UNIXTIME(TIMESTAMPDIFF(SECOND, '1970-01-01', NEW))"),
        as_is,
        instant,
        (None, "2026-07-01 10:00:00", "1970-01-02 00:00:01", "2038-01-18 03:14:07"),
        (None, "2026-07-01 10:00:00", "1960-01-01 00:00:00", "2040-01-01 00:00:00"),
        read_old="CAST({} AS CHAR)",
        read_new="CAST({} AS CHAR)",
        is_instant=True,
    ),
    PairCase(
        "body",
        "TEXT NULL",
        "json",
        COPY,
        COPY,
        document,
        as_is,
        (None, '{"b":1,"a":2}', '{"a": 2, "b": 1}', "{bad", "", "[1, 2]", '"x"'),
        (None, '{"a": 2, "b": 1}', "[1, 2]", "{}"),
        read_new="CAST({} AS CHAR)",
    ),
    PairCase(
        "flag",
        "BIT(1) NULL",
        "tinyint",
        COPY,
        COPY,
        as_is,
        within(0, 1),
        (None, 0, 1),
        (None, 0, 1, 2, -1),
        read_old="{} + 0",
    ),
    PairCase(
        "latin",
        "VARCHAR(10) CHARACTER SET latin1 NULL",
        "varchar(10)",
        COPY,
        COPY,
        as_is,
        latin,
        (None, "é", "“q”", "?", "plain"),
        (None, "é", "😀", "日本", "?", "plain"),
    ),
    PairCase(
        "number",
        "INT NULL",
        "varchar(11)",
        COPY,
        COPY,
        optional(str),
        whole,
        (None, 0, 5, -7, 2**31 - 1),
        (None, "0", "5", "007", "abc", "", "-0", "99999999999", "5 ", "-7"),
    ),
    PairCase(
        "hex",
        "VARBINARY(4) NULL",
        "varchar(8)",
        Expression("HEX(OLD)"),
        Expression("UNHEX(NEW)"),
        optional(lambda v: v.hex().upper()),
        unhex,
        (None, b"", b"\x00\xff", b"abcd"),
        (None, "", "00FF", "00ff", "zz", "ABC"),
    ),
    PairCase(
        "pad",
        "VARCHAR(6) NULL",
        "char(4)",
        COPY,
        COPY,
        short_char,
        as_is,
        (None, "ab", "ab ", "abcd", "abcde", ""),
        (None, "ab", "abcd", ""),
    ),
    PairCase(
        "price",
        "DOUBLE NULL",
        "decimal(8,2)",
        COPY,
        COPY,
        cents,
        optional(float),
        (None, 0.1, 1.005, 19.99, 1e9, -0.5),
        (None, Decimal("0.10"), Decimal("19.99"), Decimal("999999.99")),
    ),
    PairCase(
        "left",
        "INT UNSIGNED NOT NULL DEFAULT 1",
        "int",
        Expression("OLD - 1"),
        Expression("NEW + 1"),
        lambda v: within(-(2**31), 2**31 - 1)(v - 1),
        lambda v: UNFIT if v is None or v < -1 else v + 1,
        (0, 1, 5, 2**32 - 1),
        (None, -1, 0, 5, -9, 2**31 - 1),
        old_default=1,
    ),
    PairCase(
        "wide",
        "BIGINT NULL",
        "bigint",
        Expression("OLD * 1000"),
        Expression("NEW DIV 1000"),
        optional(lambda v: within(-(2**63), 2**63 - 1)(v * 1000)),
        optional(lambda v: abs(v) // 1000 * (1 if v >= 0 else -1)),
        (None, 0, 7, 2**63 - 1, -(2**63)),
        (None, 0, 7000, 7001, 2**63 - 1),
    ),
    PairCase(
        "mood",
        "VARCHAR(10) COLLATE utf8mb4_unicode_ci NULL",
        "enum('sad','ok','1')",
        COPY,
        COPY,
        lambda v: v if v in (None, "sad", "ok", "1") else UNFIT,
        as_is,
        (None, "sad", "ok", "OK", "ok ", "1", "2", ""),
        (None, "sad", "ok", "1"),
    ),
    PairCase(
        "stamp",
        "DATETIME NULL",
        "timestamp",
        Expression("FROM_UNIXTIME(TIMESTAMPDIFF(SECOND, '1970-01-01', OLD))"),
        Expression("TIMESTAMP'1970-01-01 00:00:00' + INTERVAL UNIX_TIMESTAMP(NEW) SECOND"),
        instant,
        as_is,
        (None, "2026-07-01 10:00:00", "1960-01-01 00:00:00", "2040-01-01 00:00:00"),
        (None, "2026-07-01 10:00:00", "2038-01-18 03:14:07"),
        read_old="CAST({} AS CHAR)",
        read_new="CAST({} AS CHAR)",
        is_instant=True,
    ),
    PairCase(
        "bits",
        "INT NULL",
        "bit(3)",
        COPY,
        COPY,
        within(0, 7),
        as_is,
        (None, 0, 5, 7, 8, -1),
        (None, 0, 5, 7),
        read_new="{} + 0",
    ),
    PairCase(
        "ratio",
        "DOUBLE NULL",
        "float",
        COPY,
        COPY,
        lambda v: UNFIT if v == 0.1 or (v is not None and abs(v) > 1e30) else v,
        as_is,
        (None, 0.5, -2.25, 0.1, 1e300),
        (None, 0.5, 8.0),
    ),
    PairCase(
        "clock",
        "TIME(3) NULL",
        "time(1)",
        COPY,
        COPY,
        lambda v: v if v is None else UNFIT if not v.endswith("00") else v[:-2],
        optional(lambda v: v + "00"),
        (None, "10:00:00.500", "10:00:00.550", "-838:59:58.000"),
        (None, "10:00:00.5", "00:00:00.0"),
        read_old="CAST({} AS CHAR)",
        read_new="CAST({} AS CHAR)",
    ),
    PairCase(
        "year",
        "YEAR NULL",
        "smallint",
        COPY,
        COPY,
        as_is,
        lambda v: v if v is None or v == 0 or 1901 <= v <= 2155 else UNFIT,
        (None, 1999, 2155),
        (None, 1999, 99, 3000, 0),
    ),
)
