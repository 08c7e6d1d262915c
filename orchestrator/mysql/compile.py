"""From a transform of the runbook to a rule in SQL: what can be refused is refused here, before anything runs."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column, Copy, Expression, Transform, Unmapped, ValueMap
from orchestrator.model.types import Family
from orchestrator.mysql import quote
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.expression import Columns, Parsed, Ref, parse, read
from orchestrator.mysql.fit import Fit, fit
from orchestrator.mysql.kinds import Kind, kind_of, kind_of_column
from orchestrator.mysql.literals import literal
from orchestrator.mysql.rules import ConversionRule, MapRule, Rule
from orchestrator.mysql.session import Session

_TIMESTAMP_SECONDS = 2_147_483_647


def compile_rule(
    session: Session, transform: Transform, source: str | None, target: Column, columns: Columns, what: str
) -> Rule:
    """Read one direction. ``source`` is the column that a value map or a copy reads. Raises RunbookError."""
    match transform:
        case Expression(sql=sql):
            return _expression(session, parse(sql, columns, what), target, what)
        case Copy():
            return _copy(_source(source, columns, what), target, what)
        case ValueMap():
            return _value_map(session, transform, _source(source, columns, what), target, what)


def _source(source: str | None, columns: Columns, what: str) -> Column:
    column = columns.get((source or "").lower())
    if column is None:
        raise _refusal(f"{what}: a value map or a copy without the column that it reads", "`old:` names the column")
    return column


def _refusal(seen: str, expected: str) -> RunbookError:
    return RunbookError(seen, expected, "change the mapping in the runbook")


def _copy(source: Column, target: Column, what: str) -> ConversionRule:
    kind = kind_of_column(source)

    def fitted(ref: Ref) -> Fit:
        return fit(read(source, ref(source.name)), kind, target, what)

    fitted(quote.name)
    return ConversionRule(target, (source,), kind.nullable, fitted)


def _expression(session: Session, parsed: Parsed, target: Column, what: str) -> ConversionRule:
    if column := parsed.column:
        return _copy(column, target, what)
    kind = kind_of(session, parsed, what)
    if parsed.unix_seconds and target.type.base == "timestamp":
        return _instant(session, parsed, parsed.unix_seconds, target, what)

    if parsed.unix_seconds:
        raise _refusal(
            f"{what}: FROM_UNIXTIME() into {target.type}, which depends on the session's time zone",
            "TIMESTAMP'1970-01-01 00:00:00' + INTERVAL seconds SECOND",
        )

    def fitted(ref: Ref) -> Fit:
        return fit(parsed.render(ref), kind, target, what)

    fitted(quote.name)
    if not parsed.columns:
        return _constant(session, fitted, target, what)
    return ConversionRule(target, parsed.columns, kind.nullable, fitted, _asked(parsed), not parsed.is_calm)


def _asked(parsed: Parsed) -> Callable[[Ref], str] | None:
    return None if parsed.null_keeping or parsed.null_named else parsed.render


def _constant(session: Session, fitted: Callable[[Ref], Fit], target: Column, what: str) -> ConversionRule:
    """An expression without columns is tested here, once."""
    found = fitted(quote.name)
    wanted = " AND ".join(f"({t})" for t in found.tests) or "1"
    null, fits = session.query(f"SELECT ({found.value}) IS NULL, {wanted}")[0]
    if null or not fits:
        raise RunbookError(
            f"{what}: {found.value} is no value of {target.name} {target.type}",
            "a constant that the column can hold unchanged",
            "change the expression, or the type of the column",
        )
    constant = Fit(found.value)
    return ConversionRule(target, (), False, lambda _: constant)


def _instant(session: Session, parsed: Parsed, seconds: Parsed, target: Column, what: str) -> ConversionRule:
    """FROM_UNIXTIME(E) into a TIMESTAMP: right in every session, but for the hour that its time zone has twice."""
    kind = kind_of(session, seconds, what)
    if kind.family not in (Family.INTEGER, Family.DECIMAL):
        raise _refusal(f"{what}: FROM_UNIXTIME of {kind}", "a number of seconds")
    whole = Kind(Family.TEMPORAL, "timestamp", scale=kind.scale)

    def fitted(ref: Ref) -> Fit:
        sql, given = parsed.render(ref), seconds.render(ref)
        range_ = f"{given} BETWEEN 1 AND {_TIMESTAMP_SECONDS}"
        tests = (f"IF({range_}, UNIX_TIMESTAMP({sql}) = {given}, {given} IS NULL AND NULL)",)
        return Fit(sql, (*tests, *fit(sql, whole, target, what).tests), implied=False)

    nullable = any(c.null for c in parsed.columns) or not seconds.null_keeping
    return ConversionRule(target, parsed.columns, nullable, fitted, _asked(seconds), not seconds.is_calm)


def _value_map(session: Session, transform: ValueMap, source: Column, target: Column, what: str) -> MapRule:
    if source.type.family in (Family.JSON, Family.FLOAT) or source.type.base == "timestamp":
        raise _refusal(
            f"{what}: a value map over {source.name} {source.type}",
            "a value map over text, labels, whole numbers, decimals or dates; else an expression",
        )
    when: list[tuple[str, str]] = []
    when_null: str | None = None
    for value, result in transform.values:
        written = _result(target, result, what)
        if value is None:
            when_null = written
        else:
            when.append((literal(source, value, what), written))
    if not transform.values:
        raise _refusal(f"{what}: a value map without values", "at least one value")
    rest = _copy(source, target, what) if transform.unmapped is Unmapped.KEEP else None
    rule = MapRule(target, source, transform.match, tuple(when), when_null, rest)
    _ask_server(session, rule, what)
    return rule


def _result(target: Column, result: str | None, what: str) -> str:
    if result is None and not target.null:
        raise _refusal(f"{what}: NULL is no value of {target.name} {target.type} NOT NULL", "a result that is not NULL")
    return literal(target, result, what)


def _ask_server(session: Session, rule: MapRule, what: str) -> None:
    """A date such as 2024-02-30 is found by the server only."""
    moments = [sql for pair in rule.when for sql in pair if sql.startswith(("DATE'", "TIME"))]
    if not moments:
        return
    try:
        session.query("SELECT " + ", ".join(moments))
    except ServerError as error:
        if error.cure is not Cure.STOP:
            raise
        raise _refusal(f"{what}: {error.number} {error.text}", "values that the server takes as literals") from error
