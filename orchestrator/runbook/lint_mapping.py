"""The mapping laws, as far as the file alone can show them; the values that live in the table are looked at later."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.model.contract import Contract, Copy, Expression, Mapping, Match, Transform, Unmapped, ValueMap
from orchestrator.model.types import Family
from orchestrator.mysql.captured import names
from orchestrator.runbook.fit import literal_problem
from orchestrator.runbook.lint_words import expression_problem
from orchestrator.runbook.rules import Breach
from orchestrator.runbook.tree import Path

Value = str | None


def mappings(contract: Contract) -> Iterator[Breach]:
    """All that is wrong with the mappings, one by one and among each other."""
    added = {c.name.lower() for c in contract.columns}
    owners: dict[str, str] = {}
    for i, mapping in enumerate(contract.mappings):
        path: Path = ("mappings", i)
        if mapping.is_pair and mapping.old is not None:
            if mapping.old.lower() in owners:
                seen = f"{mapping.old} is in the pairs of {owners[mapping.old.lower()]} and {mapping.new}"
                yield Breach("pairs-share-old", path, seen)
            owners.setdefault(mapping.old.lower(), mapping.new)
        yield from _reads(mapping, added, path)
        if mapping.new.lower() in added:
            yield from _values(contract, mapping, path)
        if isinstance(mapping.forward, ValueMap) and isinstance(mapping.backward, ValueMap):
            yield from _laws(contract, mapping, mapping.forward, mapping.backward, path)


def _reads(mapping: Mapping, added: set[str], path: Path) -> Iterator[Breach]:
    """Which columns each direction reads."""
    if mapping.old is not None and mapping.old.lower() in added:
        yield Breach("mapping-chain", path, f"{mapping.new} comes from {mapping.old}, which the contract adds")
    for way, transform in (("forward", mapping.forward), ("backward", mapping.backward)):
        if not isinstance(transform, Expression):
            continue
        if problem := expression_problem(transform.sql):
            yield Breach("expression-of-the-row", (*path, way), f"{way} of {mapping}: {problem}")
            continue
        read = names(transform.sql)
        own = mapping.old if way == "forward" else mapping.new
        if mapping.is_pair and own is not None and own.lower() not in read:
            yield Breach("pair-blind", (*path, way), f"{way} of {mapping} does not read {own}")
        allowed = {mapping.new.lower()} if way == "backward" else set()
        if foreign := sorted((read & added) - allowed):
            yield Breach("mapping-chain", (*path, way), f"{way} of {mapping} reads the new column {foreign[0]}")


def _values(contract: Contract, mapping: Mapping, path: Path) -> Iterator[Breach]:
    """Literals and NULL against the new column."""
    column = contract.column(mapping.new)
    if not mapping.is_pair and not mapping.follows and not column.null:
        yield Breach("derived-not-null", path, f"{mapping.new} is derived, filled once and NOT NULL")
    given = _results(mapping.forward)
    if None in given and not column.null:
        yield Breach(
            "null-into-not-null", (*path, "forward"), f"forward of {mapping} gives NULL, the column is NOT NULL"
        )
    named = given + [v for v in _named(mapping.backward) if v not in given]
    for value in named:
        problem = "" if value is None else literal_problem(value, column.type, column.charset)
        if problem:
            yield Breach("value-unfit", path, f"{value!r} of {mapping} {problem} ({column.name} is {column.type})")
    default = column.default
    backward = mapping.backward
    if not isinstance(backward, ValueMap) or default is None or default.is_expression:
        return
    if backward.unmapped is Unmapped.REFUSE and default.text not in _named(backward):
        yield Breach(
            "default-outside-mapping", path, f"the default {default.text!r} of {column.name} is not in backward"
        )


def _laws(contract: Contract, mapping: Mapping, forward: ValueMap, backward: ValueMap, path: Path) -> Iterator[Breach]:
    column = next((c for c in contract.columns if c.name.lower() == mapping.new.lower()), None)
    labels = list(column.type.labels) if column is not None and column.type.family is Family.ENUM else []
    missing = [v for v in dict.fromkeys([*_results(forward), *labels]) if _apply(backward, v) is _UNKNOWN]
    if missing:
        shown = ", ".join("NULL" if v is None else v for v in missing)
        yield Breach("backward-not-total", (*path, "backward"), f"backward of {mapping} does not know {shown}")
    for old, new in forward.values:
        back = _apply(backward, new)
        if isinstance(back, _Unknown):
            continue
        again = _apply(forward, back)
        if isinstance(again, _Unknown) or again != new:
            told = "unmapped" if isinstance(again, _Unknown) else again
            seen = f"{mapping}: {old} → {new} → {back} → {told}"
            yield Breach("round-trip", (*path, "backward"), seen)


class _Unknown:
    """What a map answers for a value that it does not name."""


_UNKNOWN = _Unknown()


def _apply(values: ValueMap, value: Value) -> Value | _Unknown:
    for key, result in values.values:
        alike = values.match is Match.COLLATION and key and value and key.casefold() == value.casefold()
        if key == value or alike:
            return result
    return value if values.unmapped is Unmapped.KEEP and value is not None else _UNKNOWN


def _results(transform: Transform | None) -> list[Value]:
    return [v for _, v in transform.values] if isinstance(transform, ValueMap) else []


def _named(transform: Transform | None) -> list[Value]:
    match transform:
        case ValueMap():
            return [k for k, _ in transform.values]
        case Copy() | Expression() | None:
            return []
