"""The fit test: can this column store that value unchanged? One answer for every kind of value and every type.

A test is SQL that is true or false, and NULL exactly when the value is NULL. Evaluating it neither raises nor warns,
whatever the value: what would (a cast of text that is no number) stands behind a test of its form.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column
from orchestrator.model.types import ColumnType, Family
from orchestrator.mysql import quote
from orchestrator.mysql.charsets import byte_collation, readable, utf8, wide
from orchestrator.mysql.json_text import loses
from orchestrator.mysql.kinds import UTF8MB4, Kind

_EXACT_IN_DOUBLE = 2**53
_BYTES_A_CHARACTER = {"utf8mb4": 4, "utf8mb3": 3, "latin1": 1, "ascii": 1, "binary": 1}
_WHOLE = "^(0|-?[1-9][0-9]{0,63})$"
_DATE_FORM = "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_CLOCK_FORM = "( ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?)?$"


class Fit(Struct, frozen=True):
    """``value`` as the column takes it, and what must hold so that it is stored unchanged.

    ``implied``: a column that is equal to ``value`` shows by itself that the tests hold, and computing ``value`` never
    raises; else the tests come first. ``loses``: SQL 0 or 1, where the tests hold: the source says more than ``value``
    does, though the server calls it the same; None when it never does.
    """

    value: str
    tests: tuple[str, ...] = ()
    implied: bool = True
    loses: str | None = None


def fit(sql: str, kind: Kind, target: Column, what: str) -> Fit:
    """How ``sql`` of that kind goes into ``target``. Raises RunbookError when it cannot by itself."""
    rule = _RULES.get(target.type.family)
    found = rule(sql, kind, target) if rule else None
    if found is None:
        raise RunbookError(
            f"{what}: {kind} does not become {target.type} by itself",
            f"an expression that gives what {target.name} holds",
            _ADVICE.get((kind.family, target.type.family), "write the conversion into the expression: CAST, CONVERT"),
        )
    return found


_ADVICE: dict[tuple[Family, Family], str] = {
    (Family.TEMPORAL, Family.TEMPORAL): "a TIMESTAMP becomes a DATETIME by '1970-01-01 00:00:00' + INTERVAL "
    "UNIX_TIMESTAMP(column) SECOND, and a DATETIME in UTC becomes a TIMESTAMP by "
    "FROM_UNIXTIME(TIMESTAMPDIFF(SECOND, '1970-01-01', column)); every other way depends on the session's time zone",
    (Family.BINARY, Family.TEXT): "say what the bytes are: CONVERT(column USING utf8mb4), or HEX(column)",
}


def _whole(sql: str, kind: Kind, target: Column) -> Fit | None:
    low, high = target.type.integer_range
    if target.type.family is Family.YEAR:
        inside = [f"({sql} = 0 OR {sql} BETWEEN {low} AND {high})"] if kind.base != "year" else []
        return Fit(sql, tuple(inside)) if kind.family is Family.INTEGER else None
    match kind.family:
        case Family.INTEGER:
            return Fit(sql, _bounds(sql, kind.low, kind.high, low, high))
        case Family.DECIMAL:
            edge = 10 ** (kind.precision - kind.scale) - 1
            return Fit(sql, (*_no_fraction(sql, kind.scale, 0), *_bounds(sql, -edge, edge, low, high)))
        case Family.FLOAT:
            return Fit(sql, (f"{sql} >= {low}e0", f"{sql} < {high + 1}e0", f"{sql} = FLOOR({sql})"))
        case Family.TEXT:
            return _number_text(sql, kind, target.type, low, high)
        case _:
            return None


def _number_text(sql: str, kind: Kind, target: ColumnType, low: int, high: int) -> Fit:
    number = f"CAST({sql} AS {'UNSIGNED' if target.unsigned else 'SIGNED'})"
    wide = f"CAST({sql} AS DECIMAL(65))"
    single = kind.labels and kind.base != "set"
    if single and all(_is_whole_in(label, low, high) for label in kind.labels):
        return Fit(number, (), implied=True)
    form = f"REGEXP_LIKE(CONVERT({sql} USING utf8mb4), '{_WHOLE}', 'c')"
    return Fit(number, (f"IF({form}, {wide} BETWEEN {low} AND {high}, {_false_or_null(sql)})",), implied=False)


def _is_whole_in(label: str, low: int, high: int) -> bool:
    digits = label.lstrip("-")
    return digits.isascii() and digits.isdigit() and str(int(label)) == label and low <= int(label) <= high


def _false_or_null(sql: str) -> str:
    return f"IF({sql} IS NULL, NULL, 0)"


def _bounds(sql: str, kind_low: int, kind_high: int, low: int, high: int) -> tuple[str, ...]:
    below, above = kind_low < low, kind_high > high
    if below and above:
        return (f"{sql} BETWEEN {low} AND {high}",)
    return ((f"{sql} >= {low}",) if below else ()) + ((f"{sql} <= {high}",) if above else ())


def _no_fraction(sql: str, has: int, holds: int) -> tuple[str, ...]:
    return (f"{sql} = TRUNCATE({sql}, {holds})",) if has > holds else ()


def _decimal(sql: str, kind: Kind, target: Column) -> Fit | None:
    precision, scale = target.type.length or 10, target.type.scale or 0
    bound = 10 ** (precision - scale)
    least = 0 if target.type.unsigned else -bound + 1
    match kind.family:
        case Family.INTEGER:
            return Fit(sql, _bounds(sql, kind.low, kind.high, least, bound - 1))
        case Family.DECIMAL:
            wide = kind.precision - kind.scale > precision - scale
            above = (f"{sql} < {bound}",) if wide else ()
            signed = (f"{sql} >= 0",) if target.type.unsigned else (f"{sql} > -{bound}",) if wide else ()
            return Fit(sql, (*_no_fraction(sql, kind.scale, scale), *above, *signed))
        case Family.FLOAT:
            stored = f"CAST({sql} AS DECIMAL({precision},{scale}))"
            low = f"{sql} >= 0" if target.type.unsigned else f"{sql} > -{bound}e0"
            return Fit(stored, (f"IF({low} AND {sql} < {bound}e0, {stored} = {sql}, {_false_or_null(sql)})",), False)
        case Family.TEXT:
            stored = f"CAST({sql} AS DECIMAL({precision},{scale}))"
            sign = "" if target.type.unsigned else "-?"
            fraction = f"([.][0-9]{{1,{scale}}})?" if scale else ""
            form = f"^{sign}(0|[1-9][0-9]{{0,{max(precision - scale - 1, 0)}}}){fraction}$"
            return Fit(stored, (f"REGEXP_LIKE(CONVERT({sql} USING utf8mb4), '{form}', 'c')",), implied=False)
        case _:
            return None


def _float(sql: str, kind: Kind, target: Column) -> Fit | None:
    single = target.type.base == "float"
    positive = (f"{sql} >= 0",) if target.type.unsigned else ()
    if kind.family is Family.FLOAT:
        stored = f"CAST({sql} AS FLOAT)"
        if not single or kind.base == "float":
            return Fit(sql, positive)
        test = f"IF({sql} BETWEEN -3.4e38 AND 3.4e38, {stored} = {sql}, {_false_or_null(sql)})"
        return Fit(stored, (test, *positive), implied=False)
    if kind.family is Family.INTEGER:
        edge = 2**24 if single else _EXACT_IN_DOUBLE
        return Fit(sql, (*_bounds(sql, kind.low, kind.high, -edge, edge), *positive))
    if kind.family is Family.DECIMAL:
        stored = f"CAST({sql} AS {'FLOAT' if single else 'DOUBLE'})"
        back = f"CAST({stored} AS DECIMAL({kind.precision},{kind.scale}))"
        return Fit(stored, (f"{back} = {sql}", *positive))
    return None


def _text(sql: str, kind: Kind, target: Column) -> Fit | None:
    match kind.family:
        case Family.TEXT:
            return _text_of_text(sql, kind, target)
        case Family.INTEGER | Family.DECIMAL | Family.JSON:
            return _text_of_text(f"CAST({sql} AS CHAR)", Kind(Family.TEXT, "characters"), target)
        case Family.TEMPORAL | Family.TIME if kind.base != "timestamp":
            return _text_of_text(f"CAST({sql} AS CHAR)", Kind(Family.TEXT, "characters", chars=26), target)
        case _:
            return None


def _text_of_text(sql: str, kind: Kind, target: Column) -> Fit:
    type_, charset = target.type, target.charset or UTF8MB4
    same_set = kind.charset == charset
    value = sql if same_set else f"CONVERT({sql} USING {charset})"
    tests: list[str] = []
    if type_.length is not None and (kind.chars is None or kind.chars > type_.length):
        tests.append(f"CHAR_LENGTH({sql}) <= {type_.length}")
    bytes_each = 1 if "text" in kind.base else _BYTES_A_CHARACTER.get(charset, 4)
    widest = None if kind.chars is None else kind.chars * bytes_each
    if type_.byte_limit is not None and (widest is None or not same_set or widest > type_.byte_limit):
        tests.append(f"LENGTH({value}) <= {type_.byte_limit}")
    if type_.base == "char" and not kind.base.startswith("char("):
        tests.append(f"RIGHT({sql}, 1) COLLATE {byte_collation(kind.charset)} <> ' '")
    narrower = not same_set and charset != UTF8MB4
    if narrower:
        tests.append(f"CONVERT({value} USING utf8mb4) COLLATE utf8mb4_0900_bin = {wide(sql, kind)}")
    comes_back = () if same_set else readable(sql, kind)
    return Fit(value, (*tests, *comes_back), implied=not (narrower or comes_back))


def _label(sql: str, kind: Kind, target: Column) -> Fit | None:
    if kind.family is not Family.TEXT or (target.type.family is Family.SET and kind.base != "set"):
        return None
    if kind.base == "set" and target.type.family is Family.SET:
        # Members are stored in the order of the type: another order would come back as another text.
        known = tuple(label for label in target.type.labels if label in kind.labels)
        if known == kind.labels:
            return Fit(sql)
    elif kind.labels and kind.base != "set" and set(kind.labels) <= set(target.type.labels):
        return Fit(sql)
    labels = ", ".join(quote.literal(label) for label in target.type.labels)
    return Fit(sql, (f"{wide(sql, kind)} IN ({labels})",))


def _bytes(sql: str, kind: Kind, target: Column) -> Fit | None:
    if kind.family not in (Family.BINARY, Family.TEXT):
        return None
    limit = target.type.length if target.type.byte_limit is None else target.type.byte_limit
    if kind.family is Family.BINARY and str(target.type) == kind.base:
        return Fit(sql)
    value = sql if kind.family is Family.BINARY else f"CAST({sql} AS BINARY)"
    if target.type.base == "binary":
        return Fit(value, (f"LENGTH({sql}) = {limit}",))
    known = kind.family is Family.BINARY and kind.chars is not None and kind.chars <= (limit or 0)
    return Fit(value, () if known else (f"LENGTH({sql}) <= {limit}",))


def _moment(sql: str, kind: Kind, target: Column) -> Fit | None:
    base, digits = target.type.base, target.type.length or 0
    if "timestamp" in (base, kind.base):
        return Fit(sql, _no_lost_digits(sql, kind, digits)) if base == kind.base else None
    if kind.family is Family.TEXT:
        moment = f"CAST({sql} AS DATETIME(6))"
        last = f"DAYOFMONTH(LAST_DAY(CONCAT(LEFT({sql}, 8), '01')))"
        form = f"REGEXP_LIKE(CONVERT({sql} USING utf8mb4), '{_DATE_FORM}{_CLOCK_FORM}', 'c')"
        valid = f"IF({form}, SUBSTR({sql}, 9, 2) <= {last}, {_false_or_null(sql)})"
        inner = Kind(Family.TEMPORAL, "datetime", scale=6)
        rest = [f"IF({valid}, {t}, NULL)" for t in _moment_tests(moment, inner, base, digits)]
        return Fit(_as_moment(moment, inner, base), (valid, *rest), implied=False)
    if kind.family is not Family.TEMPORAL:
        return None
    value = _as_moment(sql, kind, base)
    return Fit(value, (*_moment_tests(sql, kind, base, digits), *_real_date(sql)), implied=value == sql)


def _as_moment(sql: str, kind: Kind, base: str) -> str:
    return f"CAST({sql} AS DATE)" if base == "date" and kind.base != "date" else sql


def _moment_tests(sql: str, kind: Kind, base: str, digits: int) -> tuple[str, ...]:
    if base == "date":
        return (f"{sql} = CAST({sql} AS DATE)",) if kind.base != "date" else ()
    return _no_lost_digits(sql, kind, digits)


def _real_date(sql: str) -> tuple[str, ...]:
    """Zero and half-zero dates are no moments: they go nowhere without a rule of the operator's."""
    return (f"MONTH({sql}) > 0", f"DAYOFMONTH({sql}) > 0")


def _no_lost_digits(sql: str, kind: Kind, digits: int) -> tuple[str, ...]:
    if kind.scale <= digits:
        return ()
    return (f"MICROSECOND({sql}) % {10 ** (6 - digits)} = 0",)


def _clock(sql: str, kind: Kind, target: Column) -> Fit | None:
    if kind.family is not Family.TIME:
        return None
    return Fit(sql, _no_lost_digits(sql, kind, target.type.length or 0))


def _json(sql: str, kind: Kind, target: Column) -> Fit | None:
    if kind.family is Family.JSON:
        return Fit(sql)
    if kind.family is not Family.TEXT:
        return None
    document = utf8(sql, kind)
    tests = (f"JSON_VALID({document})", *readable(sql, kind))
    return Fit(f"CAST({document} AS JSON)", tests, implied=False, loses=loses(document))


_RULES: dict[Family, Callable[[str, Kind, Column], Fit | None]] = {
    Family.INTEGER: _whole,
    Family.YEAR: _whole,
    Family.BIT: _whole,
    Family.DECIMAL: _decimal,
    Family.FLOAT: _float,
    Family.TEXT: _text,
    Family.BINARY: _bytes,
    Family.ENUM: _label,
    Family.SET: _label,
    Family.TEMPORAL: _moment,
    Family.TIME: _clock,
    Family.JSON: _json,
}
