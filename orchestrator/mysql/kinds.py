"""What kind of value an expression gives: from the column it copies, else from the server's own result metadata.

The server is asked over columns of the same types in a table of no rows, so the answer is the same before and after
ddl, and needs no privilege.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column
from orchestrator.model.types import Family
from orchestrator.mysql import quote
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.expression import Parsed
from orchestrator.mysql.session import ResultField, Session
from orchestrator.mysql.sql.alter import column_type

_INTEGERS = {1: 8, 2: 16, 3: 32, 9: 24, 8: 64}
_TEXTS = frozenset({15, 247, 248, 249, 250, 251, 252, 253, 254})
_TEMPORALS = {10: "date", 14: "date", 12: "datetime", 7: "timestamp"}
_BOUNDED_TEXTS = frozenset({15, 253, 254})
_BYTES_A_CHARACTER = 4
_NOT_FIXED = 31
_NO_SCHEMA = 1046
UTF8MB4 = "utf8mb4"


class Kind(Struct, frozen=True):
    """A set of values. ``low``/``high``: integers. ``precision``/``scale``: decimals; ``scale`` also: fraction digits.

    ``chars``: greatest length in characters (bytes for binary), None when it is not known. ``labels``: of an ENUM all
    values, of a SET (``base`` says so) its members.
    """

    family: Family
    base: str = ""
    low: int = 0
    high: int = 0
    precision: int = 65
    scale: int = 0
    chars: int | None = None
    charset: str = UTF8MB4
    labels: tuple[str, ...] = ()
    nullable: bool = True

    def __str__(self) -> str:
        return self.base or self.family.value


def kind_of_column(column: Column) -> Kind:
    """The kind of a column read as ``expression.read`` reads it."""
    type_, family, nullable = column.type, column.type.family, column.null
    charset = column.charset or UTF8MB4
    match family:
        case Family.INTEGER | Family.BIT | Family.YEAR:
            low, high = type_.integer_range
            low = 0 if family is Family.YEAR else low
            return Kind(Family.INTEGER, str(type_), low=low, high=high, nullable=nullable)
        case Family.DECIMAL:
            return Kind(family, str(type_), precision=type_.length or 10, scale=type_.scale or 0, nullable=nullable)
        case Family.ENUM | Family.SET:
            longest = max(map(len, type_.labels)) if family is Family.ENUM else len(",".join(type_.labels))
            return Kind(Family.TEXT, type_.base, chars=longest, labels=type_.labels, nullable=nullable)
        case Family.TEXT:
            limit = type_.length if type_.byte_limit is None else type_.byte_limit
            return Kind(family, str(type_), chars=limit, charset=charset, nullable=nullable)
        case Family.BINARY:
            limit = type_.length if type_.byte_limit is None else type_.byte_limit
            return Kind(family, str(type_), chars=limit, charset="binary", nullable=nullable)
        case _:
            return Kind(family, type_.base, scale=type_.length or 0, nullable=nullable)


def kind_of(session: Session, parsed: Parsed, what: str) -> Kind:
    """The kind of an expression's values. Raises RunbookError with the server's words when it refuses."""
    if column := parsed.column:
        return kind_of_column(column)
    sql = parsed.render(lambda name: f"t.{quote.name(name)}")
    source = no_rows_of(parsed.columns)
    try:
        field = session.fields(f"SELECT {sql}{source}")[0]
        _refuse_unknown_zones(session, parsed, what)
        kind = _from_field(field)
        # MIN gives a row where there is none; the character set is known without one.
        charset = session.value(f"SELECT CHARSET(MIN({sql})){source}") if kind and kind.family is Family.TEXT else ""
    except ServerError as error:
        if error.cure is not Cure.STOP:
            raise
        raise RunbookError(
            f"{what}: the server refuses {parsed.sql!r}: {_told(error)}",
            "an expression that this server accepts",
            "change the expression in the runbook",
        ) from error
    if kind is None:
        raise RunbookError(
            f"{what}: {parsed.sql!r} gives a kind of value that cannot be mapped (type code {field.type_code})",
            "a number, text, bytes, a date or time, or JSON",
            "change the expression in the runbook",
        )
    nullable = not parsed.null_keeping or any(c.null for c in parsed.columns)
    return replace(kind, charset=str(charset or UTF8MB4), nullable=nullable)


def _told(error: ServerError) -> str:
    """Without a default schema an unknown function shows as 1046."""
    if error.number == _NO_SCHEMA:
        return "it calls a function that the server does not have built in"
    return f"{error.number} {error.text}"


def _refuse_unknown_zones(session: Session, parsed: Parsed, what: str) -> None:
    for zone in parsed.zones:
        if session.value(f"SELECT CONVERT_TZ('2020-01-01 00:00:00', {zone}, '+00:00')") is None:
            raise RunbookError(
                f"{what}: the time zone {zone} in {parsed.sql!r} is not known to the server, CONVERT_TZ gives NULL",
                "a zone that the server's time zone tables hold, or an offset such as '+02:00'",
                "load the time zone tables (mysql_tzinfo_to_sql), or write an offset",
            )


def no_rows_of(columns: Sequence[Column]) -> str:
    """A FROM clause with columns of exactly these types, character sets and collations, and no rows.

    Not CAST(NULL AS …): it knows fewer types, and a COLLATE there counts as the operator's own word in the expression.
    """
    if not columns:
        return ""
    declared = ", ".join(f"{quote.name(c.name)} {column_type(c.type)}{_text_of(c)} PATH '$.c'" for c in columns)
    return f" FROM JSON_TABLE('[]', '$[*]' COLUMNS ({declared})) AS t"


def _text_of(column: Column) -> str:
    charset = f" CHARACTER SET {column.charset}" if column.charset else ""
    return charset + (f" COLLATE {column.collation}" if column.collation else "")


def _from_field(field: ResultField) -> Kind | None:
    code = field.type_code
    digits = 6 if field.decimals >= _NOT_FIXED else field.decimals
    if code in _INTEGERS or code == 16:
        bits = _INTEGERS.get(code, 64)
        low, high = (0, 2**bits - 1) if field.unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return Kind(Family.INTEGER, "a whole number", low=low, high=high)
    if code == 13:
        return Kind(Family.INTEGER, "year", low=0, high=2155)
    if code in (0, 246):
        scale = min(field.decimals, 30)
        precision = max(field.length - (0 if field.unsigned else 1) - (1 if scale else 0), scale)
        return Kind(Family.DECIMAL, "a decimal", precision=min(precision, 65), scale=scale)
    if code in (4, 5):
        return Kind(Family.FLOAT, "float" if code == 4 else "double")
    if code in _TEMPORALS:
        return Kind(Family.TEMPORAL, _TEMPORALS[code], scale=digits)
    if code == 11:
        return Kind(Family.TIME, "time", scale=digits)
    if code == 245:
        return Kind(Family.JSON, "json")
    if code in _TEXTS:
        return _text_from_field(field)
    return None


def _text_from_field(field: ResultField) -> Kind:
    """The server's own bound on the length is trusted where it is one of a VARCHAR, as its temporary tables do."""
    bounded = field.type_code in _BOUNDED_TEXTS
    if field.binary:
        return Kind(Family.BINARY, "bytes", chars=field.length if bounded else None)
    return Kind(Family.TEXT, "characters", chars=field.length // _BYTES_A_CHARACTER if bounded else None)
