"""The one relation between old and new columns, rendered once for everybody: fill, drift, verifier, meter and mirror.

``load_relation`` asks the server for the kind of each expression and gives a frozen ``Relation`` whose methods return
SQL text that is 0 or 1, never NULL. ``ref`` says how a column is written there (``t.`c```, ``NEW.`c```).
"""

from __future__ import annotations

from msgspec import Struct

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column, Contract, Mapping
from orchestrator.model.facts import Shape
from orchestrator.mysql.columns import columns_after_ddl
from orchestrator.mysql.compile import compile_rule
from orchestrator.mysql.expression import Ref
from orchestrator.mysql.pairs import DerivedSql, PairSql, every, some
from orchestrator.mysql.rules import null_of
from orchestrator.mysql.session import Session
from orchestrator.mysql.unset import unset_of

__all__ = ["MIRROR_PREFIX", "DerivedSql", "PairSql", "Ref", "Relation", "every", "load_relation", "some"]
# What the names of our triggers begin with: the application's begin with anything else.
MIRROR_PREFIX = "_rollout_"


class Relation(Struct, frozen=True):
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
    pair = PairSql(mapping, old, new, forward, backward, unset, given_old, old_side, new_side)
    _refuse_default(session, pair)
    return pair


def _refuse_default(session: Session, pair: PairSql) -> None:
    """A default that goes back to an old value which comes again as another one would stay, unfilled, in new rows."""
    default = pair.unset.default or pair.unset.inserted
    if default is None or pair.unset.is_moment or pair.forward.columns != (pair.old,) or pair.new_side != (pair.new,):
        return
    given = null_of(pair.new) if default == "NULL" else default
    if session.value(f"SELECT {pair.returns(lambda _: given)}") == 0:
        raise RunbookError(
            f"{pair.name}: the default {default} of {pair.new.name} goes back to a value that comes again as another",
            "a default of the new column that survives the way back and there again, or none",
            f"give {pair.new.name} the default that {pair.old.name}'s default becomes, or no default",
        )


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
