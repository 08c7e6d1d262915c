"""What can go wrong with a row, and the kinds of keys under which it must be found: the two sides of the detection
table, as data for the benchmark and for the tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchestrator.model.contract import Column, Contract, Copy, Expression, Invariant, Mapping, TableName, ValueMap
from orchestrator.model.types import parse_type

SCHEMA = "detection"
ROWS = 400
STEP = 10
_STATES = (("new", "pending"), ("work", "running"), ("done", "succeeded"), ("err", "failed"))
_BACK = (*((new, old) for old, new in _STATES), ("cancelled", "err"))
# Pairs that are copied: name, type. The new column is NAME_n.
_COPIED = {
    "note": "varchar(40)",
    "body": "text",
    "image": "blob",
    "at": "timestamp(6)",
    "moment": "datetime(6)",
    "amount": "decimal(30,10)",
    "ratio": "double",
    "doc": "json",
    "choice": "enum('a','b')",
    "flags": "set('x','y')",
}
OLD = ("status", "timeout_s", "code", *_COPIED, "made_at", "changed_at")
_COLUMNS = (
    "status VARCHAR(20) NOT NULL, timeout_s INT NOT NULL, code VARCHAR(40) NOT NULL, "
    + ", ".join(f"`{name}` {kind} NULL" for name, kind in _COPIED.items())
    + ", made_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),"
    " changed_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),"
    " state VARCHAR(32) NULL, timeout_ms BIGINT NULL, kind VARCHAR(16) NULL, label VARCHAR(60) NULL,"
    " code_n VARCHAR(8) NULL, "
    + ", ".join(f"{name}_n {kind} NULL" for name, kind in _COPIED.items())
    + ", KEY by_made (made_at), KEY by_changed (changed_at)"
)


@dataclass(frozen=True, slots=True)
class KeyKind:
    """``columns`` and ``key`` make the table; ``values`` are the parts of the key of the n-th row, as SQL over n."""

    name: str
    columns: str
    key: str
    values: tuple[str, ...]
    names: tuple[str, ...] = ("k0",)

    def at(self, *numbers: int | str) -> str:
        """A condition for the rows of these numbers."""
        one = [" AND ".join(f"{c} = {v}" for c, v in zip(self.names, self.values_of(n), strict=True)) for n in numbers]
        return "(" + " OR ".join(f"({c})" for c in one) + ")"

    def values_of(self, number: int | str) -> tuple[str, ...]:
        return tuple(v.replace("{n}", str(number)) for v in self.values)

    def create(self, table: str) -> str:
        own = f"{self.columns}, " if self.columns else ""
        key = f", {self.key}" if self.key else ""
        return f"CREATE TABLE {table} ({own}{_COLUMNS}{key})"


def _keyed(name: str, column: str, value: str, key: str = "PRIMARY KEY (k0)") -> KeyKind:
    return KeyKind(name, f"k0 {column} NOT NULL", key, (value,))


_TEXT = "CONCAT(ELT(1 + {n} %% 3, 'k', 'É', ' '), LPAD({n}, 6, '0'))".replace("%%", "%")
_BYTES = "UNHEX(LPAD(HEX({n} * 65537), %d, '0'))"
KEYS = (
    _keyed("bigint unsigned", "BIGINT UNSIGNED", "(18446744073709451615 + {n})"),
    _keyed("int", "INT", "({n} - 2000)"),
    _keyed("descending", "INT", "{n}", "PRIMARY KEY (k0 DESC)"),
    _keyed("varchar unicode_ci", "VARCHAR(12) COLLATE utf8mb4_unicode_ci", _TEXT),
    _keyed("varchar 0900_as_cs", "VARCHAR(12) COLLATE utf8mb4_0900_as_cs", _TEXT),
    _keyed("char latin1", "CHAR(12) CHARACTER SET latin1", _TEXT),
    _keyed("binary(16)", "BINARY(16)", _BYTES % 32),
    _keyed("varbinary", "VARBINARY(12)", _BYTES % 16),
    _keyed("decimal", "DECIMAL(30,10)", "({n} / 7 - 100.0000000001)"),
    _keyed("datetime(6)", "DATETIME(6)", "('2024-01-01' + INTERVAL {n} MICROSECOND)"),
    _keyed("unique, no primary", "BIGINT", "({n} * 3)", "UNIQUE KEY only_one (k0)"),
    KeyKind("generated, invisible", "", "", ("{n}",), ("my_row_id",)),
    KeyKind(
        "composite, mixed",
        "k0 ENUM('zz','aa','mm') NOT NULL, k1 VARCHAR(8) COLLATE utf8mb4_unicode_ci NOT NULL, k2 BIGINT NOT NULL",
        "PRIMARY KEY (k0 DESC, k1, k2 DESC)",
        ("ELT(1 + {n} % 3, 'zz', 'aa', 'mm')", "CONCAT('t', {n} % 17)", "{n}"),
        ("k0", "k1", "k2"),
    ),
    KeyKind(
        "moment and bytes",
        "k0 DATETIME(6) NOT NULL, k1 BINARY(4) NOT NULL",
        "PRIMARY KEY (k0, k1 DESC)",
        ("('2024-01-01' + INTERVAL ({n} DIV 50) SECOND)", _BYTES % 8),
        ("k0", "k1"),
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Corruption:
    """``change`` is a SET list for the row, or with ``whole`` a statement over {t}, {at} and {new}. ``rows``: how many
    rows it makes wrong; ``like``: the number of the row whose values a new one takes."""

    name: str
    change: str
    whole: bool = False
    rows: tuple[int, ...] = (0,)
    where: str = ""
    mode: str = "old-is-truth"


def _set(name: str, change: str, **more: object) -> Corruption:
    return Corruption(name, change, **more)  # type: ignore[arg-type]  # keywords of Corruption


_ONE_BIT = "CONCAT(LEFT(image, 99), CHAR(ASCII(SUBSTR(image, 100)) ^ 1), SUBSTR(image, 101))"
# What the relation must find. Places are given to them in ``placed``.
WRONG_PAIRS = (
    _set("missing: never filled", "state = NULL"),
    _set("first row", "state = NULL", where="first"),
    _set("last row", "state = NULL", where="last"),
    _set("stale: the old one moved on", "timeout_s = timeout_s + 1, label = CONCAT(status, '-', timeout_s)"),
    _set("stale: off by one", "timeout_ms = timeout_ms + 1"),
    _set("unmapped: a blank behind the value", "status = 'done ', label = CONCAT(status, '-', timeout_s)"),
    _set("unmapped: another case", "status = 'DONE', label = CONCAT(status, '-', timeout_s)"),
    _set("unfit: longer than the column", "code = '123456789'"),
    _set("derived and empty", "kind = NULL"),
    _set("derived, does not follow", "label = CONCAT(label, '!')"),
    _set("invariant broken", "timeout_s = -1, timeout_ms = -1000, label = CONCAT(status, '-', timeout_s)"),
    _set("one bit in a blob", f"image_n = {_ONE_BIT}"),
    _set("blob without its last byte", "image_n = LEFT(image, LENGTH(image) - 1)"),
    _set("NULL made empty", "note = NULL, note_n = ''"),
    _set("empty made NULL", "note = '', note_n = NULL"),
    _set("trailing blank", "note_n = CONCAT(note, ' ')"),
    _set("trailing NUL", "note_n = CONCAT(note, CHAR(0))"),
    _set("case", "note_n = UPPER(note)"),
    _set("accent lost", "note_n = REPLACE(note, 'ä', 'a')"),
    _set("accent composed otherwise", "note_n = REPLACE(note, 'ä', _utf8mb4 x'61cc88')"),
    _set("character that nobody sees", "note_n = CONCAT(note, _utf8mb4 x'e2808d')"),
    _set("truncated text", "body_n = LEFT(body, 255)"),
    _set("text of twice decoded UTF-8", "body_n = CONVERT(CAST(CONVERT(body USING utf8mb4) AS BINARY) USING latin1)"),
    _set("wrong hour of a zone", "at_n = at + INTERVAL 1 HOUR"),
    _set("moment rounded", "moment_n = DATE_FORMAT(moment, '%Y-%m-%d %H:%i:%s')"),
    _set("last digit of a decimal", "amount_n = amount + 0.0000000001"),
    _set("decimal through a double", "amount_n = CAST(CAST(amount AS DOUBLE) AS DECIMAL(30,10))"),
    _set("last bit of a double", "ratio = 0.1e0 + 0.2e0, ratio_n = 0.3e0"),
    _set("minus zero", "ratio = 0e0, ratio_n = -0e0"),
    _set("member of JSON in another case", "doc_n = REPLACE(doc, 'Ann', 'ann')"),
    _set("JSON null for NULL", "doc = NULL, doc_n = 'null'"),
    _set("label of an ENUM", "choice_n = 3 - (choice + 0)"),
    _set("member of a SET", "flags_n = ''"),
    _set("new values of two rows swapped",
         "UPDATE {t} AS a JOIN {t} AS b SET a.body_n = b.body, b.body_n = a.body, a.changed_at = a.changed_at,"
         " b.changed_at = b.changed_at WHERE {a} AND {b}", whole=True, rows=(0, 1)),
    _set("row inserted into a gap", "{insert}", whole=True, where="gap"),
    _set("row before the first key", "{insert}", whole=True, where="before"),
    _set("row behind the last key", "{insert}", whole=True, where="behind"),
    _set("conflict: both written, apart", "state = 'cancelled'", mode="corresponds"),
    _set("conflict: new value unknown", "state = 'locked'", mode="corresponds"),
)  # fmt: skip
# What only a digest of whole rows, taken before, can find: old columns, and rows that come and go.
WRONG_ROWS = (
    _set("digest: one bit in a blob", f"image = {_ONE_BIT}"),
    _set("digest: value moved to the next column", "body = note, note = NULL"),
    _set("digest: border between two columns moved", "note = CONCAT(note, LEFT(body, 1)), body = SUBSTR(body, 2)"),
    _set("digest: two values of one length swapped",
         "UPDATE {t} AS a JOIN {t} AS b SET a.image = b.image, b.image = a.image, a.changed_at = a.changed_at,"
         " b.changed_at = b.changed_at WHERE {a} AND {b}", whole=True, rows=(0, 1)),
    _set("digest: row under another key", "UPDATE {t} SET {rekey}, changed_at = changed_at WHERE {a}", whole=True),
    _set("digest: row twice, under a new key", "{insert}", whole=True, where="gap"),
    _set("digest: row gone", "DELETE FROM {t} WHERE {a}", whole=True),
    _set("digest: time of the last change touched", "changed_at = changed_at + INTERVAL 1 MICROSECOND"),
    _set("digest: NULL made empty", "note = ''"),
    _set("digest: trailing blank", "note = CONCAT(note, ' ')"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Placed:
    """A corruption at its own rows; ``numbers`` are the rows that must be named."""

    corruption: Corruption
    numbers: tuple[int, ...]


_PLACES = {"first": (STEP,), "last": (STEP * ROWS,), "gap": (1555,), "before": (1,), "behind": (STEP * ROWS + 77,)}


def placed(corruptions: tuple[Corruption, ...]) -> tuple[Placed, ...]:
    """Each at rows of its own, so that all of them can stand in one table at once."""
    found, free = [], iter(range(STEP * 20, STEP * ROWS, STEP * 3))
    for corruption in corruptions:
        numbers = _PLACES.get(corruption.where) or tuple(next(free) for _ in corruption.rows)
        found.append(Placed(corruption, numbers))
    return tuple(found)


def statement(place: Placed, kind: KeyKind, table: str, *, rekey: int = 7777) -> str:
    """The SQL that makes the rows of ``place`` wrong."""
    numbers, change = place.numbers, place.corruption.change
    if not place.corruption.whole:
        kept = "" if "changed_at" in change else ", changed_at = changed_at"
        return f"UPDATE {table} SET {change}{kept} WHERE {kind.at(numbers[0])}"
    pair = [kind.at(n).replace("(", "(", 1) for n in numbers]
    a, b = (_aliased(kind, pair[0], "a"), _aliased(kind, pair[-1], "b"))
    if "{a} AND {b}" not in change:
        a = pair[0]
    names, values = ", ".join(kind.names), ", ".join(kind.values_of(numbers[0]))
    columns = ", ".join(OLD)
    insert = f"INSERT INTO {table} ({names}, {columns}) SELECT {values}, {columns} FROM {table} WHERE {kind.at(STEP)}"
    set_key = ", ".join(f"{c} = {v}" for c, v in zip(kind.names, kind.values_of(rekey), strict=True))
    parts = {"{t}": table, "{a}": a, "{b}": b, "{insert}": insert, "{rekey}": set_key}
    for mark, text in parts.items():
        change = change.replace(mark, text)
    return change


def _aliased(kind: KeyKind, condition: str, alias: str) -> str:
    for name in kind.names:
        condition = condition.replace(f"{name} = ", f"{alias}.{name} = ")
    return condition


def contract(table: TableName) -> Contract:
    def new(name: str, kind: str) -> Column:
        return Column(name, parse_type(kind))

    return Contract(
        table=table,
        columns=(
            new("state", "varchar(32)"),
            new("timeout_ms", "bigint"),
            new("kind", "varchar(16)"),
            new("label", "varchar(60)"),
            new("code_n", "varchar(8)"),
            *(new(f"{name}_n", kind) for name, kind in _COPIED.items()),
        ),
        mappings=(
            Mapping("state", "status", ValueMap(_STATES), ValueMap(_BACK)),
            Mapping("timeout_ms", "timeout_s", Expression("timeout_s * 1000"), Expression("timeout_ms DIV 1000")),
            Mapping("kind", None, Expression("'order'")),
            Mapping("label", None, Expression("CONCAT(status, '-', timeout_s)"), follows=True),
            Mapping("code_n", "code", Copy(), Copy()),
            *(Mapping(f"{name}_n", name, Copy(), Copy()) for name in _COPIED),
        ),
        invariants=(Invariant("timeout-is-positive", "timeout_s >= 0"),),
    )


def seed(kind: KeyKind, table: str, rows: int = ROWS) -> str:
    """Rows with the numbers STEP, 2 STEP …, each filled as it should be, and old enough to be no news."""
    names, values = ", ".join(kind.names), ", ".join(kind.values_of("n.i"))
    old = (
        "ELT(1 + n.i DIV 10 % 4, 'new', 'work', 'done', 'err'), n.i % 90, LEFT(CONCAT('c', n.i), 8),"
        " CONCAT('Größe ä', n.i),"
        " CONCAT('ä body of ', REPEAT(CONCAT('text ', n.i, ' '), 40)), UNHEX(REPEAT(SHA2(n.i, 256), 8)),"
        " '2024-07-01 10:00:00.25' + INTERVAL n.i SECOND, '2024-07-01 10:00:00.654321' + INTERVAL n.i HOUR,"
        " 12345678901234567890.0123456789 + n.i, n.i / 3e0, JSON_OBJECT('name', 'Ann', 'n', n.i),"
        " ELT(1 + n.i DIV 10 % 2, 'a', 'b'), 'x,y', '2024-01-01', '2024-01-01'"
    )
    copied = ", ".join(f"{name}_n = {name}" for name in _COPIED)
    states = " ".join(f"WHEN '{old_}' THEN '{new}'" for old_, new in _STATES)
    return (
        f"INSERT INTO {table} ({names}, {', '.join(OLD)}) WITH RECURSIVE n AS (SELECT {STEP} AS i UNION ALL"
        f" SELECT i + {STEP} FROM n WHERE i < {STEP * rows}) SELECT {values}, {old} FROM n;"
        f" UPDATE {table} SET state = CASE status {states} END, timeout_ms = timeout_s * 1000, kind = 'order',"
        f" label = CONCAT(status, '-', timeout_s), code_n = code, {copied}, changed_at = changed_at"
    )


@dataclass
class Cells:
    """The table as it fills: what was found, what was missed, and what was named without being wrong."""

    found: dict[tuple[str, str], bool] = field(default_factory=dict)
    false_alarms: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        return sum(self.found.values()) / max(1, len(self.found))
