"""One direction of one mapping as SQL: the value, whether the mapping knows it, whether the target can store it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from orchestrator.model.contract import Column, Match
from orchestrator.model.types import Family
from orchestrator.mysql.equality import exact, same
from orchestrator.mysql.expression import Ref, read
from orchestrator.mysql.fit import Fit


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
        """(condition, value): for an assignment in a trigger, done only where the condition holds.

        There a column that takes no NULL may hold one: the server makes 0 or '' of it, or an error, after the trigger.
        A NULL that the trigger itself sets is an error under any mode.
        """
        ...

    def loses(self, ref: Ref) -> str | None:
        """SQL 0 or 1, where it is ``ok``: the source says more than f gives; None when it never does."""
        ...

    def loss_name(self, ref: Ref) -> str:
        """SQL text that names a value of the source that this direction cannot carry."""
        ...


def null_of(column: Column) -> str:
    """NULL that can be compared as text: a bare NULL is a binary string, which takes no collation."""
    return "CAST(NULL AS CHAR)" if column.charset else "NULL"


def both(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one if other is None else other
    return f"({one}) AND ({other})"


class ConversionRule(Struct, frozen=True):
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
        return same(self.target, ref(self.target.name), value)

    def guarded(self, ref: Ref) -> tuple[str | None, str]:
        """A value that may raise is computed in the condition first: a SET that raises could leave NULL behind."""
        ok, value = self.ok(ref), self.value(ref)
        if self.columns and not self.target.null and not self.nullable:
            return both(ok, f"{value} IS NOT NULL"), value
        return f"ISNULL({value}) IN (0, 1)" if ok is None and self.may_raise else ok, value

    def loses(self, ref: Ref) -> str | None:
        return self.fitted(ref).loses

    def loss_name(self, ref: Ref) -> str:
        return "'lossy'"


class MapRule(Struct, frozen=True):
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
        if self.rest is None and set(self._results) == {"NULL"}:
            return null_of(self.target)
        return self._case(ref, "NULL" if self.rest is None else self.rest.value(ref))

    @property
    def _results(self) -> tuple[str, ...]:
        return (*(() if self.when_null is None else (self.when_null,)), *(r for _, r in self.when))

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
        stored, value = ref(self.target.name), self.value(ref)
        equal = same(self.target, stored, value)
        if self.rest is not None:
            fits = self.fits(ref)
            return equal if fits is None else f"({equal}) AND ({fits})"
        if "NULL" in self._results:
            return f"({self._named(ref)}) AND {equal}"
        return f"({same(self.target, stored, value, '=')}) IS TRUE"

    def pending(self, ref: Ref) -> str:
        target = ref(self.target.name)
        return f"NOT ({same(self.target, target, self.or_else(ref, read(self.target, target)))})"

    def guarded(self, ref: Ref) -> tuple[str | None, str]:
        """What is not known, or does not fit, leaves the target's own value."""
        target = ref(self.target.name)
        return None if self.target.null else f"{target} IS NOT NULL", self.or_else(ref, read(self.target, target))

    def loses(self, ref: Ref) -> str | None:
        copied = None if self.rest is None else self.rest.loses(ref)
        return None if copied is None else f"IF({self._named(ref)}, 0, {copied})"

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
