"""Keys of every kind that a table may be walked by: how such a table is made, and keys for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from orchestrator.sandbox.server import Server
from tests.support.servers import connect

TEXT = st.text(st.sampled_from(list("aAbBßsSéeÉ ñ\0'\\%_😀\t")), max_size=6)
EDGES = st.sampled_from([0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1])
DECIMALS = st.decimals(min_value=-(10**19), max_value=10**19, places=10, allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes().map(lambda d: d.replace(year=2026, month=1, day=1, hour=0, minute=0, second=d.second % 2))
LONGEST = timedelta(hours=838)
LABELS = ["zz", "aa", "", "mm", "b'b"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A key: the columns, the index over them, and values for one key."""

    columns: str
    index: str
    key: st.SearchStrategy[tuple[Any, ...]]
    samples: tuple[Any, ...]
    constraint: str = "PRIMARY KEY"

    @property
    def parts(self) -> int:
        return self.columns.count("k")

    def make(self, server: Server, table: str, keys: Sequence[tuple[Any, ...]] | None = None) -> int:
        """``table`` (schema and name) anew, with ``keys`` (left out: the samples) and ``v`` 0; how many rows it has.

        Keys that the server takes for equal are one row.
        """
        names = ", ".join([*(f"k{n}" for n in range(self.parts)), "v"])
        holes = ", ".join([*["%s"] * self.parts, "0"])
        index = f", {self.constraint} ({self.index})" if self.index else ""
        columns = f"{self.columns}, " if self.columns else ""
        with closing(connect(server, sql_mode="")) as session, session.cursor() as cursor:
            cursor.execute(f"SET SESSION sql_generate_invisible_primary_key = {int(not self.index)}")
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
            cursor.execute(f"CREATE TABLE {table} ({columns}v INT NOT NULL DEFAULT 0{index})")
            for key in self.wrapped if keys is None else keys:
                cursor.execute(f"INSERT IGNORE INTO {table} ({names}) VALUES ({holes})", key)
            cursor.execute(f"SELECT COUNT(*) FROM {table}")
            ((rows,),) = cursor.fetchall()
        return int(rows)

    @property
    def wrapped(self) -> Sequence[tuple[Any, ...]]:
        """The samples, each a tuple."""
        return [key if isinstance(key, tuple) else (key,) for key in self.samples]


KINDS = {
    "bigint-unsigned": Kind(
        "k0 BIGINT UNSIGNED",
        "k0",
        st.tuples(EDGES | st.integers(0, 2**64 - 1)),
        (0, 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1),
    ),
    "int-signed": Kind(
        "k0 INT", "k0", st.tuples(st.integers(-(2**31), 2**31 - 1)), (-(2**31), -2, -1, 0, 1, 7, 2**31 - 1)
    ),
    "varchar-unicode": Kind(
        "k0 VARCHAR(10) COLLATE utf8mb4_unicode_ci",
        "k0",
        st.tuples(TEXT),
        ("", "aB", "Ss", "ßz", "é", "Z😀", "zz'", "\\%"),
    ),
    "varchar-0900-as-cs": Kind(
        "k0 VARCHAR(10) COLLATE utf8mb4_0900_as_cs", "k0", st.tuples(TEXT), ("", "a", "A", "á", "ß", "ss", "😀", "ñ'")
    ),
    "varchar-bin": Kind(
        "k0 VARCHAR(10) COLLATE utf8mb4_bin", "k0", st.tuples(TEXT), ("", "A", "a", "a\0", "é", "😀", "'", "\\")
    ),
    "char-latin1": Kind(
        "k0 CHAR(8) CHARACTER SET latin1",
        "k0",
        st.tuples(st.text(st.sampled_from(list("aAbéß ñ")), max_size=6)),
        ("", "A", "b", "é", "ß", "ñ", "zz"),
    ),
    "binary-16": Kind(
        "k0 BINARY(16)",
        "k0",
        st.tuples(st.binary(min_size=0, max_size=16)),
        (
            b"",
            b"\0" * 15 + b"\xff",
            b"''\\\\%\n\r\x1a'''''''\0",
            b"''\\\\%\n\r\x1a''''''' ",
            b"\xf0\x9f\x98\x80",
            b"\xff" * 16,
        ),
    ),
    "varbinary": Kind(
        "k0 VARBINARY(8)",
        "k0",
        st.tuples(st.binary(max_size=4)),
        (b"", b"\0", b"a", b"a ", b"a\0", b"\xff\xfe", b"'\\"),
    ),
    "decimal": Kind(
        "k0 DECIMAL(30,10)",
        "k0",
        st.tuples(DECIMALS),
        tuple(
            map(
                Decimal,
                (
                    "-12345678901234567890.0000000002",
                    "-12345678901234567890.0000000001",
                    "0",
                    "1E-10",
                    "2E-10",
                    "12345678901234567890.0000000001",
                    "12345678901234567890.0000000002",
                ),
            )
        ),
    ),
    "datetime-6": Kind(
        "k0 DATETIME(6)",
        "k0",
        st.tuples(MOMENTS),
        tuple(datetime(2026, 1, 1, 0, 0, 0, micro) for micro in (0, 1, 2, 3, 499999, 500000, 999999)),
    ),
    "timestamp-3": Kind(
        "k0 TIMESTAMP(3)",
        "k0",
        st.tuples(MOMENTS),
        tuple(datetime(2026, 3, 29, 1, 59, 59, micro) for micro in (0, 1000, 2000, 500000, 998000, 999000)),
    ),
    "time-6": Kind(
        "k0 TIME(6)",
        "k0",
        st.tuples(st.timedeltas(min_value=-LONGEST, max_value=LONGEST)),
        (-LONGEST, timedelta(microseconds=-1), timedelta(), timedelta(microseconds=1), timedelta(hours=25), LONGEST),
    ),
    "date": Kind(
        "k0 DATE",
        "k0",
        st.tuples(st.dates() | st.just("0000-00-00")),
        ("0000-00-00", "1000-01-01", "1969-12-31", "2026-02-28", "2038-01-20", "9999-12-31"),
    ),
    "year": Kind("k0 YEAR", "k0", st.tuples(st.integers(1901, 2155) | st.just(0)), (0, 1901, 1970, 2026, 2069, 2155)),
    "enum": Kind(
        f"k0 ENUM({','.join(repr(x) for x in LABELS[:4])},'b''b')",
        "k0",
        st.tuples(st.sampled_from(LABELS)),
        ("zz", "aa", "", "mm", "b'b"),
    ),
    "mixed-directions": Kind(
        "k0 ENUM('zz','aa','mm'), k1 VARCHAR(6) COLLATE utf8mb4_unicode_ci, k2 BIGINT UNSIGNED",
        "k0 DESC, k1, k2 DESC",
        st.tuples(st.sampled_from(["zz", "aa", "mm"]), TEXT, EDGES),
        (
            ("zz", "a", 0),
            ("zz", "a", 2**64 - 1),
            ("zz", "B", 2**53 + 1),
            ("aa", "", 1),
            ("aa", "ß", 2**53),
            ("mm", "é", 2**63),
            ("mm", "e😀", 5),
        ),
    ),
    "number-and-text": Kind(
        "k0 BIGINT UNSIGNED, k1 VARCHAR(20) COLLATE utf8mb4_0900_ai_ci",
        "k0, k1",
        st.tuples(EDGES, TEXT | EDGES.map(str)),
        ((2**53, "1"), (2**53 + 1, "1"), (2**64 - 3, "1"), (2**64 - 2, "1"), (2**64 - 2, "2"), (2**64 - 1, "1")),
    ),
    "moment-and-bytes": Kind(
        "k0 DATETIME(6), k1 BINARY(4)",
        "k0, k1 DESC",
        st.tuples(MOMENTS, st.binary(max_size=4)),
        tuple((datetime(2026, 1, 1, 0, 0, second, 5), key) for second in (0, 1) for key in (b"", b"\xff", b"a ")),
    ),
    "generated-invisible": Kind("", "", st.just(()), ((),) * 7),
    "unique-without-primary": Kind(
        "k0 VARCHAR(8) NOT NULL COLLATE utf8mb4_0900_ai_ci, k1 INT NOT NULL",
        "k1 DESC, k0",
        st.tuples(TEXT, st.integers(-9, 9)),
        (("", 1), ("a", 1), ("é", 1), ("a", -1), ("b", 0), ("ß", 7)),
        "UNIQUE",
    ),
}
