"""One column definition: its type, its attributes, and the index or constraint that it carries with it."""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from orchestrator.contract.ddl.cursor import Cursor
from orchestrator.model.contract import Column, Default
from orchestrator.model.types import LENGTH, ColumnType, Family, parse_type
from orchestrator.mysql.tokens import TokenKind, string_value

_NOW = ("CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP")
_WITH_CHARSET = (Family.TEXT, Family.ENUM, Family.SET)
_TEXT_TYPES = {"char": "binary", "varchar": "varbinary", "tinytext": "tinyblob", "text": "blob"} | {
    "mediumtext": "mediumblob",
    "longtext": "longblob",
}
_NATIONAL = {"NCHAR": "char", "NVARCHAR": "varchar"}
_SPELT_OTHERWISE = {"INT1": "tinyint", "INT2": "smallint", "INT3": "mediumint", "INT4": "int", "INT8": "bigint"} | {
    "MIDDLEINT": "mediumint",
    "FLOAT4": "float",
    "FLOAT8": "double",
    "LONG": "mediumtext",
}


class Defined(Struct):
    """A column with what its definition says beside it. ``unique``, ``primary``: an index over it alone.
    ``checks``: name (or "") and clause. ``nulls_said``: NULL or NOT NULL was written."""

    column: Column
    unique: bool = False
    primary: bool = False
    checks: list[tuple[str, str]] = field(default_factory=list)
    references: bool = False


def read_column(cursor: Cursor) -> Defined:
    """The definition that begins here with the column's name. An inline REFERENCES is left standing."""
    name = cursor.name("the name of a column")
    if cursor.take("SERIAL"):
        counted = Column(name, ColumnType("bigint", unsigned=True), null=False, auto_increment=True)
        defined = Defined(counted, unique=True)
    else:
        defined = Defined(_typed(name, cursor))
    while _attribute(cursor, defined):
        pass
    defined.references = cursor.next_is("REFERENCES")
    if defined.column.charset == "binary":
        defined.column = _as_bytes(defined.column)
    return defined


def _typed(name: str, cursor: Cursor) -> Column:
    at = cursor.here()
    word = cursor.name("a column type").upper()
    national = word == "NATIONAL"
    if national:
        word = cursor.name("a column type").upper()
    if word in ("CHAR", "CHARACTER", "NCHAR") and cursor.take("VARYING"):
        word = "VARCHAR"
    if word == "DOUBLE":
        cursor.take("PRECISION")
    if word == "LONG":
        word = {"VARBINARY": "MEDIUMBLOB", "VARCHAR": "MEDIUMTEXT"}.get(
            cursor.take_any("VARBINARY", "VARCHAR"), "MEDIUMTEXT"
        )
    base = _NATIONAL.get(word) or _SPELT_OTHERWISE.get(word) or ("char" if word == "CHARACTER" else word.lower())
    args = _arguments(cursor) if cursor.next_is("(") else ""
    unsigned = ""
    while said := cursor.take_any("UNSIGNED", "ZEROFILL", "SIGNED"):
        unsigned = "" if said == "SIGNED" else " unsigned"
    try:
        kind = parse_type(f"{base}{args}{unsigned}")
    except ValueError as error:
        at.refuse(str(error), "a column type of MySQL")
    if base in ("blob", "text") and args:
        length = args.strip("()").strip()
        if not LENGTH.fullmatch(length):
            at.refuse(f"{base}{args}: {length!r} is not a length", "a column type of MySQL")
        kind = _by_length(base, int(length))
    return Column(name, kind, charset="utf8mb3" if national or word in _NATIONAL else None)


def _by_length(base: str, length: int) -> ColumnType:
    """TEXT(n) and BLOB(n) are the smallest of their kind that holds n; n counts characters of up to four bytes."""
    wanted_bytes = length * (4 if base == "text" else 1)
    for prefix in ("tiny", "", "medium", "long"):
        kind = ColumnType(f"{prefix}{base}")
        if (kind.byte_limit or 0) >= wanted_bytes:
            return kind
    return ColumnType(f"long{base}")


def _arguments(cursor: Cursor) -> str:
    if not _labels_follow(cursor):
        return f"({cursor.bracketed()})"
    cursor.need("(")
    labels = [cursor.text()]
    while cursor.take(","):
        labels.append(cursor.text())
    cursor.need(")")
    return "(" + ",".join("'" + label.replace("'", "''") + "'" for label in labels) + ")"


def _labels_follow(cursor: Cursor) -> bool:
    probe = cursor.here()
    probe.need("(")
    return probe.string_is_next()


def _attribute(cursor: Cursor, defined: Defined) -> bool:
    """Read one attribute into ``defined``; False when none stands here."""
    column = defined.column
    if cursor.take("NOT", "NULL"):
        defined.column = replace(column, null=False)
    elif cursor.take("NULL"):
        defined.column = replace(column, null=True)
    elif cursor.take("DEFAULT"):
        defined.column = replace(column, default=read_default(cursor, column.type))
    elif cursor.take("ON", "UPDATE"):
        _now(cursor)
        defined.column = replace(column, on_update=True)
    elif cursor.take("AUTO_INCREMENT"):
        defined.column = replace(column, auto_increment=True)
    elif cursor.take("UNIQUE"):
        cursor.take("KEY")
        defined.unique = True
    elif cursor.take("PRIMARY", "KEY") or cursor.take("KEY"):
        defined.primary = True
    elif cursor.take("INVISIBLE"):
        defined.column = replace(column, invisible=True)
    elif cursor.take("VISIBLE"):
        defined.column = replace(column, invisible=False)
    elif cursor.take("COMMENT"):
        defined.column = replace(column, comment=cursor.text())
    else:
        return _characters(cursor, defined) or _generated(cursor, defined) or _check(cursor, defined) or _noise(cursor)
    return True


def _characters(cursor: Cursor, defined: Defined) -> bool:
    column = defined.column
    if cursor.take("CHARACTER", "SET") or cursor.take("CHARSET"):
        named = charset_name(cursor)
        defined.column = replace(column, charset=named)
    elif cursor.take("COLLATE"):
        defined.column = replace(column, collation=charset_name(cursor))
    elif column.type.family in _WITH_CHARSET and (word := cursor.take_any("ASCII", "UNICODE", "BYTE")):
        named = {"ASCII": "latin1", "UNICODE": "ucs2", "BYTE": "binary"}[word]
        defined.column = replace(column, charset=named)
    else:
        return False
    return True


def charset_name(cursor: Cursor) -> str:
    """The name of a character set or collation, which may be quoted like a text; utf8 is utf8mb3."""
    named = (cursor.text() if cursor.string_is_next() else cursor.name("a character set or collation")).lower()
    if named == "utf8":
        return "utf8mb3"
    return "utf8mb3_" + named[5:] if named.startswith("utf8_") else named


def _generated(cursor: Cursor, defined: Defined) -> bool:
    if not (cursor.take("GENERATED", "ALWAYS", "AS") or cursor.take("AS")):
        return False
    defined.column = replace(defined.column, generated=f"({cursor.bracketed()})")
    if cursor.take_any("STORED", "VIRTUAL", "PERSISTENT") in ("STORED", "PERSISTENT"):
        defined.column = replace(defined.column, stored=True)
    return True


def _check(cursor: Cursor, defined: Defined) -> bool:
    if cursor.take("CHECK"):
        name = ""
    elif cursor.next_is("CONSTRAINT"):
        cursor.need("CONSTRAINT")
        name = "" if cursor.next_is("CHECK") else cursor.name()
        cursor.need("CHECK")
    else:
        return False
    defined.checks.append((name, f"({cursor.bracketed()})"))
    cursor.take("NOT")
    cursor.take("ENFORCED")
    return True


def _noise(cursor: Cursor) -> bool:
    """What changes nothing that a contract speaks of."""
    if cursor.take_any("COLUMN_FORMAT", "STORAGE", "SRID", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"):
        cursor.skip_value()
        return True
    return False


def read_default(cursor: Cursor, kind: ColumnType) -> Default | None:
    """What follows DEFAULT; None for NULL."""
    if cursor.take("NULL"):
        return None
    if cursor.next_is("("):
        return Default(f"({cursor.bracketed()})", is_expression=True)
    if any(cursor.next_is(word) for word in _NOW):
        return Default(_now(cursor), is_expression=True)
    sign = "-" if cursor.take("-") else ""
    cursor.take("+")
    token = cursor.take_token()
    if token.kind is TokenKind.INTRODUCER:
        token = cursor.take_token()
    return Default(sign + _literal(token.text, kind, cursor))


def _literal(written: str, kind: ColumnType, cursor: Cursor) -> str:
    if written[0] in "'\"":
        value = string_value(written)
        while cursor.string_is_next():
            value += cursor.text()
        return value
    if written[:2].lower() in ("x'", "0x"):
        digits = written[2:].strip("'")
        if len(digits) % 2:
            cursor.refuse(f"{written}: half a byte", "two hexadecimal digits for each byte")
        raw = bytes.fromhex(digits)
        as_number = kind.family in (Family.INTEGER, Family.BIT)
        if kind.family is Family.BINARY:
            return f"0x{raw.hex()}"
        return str(int.from_bytes(raw, "big")) if as_number else raw.decode(errors="replace")
    if written[:2].lower() == "0b":
        return f"b'{written[2:]}'"
    if written.lower() in ("true", "false"):
        return "1" if written.lower() == "true" else "0"
    return written


def _now(cursor: Cursor) -> str:
    if not cursor.take_any(*_NOW):
        cursor.unexpected("CURRENT_TIMESTAMP")
    digits = cursor.bracketed() if cursor.next_is("(") else ""
    return f"CURRENT_TIMESTAMP({digits})" if digits not in ("", "0") else "CURRENT_TIMESTAMP"


def _as_bytes(column: Column) -> Column:
    """A text of the character set ``binary`` is stored, and shown by the server, as bytes."""
    base = _TEXT_TYPES.get(column.type.base)
    if base is None:
        return column
    return replace(column, type=replace(column.type, base=base), charset=None, collation=None)
