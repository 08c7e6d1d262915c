"""Column types as MySQL's information_schema spells them, taken apart once so that nobody else parses them."""

from __future__ import annotations

import re
from decimal import Decimal
from enum import Enum

from orchestrator.model.value import Value


class Family(Enum):
    """What kind of value a column holds; every rule about values is a match over this."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    BINARY = "binary"
    ENUM = "enum"
    SET = "set"
    TEMPORAL = "temporal"
    TIME = "time"
    YEAR = "year"
    JSON = "json"
    BIT = "bit"
    SPATIAL = "spatial"


_FAMILIES: dict[str, Family] = (
    dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), Family.INTEGER)
    | {"decimal": Family.DECIMAL}
    | dict.fromkeys(("float", "double"), Family.FLOAT)
    | dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), Family.TEXT)
    | dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"), Family.BINARY)
    | {"enum": Family.ENUM, "set": Family.SET, "json": Family.JSON, "bit": Family.BIT, "year": Family.YEAR}
    | dict.fromkeys(("date", "datetime", "timestamp"), Family.TEMPORAL)
    | {"time": Family.TIME}
    | dict.fromkeys(("geometry", "geomcollection", "point", "linestring", "polygon"), Family.SPATIAL)
    | dict.fromkeys(("multipoint", "multilinestring", "multipolygon"), Family.SPATIAL)
)
_ALIASES = {
    "integer": "int",
    "bool": "tinyint",
    "boolean": "tinyint",
    "dec": "decimal",
    "numeric": "decimal",
    "fixed": "decimal",
    "real": "double",
    "double precision": "double",
    "geometrycollection": "geomcollection",
}
_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_BYTE_LIMITS = {"tiny": 255, "": 65_535, "medium": 16_777_215, "long": 4_294_967_295}
# As many digits as the longest length of MySQL has.
LENGTH = re.compile("[0-9]{1,10}")
_TYPE = re.compile(
    r"^(?P<base>[a-z]+(?: precision)?)\s*(?:\((?P<args>.*)\))?\s*(?P<rest>[a-z ]*)$", re.IGNORECASE | re.DOTALL
)
_LABEL = re.compile(r"'((?:[^']|'')*)'\s*(?:,|$)")


class ColumnType(Value, frozen=True):
    """One column type. ``length`` is characters, bytes, bits or fraction digits, as the base says; ``scale`` is
    decimal only."""

    base: str
    length: int | None = None
    scale: int | None = None
    unsigned: bool = False
    labels: tuple[str, ...] = ()

    @property
    def family(self) -> Family:
        return _FAMILIES[self.base]

    @property
    def integer_range(self) -> tuple[int, int]:
        """Least and greatest value of an integer, bit or year type."""
        if self.base == "bit":
            return 0, 2 ** (self.length or 1) - 1
        if self.base == "year":
            return 1901, 2155
        bits = _INTEGER_BITS[self.base]
        return (0, 2**bits - 1) if self.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    @property
    def byte_limit(self) -> int | None:
        """Greatest length in bytes of a TEXT or BLOB type; None for types that count characters."""
        for prefix, limit in _BYTE_LIMITS.items():
            if self.base in (f"{prefix}text", f"{prefix}blob"):
                return limit
        return None

    def __str__(self) -> str:
        """The spelling that information_schema.COLUMNS.COLUMN_TYPE uses."""
        if self.labels:
            args = "(" + ",".join("'" + label.replace("'", "''") + "'" for label in self.labels) + ")"
        elif self.length is None:
            args = ""
        else:
            args = f"({self.length},{self.scale})" if self.scale is not None else f"({self.length})"
        return f"{self.base}{args}{' unsigned' if self.unsigned else ''}"


def parse_type(text: str) -> ColumnType:
    """Read a type as a person or the server writes it. Raises ValueError, saying what was not understood.

    Display widths of integers are dropped (they mean nothing since 8.0.19); ``tinyint(1)`` becomes ``tinyint``.
    """
    match = _TYPE.match(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a column type")
    written = match["base"].lower()
    base = _ALIASES.get(written, written)
    if base not in _FAMILIES:
        raise ValueError(f"{text!r}: there is no column type {written!r}")
    words = match["rest"].lower().split()
    if unknown := [w for w in words if w not in ("unsigned", "zerofill", "signed")]:
        raise ValueError(f"{text!r}: {unknown[0]!r} is not part of a type")
    unsigned = "unsigned" in words or "zerofill" in words
    if base in ("enum", "set"):
        labels = tuple(m.replace("''", "'") for m in _LABEL.findall(match["args"] or ""))
        if not labels:
            raise ValueError(f"{text!r}: {base} needs its labels")
        return ColumnType(base, labels=labels)
    numbers = _numbers(text, match["args"])
    return _with_defaults(base, numbers, unsigned, text)


def _numbers(text: str, args: str | None) -> list[int]:
    if args is None:
        return []
    try:
        return [int(a) for a in args.split(",")]
    except ValueError:
        raise ValueError(f"{text!r}: {args!r} is not a length") from None


def _with_defaults(base: str, numbers: list[int], unsigned: bool, text: str) -> ColumnType:
    family = _FAMILIES[base]
    if family is Family.DECIMAL:
        precision, scale = (numbers + [10, 0][len(numbers) :])[:2]
        return ColumnType(base, precision, scale, unsigned)
    if family in (Family.INTEGER, Family.YEAR, Family.FLOAT):
        return ColumnType(base, unsigned=unsigned)
    if base in ("varchar", "varbinary") and not numbers:
        raise ValueError(f"{text!r}: {base} needs a length")
    if base in ("char", "binary", "bit"):
        return ColumnType(base, numbers[0] if numbers else 1)
    if base in ("datetime", "timestamp", "time"):
        return ColumnType(base, numbers[0] if numbers and numbers[0] else None)
    return ColumnType(base, numbers[0] if numbers and base in ("varchar", "varbinary", "vector") else None)


def decimal_bound(kind: ColumnType) -> Decimal:
    """The least power of ten that a decimal type cannot hold: every storable value is smaller in size."""
    return Decimal(10) ** ((kind.length or 10) - (kind.scale or 0))
