"""One mapping as SQL: what it says of a row, and in which class a row falls that does not hold it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from orchestrator.model.contract import Column, Mapping, Match, Winner
from orchestrator.model.step import Truth
from orchestrator.mysql import quote
from orchestrator.mysql.equality import other_form, same
from orchestrator.mysql.expression import Ref
from orchestrator.mysql.rules import MapRule, Rule
from orchestrator.mysql.unset import Unset


def every(conditions: Iterable[str | None]) -> str:
    """All of them hold; those that are None always do."""
    said = [c for c in conditions if c is not None]
    return " AND ".join(f"({c})" for c in said) if len(said) > 1 else said[0] if said else "1"


def some(conditions: Iterable[str]) -> str:
    """At least one holds."""
    said = list(conditions)
    return " OR ".join(f"({c})" for c in said) if len(said) > 1 else said[0] if said else "0"


def _first_of(cases: Iterable[tuple[str, str]]) -> str:
    cases = list(cases)
    if not cases:
        return "NULL"
    return "CASE " + " ".join(f"WHEN {c} THEN {then}" for c, then in cases) + " END"


class PairSql(Struct, frozen=True):
    """An old and a new column that are kept in step, ``n <=> f(o)`` and ``o <=> b(n)``."""

    mapping: Mapping
    old: Column
    new: Column
    forward: Rule
    backward: Rule
    unset: Unset
    given_old: Unset
    old_side: tuple[Column, ...]
    new_side: tuple[Column, ...]

    @property
    def name(self) -> str:
        return str(self.mapping)

    @property
    def new_wins(self) -> bool:
        return self.mapping.on_conflict is Winner.NEW

    def holds(self, ref: Ref) -> str:
        """``n <=> f(o)``, and the mapping knows the old value."""
        return self.forward.equals(ref)

    def goes_back(self, ref: Ref) -> str:
        """``o <=> b(n)``, and the mapping knows the new value."""
        return self.backward.equals(ref)

    @property
    def is_copy(self) -> bool:
        """Both ways are the value itself: one comparison says all."""
        return _copies(self.forward, self.old) and _copies(self.backward, self.new)

    def corresponds(self, ref: Ref) -> str:
        return self.holds(ref) if self.is_copy else some((self.holds(ref), self.goes_back(ref)))

    def pending(self, ref: Ref) -> str:
        return self.forward.pending(ref)

    @property
    def back_follows(self) -> bool:
        """Whether a pair that holds goes back, whatever its values: then one comparison says all."""
        return self.is_copy or _inverse(self.forward, self.backward)

    def lossy(self, ref: Ref, relation: Truth) -> str:
        """It is fine under ``relation``, and one way only: going back and forth would change one of the values."""
        if relation == "corresponds":
            return f"({self.holds(ref)}) <> ({self.goes_back(ref)})"
        return every((self.holds(ref), f"NOT ({self.goes_back(ref)})"))

    def other_form(self, ref: Ref) -> str | None:
        """SQL 0 or 1: it holds, and the JSON is written in another form than f gives; None where there is no JSON."""
        return _other_form(self.forward, ref)

    def mismatch_class(self, ref: Ref, relation: Truth) -> str:
        """SQL that names the class of mismatch, NULL when there is none."""
        fine = self.holds(ref) if relation == "old-is-truth" else self.corresponds(ref)
        cases = [(fine, "NULL")]
        empty = self.unset.now(ref)
        if relation == "old-is-truth":
            cases += [*_not_ok(self.forward, ref), (empty, "'missing'"), ("1", "'stale'")]
        else:
            known = [(every((empty, c)), name) for c, name in _not_ok(self.forward, ref)]
            cases += [*known, (empty, "'missing'"), *_not_ok(self.backward, ref), ("1", "'conflict'")]
        return _first_of(cases)

    def meter_class(self, ref: Ref) -> str:
        """SQL that names what the way back cannot carry of the new value, NULL when it carries all."""
        nothing = f"{ref(self.new.name)} IS NULL"
        known = self.backward.known(ref)
        cases = [(f"NOT ({known}) AND {nothing}", "NULL")] if known is not None else []
        cases += _not_ok(self.backward, ref)
        if not self.is_copy:
            cases.append((f"NOT ({self.forward.equals(self._back(ref))})", self.backward.loss_name(ref)))
        return _first_of(cases)

    def returns(self, ref: Ref) -> str:
        """The new value comes again after the way back, or has no way back."""
        ok = self.backward.ok(ref)
        comes = self.forward.equals(self._back(ref))
        return comes if ok is None else f"IF({ok}, {comes}, 1)"

    def round_trip_broken(self, ref: Ref) -> str:
        """The law ``f(b(f(o))) <=> f(o)`` does not hold for this row's old value, which the mapping can write.

        Reads no new column that the mapping itself fills, so it can be asked before ddl.
        """

        def there(column: str) -> str:
            return self.forward.value(ref) if column.lower() == self.new.name.lower() else ref(column)

        returns = self.forward.equals(self._back(there))
        return every((self.forward.ok(ref), f"NOT ({every((self.backward.ok(there), returns))})"))

    def _back(self, ref: Ref) -> Ref:
        """``ref`` with b(n) in place of the old column."""
        return lambda c: self.backward.value(ref) if c.lower() == self.old.name.lower() else ref(c)

    def changed(self, columns: tuple[Column, ...], before: Ref, after: Ref) -> str:
        """One of the columns has another value ``after`` than ``before``."""
        return some(f"NOT ({same(c, after(c.name), before(c.name))})" for c in columns)


class DerivedSql(Struct, frozen=True):
    """A new column without a way back: filled once, or always ``f`` when it follows."""

    mapping: Mapping
    new: Column
    forward: Rule
    unset: Unset

    @property
    def name(self) -> str:
        return str(self.mapping)

    @property
    def follows(self) -> bool:
        return self.mapping.follows

    def holds(self, ref: Ref) -> str:
        """It is what f gives; without ``follows`` it is enough that it is filled."""
        if self.follows:
            return self.forward.equals(ref)
        return some((f"NOT ({self.unset.now(ref)})", self.forward.equals(ref)))

    def corresponds(self, ref: Ref) -> str:
        return self.holds(ref)

    def pending(self, ref: Ref) -> str:
        return self.forward.pending(ref) if self.follows else every((self.unset.now(ref), self.forward.pending(ref)))

    def other_form(self, ref: Ref) -> str | None:
        """As of a pair; what is filled once may hold anything."""
        return _other_form(self.forward, ref) if self.follows else None

    def lossy(self, ref: Ref) -> str | None:
        """SQL 0 or 1: it holds, and its source says more than f gives; None where f loses nothing."""
        loses = self.forward.loses(ref)
        return None if loses is None else f"IF({self.forward.equals(ref)}, {loses}, 0)"

    def mismatch_class(self, ref: Ref, relation: Truth) -> str:
        """SQL that names the class of mismatch, NULL when there is none; the same under both relations."""
        stale = [(self.unset.now(ref), "'derived-empty'"), ("1", "'stale'")]
        return _first_of([(self.holds(ref), "NULL"), *_not_ok(self.forward, ref), *stale])


def _inverse(forward: Rule, backward: Rule) -> bool:
    """Whether both are value maps, and b takes every result of f back to where it came from."""
    if not (isinstance(forward, MapRule) and isinstance(backward, MapRule)) or forward.rest is not None:
        return False
    if Match.COLLATION in (forward.match, backward.match):
        return False
    back = dict(backward.when) | ({} if backward.when_null is None else {"NULL": backward.when_null})
    there = dict(forward.when) | ({} if forward.when_null is None else {"NULL": forward.when_null})
    return all(back.get(result) == value for value, result in there.items())


def _copies(rule: Rule, source: Column) -> bool:
    return rule.columns == (source,) and rule.value(quote.name) == quote.name(source.name) and rule.known(str) is None


def _other_form(rule: Rule, ref: Ref) -> str | None:
    differs = other_form(rule.target, ref(rule.target.name), rule.value(ref))
    return None if differs is None else f"IF({rule.equals(ref)}, {differs}, 0)"


def _not_ok(rule: Rule, ref: Ref) -> list[tuple[str, str]]:
    known, fits = rule.known(ref), rule.fits(ref)
    found = [(f"NOT ({known})", "'unmapped'")] if known is not None else []
    return found + ([(f"NOT ({fits})", "'unfit'")] if fits is not None else [])
