"""A scalar field as a column of MySQL: Prisma's own types, its native types, and its defaults."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from orchestrator.contract.prisma.syntax import Attribute, Block, Call, Field, Number, Value
from orchestrator.model.contract import Column, Default
from orchestrator.model.types import ColumnType, Family, parse_type

# What Prisma makes of its types on MySQL when no native type is written.
SCALARS = {
    "String": "varchar(191)",
    "Boolean": "tinyint(1)",
    "Int": "int",
    "BigInt": "bigint",
    "Float": "double",
    "Decimal": "decimal(65,30)",
    "DateTime": "datetime(3)",
    "Json": "json",
    "Bytes": "longblob",
}
_NATIVE = (
    "VarChar Char Text TinyText MediumText LongText Int UnsignedInt SmallInt UnsignedSmallInt MediumInt "
    "UnsignedMediumInt TinyInt UnsignedTinyInt BigInt UnsignedBigInt Year Float Double Decimal DateTime Timestamp Date "
    "Time Json Blob TinyBlob MediumBlob LongBlob Binary VarBinary Bit"
)
NATIVE = frozenset(_NATIVE.split())
# Made by Prisma's client when a row is created, not by the server.
_OF_THE_CLIENT = frozenset({"cuid", "uuid", "ulid", "nanoid", "auto"})
_NOW = re.compile(r"^(?:now|current_timestamp)\s*(?:\(\s*([0-6]?)\s*\))?", re.IGNORECASE)


class Unreadable(ValueError):
    """What cannot be read: ``seen``; ``line`` where it stands."""

    def __init__(self, line: int, seen: str, expected: str) -> None:
        super().__init__(seen)
        self.line = line
        self.seen = seen
        self.expected = expected


def column(of: Field, enums: dict[str, Block]) -> Column:
    """The column of a field that is no relation. Raises Unreadable."""
    kind = _type(of, enums)
    default, counted = _default(of, kind, enums)
    return Column(column_name(of), kind, null=of.optional, default=default, auto_increment=counted)


def column_name(of: Field) -> str:
    """The physical name: ``@map``, else the field's."""
    mapped = of.attribute("map")
    value = mapped.first("name") if mapped is not None else None
    return value if isinstance(value, str) else of.name


def enum_label(value: Field) -> str:
    """What the server stores for an enum's value."""
    return column_name(value)


def _type(of: Field, enums: dict[str, Block]) -> ColumnType:
    if of.many:
        raise Unreadable(of.line, f"{of.name} is a list of {of.type}", "lists of models only: MySQL has no others")
    if of.type in enums and not of.unsupported:
        return ColumnType("enum", labels=tuple(enum_label(v) for v in enums[of.type].fields))
    native = next((a for a in of.attributes if a.name.startswith("db.")), None)
    written = of.type if of.unsupported else _native(native) if native is not None else SCALARS.get(of.type, "")
    if not written:
        raise Unreadable(of.line, f"{of.name} has the type {of.type}", "a scalar, an enum or a model of the schema")
    try:
        return parse_type(written)
    except ValueError as error:
        raise Unreadable(of.line, str(error), "a column type of MySQL") from None


def _native(attribute: Attribute) -> str:
    name = attribute.name.removeprefix("db.")
    if name not in NATIVE:
        raise Unreadable(attribute.line, f"@{attribute.name}", "a native type of MySQL, such as @db.VarChar(32)")
    bare = name.removeprefix("Unsigned")
    numbers = [a.value.text for a in attribute.arguments if isinstance(a.value, Number)]
    args = f"({','.join(numbers)})" if numbers else ""
    return f"{bare.lower()}{args}{' unsigned' if bare != name else ''}"


def _default(of: Field, kind: ColumnType, enums: dict[str, Block]) -> tuple[Default | None, bool]:
    """The server's default, and whether it counts by itself."""
    attribute = of.attribute("default")
    value = attribute.first("value") if attribute is not None else None
    if attribute is None or value is None:
        return None, False
    match value:
        case Call(name="autoincrement"):
            return None, True
        case Call(name="now", called=True):
            return Default(_now(kind), is_expression=True), False
        case Call(name="dbgenerated"):
            return _generated(value, kind), False
        case Call(name=name, called=True) if name in _OF_THE_CLIENT:
            return None, False
        case Call(name=name, called=False) if name in ("true", "false"):
            return Default("1" if name == "true" else "0"), False
        case Call(name=name, called=False) if of.type in enums:
            found = enums[of.type].field(name)
            if found is not None:
                return Default(enum_label(found)), False
        case Number(text=text):
            return Default(text), False
        case str():
            return _literal(value, kind), False
        case _:
            pass
    raise Unreadable(attribute.line, f"the default of {of.name}", "a default that Prisma has on MySQL")


def _now(kind: ColumnType) -> str:
    return f"CURRENT_TIMESTAMP({kind.length})" if kind.length else "CURRENT_TIMESTAMP"


def _generated(call: Call, kind: ColumnType) -> Default | None:
    """``dbgenerated("…")`` holds what stands behind DEFAULT; without a text nothing is said."""
    said: Value = call.arguments[0].value if call.arguments else ""
    text = said.strip() if isinstance(said, str) else ""
    if not text:
        return None
    if _NOW.match(text):
        return Default(_now(kind), is_expression=True)
    if text[0] in "'\"" and text[-1] == text[0] and len(text) > 1:
        return Default(text[1:-1].replace(text[0] * 2, text[0]))
    if re.fullmatch(r"-?\d+(\.\d+)?|b'[01]+'|0x[0-9a-fA-F]+", text):
        return Default(text)
    return Default(text if text.startswith("(") else f"({text})", is_expression=True)


def _literal(text: str, kind: ColumnType) -> Default | None:
    if kind.family in (Family.JSON, Family.BINARY) or kind.byte_limit is not None:
        # MySQL has no literal default for these; Prisma keeps it for its client.
        return None
    if kind.base in ("datetime", "timestamp", "date") and "T" in text:
        try:
            moment = datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
        except ValueError:
            return Default(text)
        return Default(moment.strftime("%Y-%m-%d" if kind.base == "date" else "%Y-%m-%d %H:%M:%S.%f"))
    return Default(text)
