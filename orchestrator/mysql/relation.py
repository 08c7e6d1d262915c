"""The one relation between old and new columns, rendered once for everybody: fill, drift, verifier, meter and mirror.

``load_relation`` asks the server for the kind of each expression and gives a frozen ``Relation`` whose methods return
SQL text that is 0 or 1, never NULL. ``ref`` says how a column is written there (``t.`c```, ``NEW.`c```).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column, Contract, Mapping, Winner
from orchestrator.model.facts import Shape
from orchestrator.mysql.columns import columns_after_ddl
from orchestrator.mysql.expression import Ref
from orchestrator.mysql.fit import exact
from orchestrator.mysql.rules import Rule, compile_rule
from orchestrator.mysql.session import Session
from orchestrator.mysql.unset import Unset, unset_of

Truth = Literal["old-is-truth", "corresponds"]


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


@dataclass(frozen=True, slots=True)
class PairSql:
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

    def lossy(self, ref: Ref) -> str:
        """They correspond one way only: going back and forth would change one of them."""
        return "0" if self.is_copy else f"({self.holds(ref)}) <> ({self.goes_back(ref)})"

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
        return some(f"NOT ({exact(c, after(c.name))} <=> {exact(c, before(c.name))})" for c in columns)


@dataclass(frozen=True, slots=True)
class DerivedSql:
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

    def mismatch_class(self, ref: Ref, relation: Truth) -> str:
        """SQL that names the class of mismatch, NULL when there is none; the same under both relations."""
        stale = [(self.unset.now(ref), "'derived-empty'"), ("1", "'stale'")]
        return _first_of([(self.holds(ref), "NULL"), *_not_ok(self.forward, ref), *stale])


@dataclass(frozen=True, slots=True)
class Relation:
    """All mappings of one contract on one table. Every method that takes ``ref`` returns SQL that is 0 or 1."""

    pairs: tuple[PairSql, ...]
    derived: tuple[DerivedSql, ...]
    last_triggers: tuple[tuple[str, str], ...] = ()

    @property
    def mappings(self) -> tuple[PairSql | DerivedSql, ...]:
        return (*self.pairs, *self.derived)

    def pending(self, ref: Ref) -> str:
        """Old is the truth: some new column is not what it should be and can be written."""
        return some(m.pending(ref) for m in self.mappings)

    def holds(self, ref: Ref) -> str:
        """Old is the truth: every mapping holds, byte for byte."""
        return every(m.holds(ref) for m in self.mappings)

    def corresponds(self, ref: Ref) -> str:
        """While both are written: every pair corresponds and every derived column is filled."""
        return every(m.corresponds(ref) for m in self.mappings)

    def unwritable(self, ref: Ref) -> str:
        """Some old value that a new column needs is not known to its mapping, or does not fit."""
        found = []
        for mapping in self.mappings:
            ok = mapping.forward.ok(ref)
            if ok is not None:
                needed = mapping.unset.now(ref) if isinstance(mapping, DerivedSql) and not mapping.follows else None
                found.append(every((needed, f"NOT ({ok})")))
        return some(found)

    def assignments(self, ref: Ref) -> tuple[tuple[str, str], ...]:
        """(column, SQL): what each new column becomes when old is the truth; what cannot be written stays as it is."""
        found = [(p.new.name, p.forward.or_else(ref, ref(p.new.name))) for p in self.pairs]
        for derived in self.derived:
            keep = ref(derived.new.name)
            filled = derived.forward.or_else(ref, keep)
            if not derived.follows:
                filled = f"IF({derived.unset.now(ref)}, {filled}, {keep})"
            found.append((derived.new.name, filled))
        return tuple(found)


def load_relation(session: Session, contract: Contract, shape: Shape) -> Relation:
    """Read all mappings of the contract against the table. Reads only, needs no privilege on the table.

    Raises RunbookError: an expression that the server refuses or that depends on more than the row, a value that its
    column cannot hold, a default that cannot be told from a given value.
    """
    columns = columns_after_ddl(contract, shape)
    pairs, derived = [], []
    for mapping in contract.mappings:
        if mapping.is_pair:
            pairs.append(_load_pair(session, mapping, columns))
        else:
            new = _column(columns, mapping.new, mapping)
            forward = compile_rule(session, mapping.forward, mapping.old, new, columns, f"{mapping}, forward")
            derived.append(DerivedSql(mapping, new, forward, unset_of(new, str(mapping))))
    return Relation(tuple(pairs), tuple(derived), _last_triggers(shape))


def _load_pair(session: Session, mapping: Mapping, columns: dict[str, Column]) -> PairSql:
    assert mapping.old is not None
    assert mapping.backward is not None
    old, new = _column(columns, mapping.old, mapping), _column(columns, mapping.new, mapping)
    forward = compile_rule(session, mapping.forward, old.name, new, columns, f"{mapping}, forward")
    backward = compile_rule(session, mapping.backward, new.name, old, columns, f"{mapping}, backward")
    old_side = tuple(dict.fromkeys((old, *forward.columns)))
    new_side = tuple(c for c in dict.fromkeys((new, *backward.columns)) if c not in old_side)
    unset, given_old = unset_of(new, str(mapping)), unset_of(old, str(mapping))
    return PairSql(mapping, old, new, forward, backward, unset, given_old, old_side, new_side)


def _column(columns: dict[str, Column], name: str, mapping: Mapping) -> Column:
    column = columns.get(name.lower())
    if column is None:
        raise RunbookError(
            f"{mapping}: there is no column {name}", "columns of the table or of the contract", "correct the runbook"
        )
    return column


def _last_triggers(shape: Shape) -> tuple[tuple[str, str], ...]:
    """(event, name) of the application's last BEFORE trigger: ours come after it."""
    last = {
        t.event.lower(): t.name
        for t in sorted(shape.triggers, key=lambda t: t.order)
        if t.timing.upper() == "BEFORE" and not t.name.startswith(MIRROR_PREFIX)
    }
    return tuple(sorted(last.items()))


def _copies(rule: Rule, source: Column) -> bool:
    return rule.columns == (source,) and rule.value(lambda name: name) == source.name and rule.known(str) is None


def _not_ok(rule: Rule, ref: Ref) -> list[tuple[str, str]]:
    known, fits = rule.known(ref), rule.fits(ref)
    found = [(f"NOT ({known})", "'unmapped'")] if known is not None else []
    return found + ([(f"NOT ({fits})", "'unfit'")] if fits is not None else [])


MIRROR_PREFIX = "_rollout_"
