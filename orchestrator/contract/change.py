"""What a change brings to the table of a contract, and to tables that are related to it, without being named by it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.contract.difference import Difference, Kind
from orchestrator.contract.drift import compare
from orchestrator.contract.target import Target
from orchestrator.model.contract import Before, Contract


def added_by(contract: Contract, base: Sequence[Target], head: Sequence[Target]) -> tuple[Difference, ...]:
    """What differs from the contract after the change and did not before: its own doing, not an older debt.

    Without ``table.before`` in the runbook, what stood before is what the base says. A new table is told when a foreign
    key ties it to the contract's table. The table itself may not go.
    """
    was, now = _table(contract, base), _table(contract, head)
    if now is None:
        gone = Difference(
            Kind.TARGET_LACKS, "table", contract.table.name, "the change removes the table, or renames it"
        )
        return (gone,) if was is not None else ()
    if was is None:
        return compare(contract, now)
    known = contract if contract.before is not None else replace(contract, before=_stood(contract, was))
    old = {_told(d) for d in compare(known, was)}
    fresh = tuple(d for d in compare(known, now) if _told(d) not in old)
    there = {t.shape.table for t in base}
    new = [t.shape.table.name for t in head if t.shape.table not in there]
    return (
        *fresh,
        *(
            Difference(Kind.NEW_TABLE, "table", n, "the change adds it; no key ties it to this one")
            for n in new
            if not any(n in d.name or n in d.told for d in fresh)
        ),
    )


def _told(difference: Difference) -> tuple[Kind, str, str, str]:
    return difference.kind, difference.thing, difference.name, difference.told


def _table(contract: Contract, tables: Sequence[Target]) -> Target | None:
    return next((t for t in tables if t.shape.table.name == contract.table.name), None)


def _stood(contract: Contract, was: Target) -> Before:
    """The base without what the contract adds."""
    columns = {c.name.lower() for c in contract.columns}
    indexes = {i.name.lower() for i in contract.indexes}
    keys = {f.name.lower() for f in contract.foreign_keys}
    shape = was.shape
    return Before(
        columns=tuple(c for c in shape.columns if c.name.lower() not in columns),
        indexes=tuple(i for i in shape.indexes if i.name.lower() not in indexes),
        foreign_keys=tuple(f for f in shape.foreign_keys if f.name.lower() not in keys),
        collation=shape.collation,
        children=tuple((t, f) for t, f in shape.referenced_by if t != contract.table),
    )
