"""One direction of one mapping as SQL: the value, whether the mapping knows it, whether the target can store it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column, Copy, Expression, Match, Transform, Unmapped, ValueMap
from orchestrator.model.types import Family
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.expression import Columns, Parsed, Ref, parse, read
from orchestrator.mysql.fit import Fit, exact, fit
from orchestrator.mysql.kinds import Kind, kind_of, kind_of_column
from orchestrator.mysql.literals import literal
from orchestrator.mysql.session import Session

_TIMESTAMP_SECONDS = 2_147_483_647


class Rule(Protocol):
    """``f`` from some columns to ``target``. A condition that always holds is None; no condition is ever NULL."""

    @property
    def target(self) -> Column: ...

    @property
    def columns(self) -> tuple[Column, ...]: ...

    @property
    def may_raise(self) -> bool:
        """Whether computing f can be an error for some row."""
        ...

    def value(self, ref: Ref) -> str:
        """What f gives, as the target takes it. NULL, or anything, when it is not ``ok``."""
        ...

    def known(self, ref: Ref) -> str | None: ...

    def fits(self, ref: Ref) -> str | None: ...

    def ok(self, ref: Ref) -> str | None: ...

    def or_else(self, ref: Ref, keep: str) -> str:
        """The value where it is known and fits, else ``keep``."""
        ...

    def equals(self, ref: Ref) -> str:
        """The target holds exactly what f gives, and f knows it."""
        ...

    def pending(self, ref: Ref) -> str:
        """The target holds something else than f gives, and could hold that."""
        ...

    def guarded(self, ref: Ref) -> tuple[str | None, str]:
        """(condition, value): for an assignment that is done only where the condition holds."""
        ...

    def loss_name(self, ref: Ref) -> str:
        """SQL text that names a value of the source that this direction cannot carry."""
        ...


def both(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one if other is None else other
    return f"({one}) AND ({other})"


@dataclass(frozen=True, slots=True)
class ConversionRule:
    """A copy or an expression. ``fitted`` renders the value and its tests over a reference.

    ``asked``: the expression whose NULL, when no source is NULL, means that it does not know the value; None when it
    has no such NULL.
    """

    target: Column
    columns: tuple[Column, ...]
    nullable: bool
    fitted: Callable[[Ref], Fit]
    asked: Callable[[Ref], str] | None = None
    may_raise: bool = False

    def value(self, ref: Ref) -> str:
        return self.fitted(ref).value

    def known(self, ref: Ref) -> str | None:
        if self.asked is None:
            return None
        sources = [f"{ref(c.name)} IS NULL" for c in self.columns if c.null]
        return " OR ".join([f"{self.asked(ref)} IS NOT NULL", *sources])

    def fits(self, ref: Ref) -> str | None:
        tests = self.fitted(ref).tests
        joined = " AND ".join(f"({t})" for t in tests) if len(tests) > 1 else "".join(tests)
        if not self.nullable:
            return joined or None
        if self.target.null:
            return f"({joined}) IS NOT FALSE" if joined else None
        return f"({joined}) IS TRUE" if joined else f"{self.value(ref)} IS NOT NULL"

    def ok(self, ref: Ref) -> str | None:
        return both(self.known(ref), self.fits(ref))

    def or_else(self, ref: Ref, keep: str) -> str:
        ok = self.ok(ref)
        return self.value(ref) if ok is None else f"IF({ok}, {self.value(ref)}, {keep})"

    def equals(self, ref: Ref) -> str:
        fitted = self.fitted(ref)
        same = self._same(ref, fitted.value)
        if not fitted.implied:
            return f"IF({self.ok(ref) or 1}, {same}, 0)"
        known = self.known(ref)
        return same if known is None else f"({same}) AND ({known})"

    def pending(self, ref: Ref) -> str:
        fitted, ok = self.fitted(ref), self.ok(ref)
        differs = f"NOT ({self._same(ref, fitted.value)})"
        if not fitted.implied:
            return f"IF({ok or 1}, {differs}, 0)"
        return differs if ok is None else f"{differs} AND ({ok})"

    def _same(self, ref: Ref, value: str) -> str:
        compared = exact(self.target, value) if self.target.type.base == "timestamp" else value
        return f"{exact(self.target, ref(self.target.name))} <=> {compared}"

    def guarded(self, ref: Ref) -> tuple[str | None, str]:
        """A value that may raise is computed in the condition first: a SET that raises could leave NULL behind."""
        ok, value = self.ok(ref), self.value(ref)
        return f"ISNULL({value}) IN (0, 1)" if ok is None and self.may_raise else ok, value

    def loss_name(self, ref: Ref) -> str:
        return "'lossy'"


@dataclass(frozen=True, slots=True)
class MapRule:
    """A value map. ``when``: (value, result) as literals, NULL apart; ``rest`` copies what is not named, or None."""

    target: Column
    source: Column
    match: Match
    when: tuple[tuple[str, str], ...]
    when_null: str | None
    rest: ConversionRule | None

    @property
    def columns(self) -> tuple[Column, ...]:
        return (self.source,)

    @property
    def may_raise(self) -> bool:
        return False

    def value(self, ref: Ref) -> str:
        return self._case(ref, "NULL" if self.rest is None else self.rest.value(ref))

    def known(self, ref: Ref) -> str | None:
        return None if self.rest is not None else self._named(ref)

    def fits(self, ref: Ref) -> str | None:
        """The results were checked when the map was read: only what is copied is tested."""
        copied = None if self.rest is None else self.rest.ok(ref)
        return None if copied is None else f"({self._named(ref)}) OR ({copied})"

    def ok(self, ref: Ref) -> str | None:
        return both(self.known(ref), self.fits(ref))

    def or_else(self, ref: Ref, keep: str) -> str:
        return self._case(ref, keep if self.rest is None else self.rest.or_else(ref, keep))

    def equals(self, ref: Ref) -> str:
        target = exact(self.target, ref(self.target.name))
        if self.rest is not None:
            fits = self.fits(ref)
            same = f"{target} <=> {self.value(ref)}"
            return same if fits is None else f"({same}) AND ({fits})"
        if "NULL" in (self.when_null, *(r for _, r in self.when)):
            return f"({self._named(ref)}) AND {target} <=> {self.value(ref)}"
        return f"({target} = {self.value(ref)}) IS TRUE"

    def pending(self, ref: Ref) -> str:
        target = ref(self.target.name)
        return f"NOT ({exact(self.target, target)} <=> {self.or_else(ref, read(self.target, target))})"

    def guarded(self, ref: Ref) -> tuple[str | None, str]:
        """Without a condition: what is not known, or does not fit, leaves the target's own value."""
        return None, self.or_else(ref, read(self.target, ref(self.target.name)))

    def loss_name(self, ref: Ref) -> str:
        return f"CONVERT({read(self.source, ref(self.source.name))} USING utf8mb4)"

    def _operand(self, ref: Ref) -> str:
        sql = ref(self.source.name)
        family = self.source.type.family
        if self.match is Match.COLLATION:
            return sql
        return exact(self.source, sql) if family is not Family.BIT else read(self.source, sql)

    def _case(self, ref: Ref, otherwise: str) -> str:
        cases = " ".join(f"WHEN {v} THEN {r}" for v, r in self.when)
        case = f"CASE {self._operand(ref)} {cases} ELSE {otherwise} END" if cases else otherwise
        if self.when_null is None:
            return case
        return f"IF({ref(self.source.name)} IS NULL, {self.when_null}, {case})"

    def _named(self, ref: Ref) -> str:
        values = ", ".join(v for v, _ in self.when)
        named = f"({self._operand(ref)} IN ({values})) IS TRUE" if values else "0"
        return named if self.when_null is None else f"{ref(self.source.name)} IS NULL OR {named}"


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

    fitted(lambda name: name)
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

    fitted(lambda name: name)
    if not parsed.columns:
        return _constant(session, fitted, target, what)
    return ConversionRule(target, parsed.columns, kind.nullable, fitted, _asked(parsed), not parsed.is_calm)


def _asked(parsed: Parsed) -> Callable[[Ref], str] | None:
    return None if parsed.null_keeping or parsed.null_named else parsed.render


def _constant(session: Session, fitted: Callable[[Ref], Fit], target: Column, what: str) -> ConversionRule:
    """An expression without columns is tested here, once."""
    found = fitted(lambda name: name)
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
    literals = [sql for pair in rule.when for sql in pair if sql != "NULL"]
    try:
        session.query("SELECT " + ", ".join(literals or ["1"]))
    except ServerError as error:
        raise _refusal(f"{what}: {error.number} {error.text}", "values that the server takes as literals") from error
