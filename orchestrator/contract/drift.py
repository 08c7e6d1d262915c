"""What the contract lacks, what the target lacks, and what differs: one table, property by property. Pure.

The contract names everything: what stood before (``table.before``) and what is added. A runbook that does not say what
stood before is still held to what it adds; then a column that stands after the first added one is later work, and so
is an index or foreign key that uses an added column, because ddl puts what it adds at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.contract.difference import Difference, Kind
from orchestrator.contract.statuses import status_differences
from orchestrator.contract.target import Target, Unsaid
from orchestrator.model.contract import Column, Contract, ForeignKey, Index, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.renaming import standing_after
from orchestrator.model.shape_diff import check_reasons, column_reasons, index_reasons, key_reasons
from orchestrator.model.types import Family, parse_type

T = TypeVar("T", Column, Index, ForeignKey)
Reasons = Callable[[T, T], tuple[str, ...]]


class Expected(Struct, frozen=True):
    """The whole table as the contract names it. ``closed``: nothing else may be there."""

    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]
    foreign_keys: tuple[ForeignKey, ...]
    closed: bool


def compare(contract: Contract, target: Target) -> tuple[Difference, ...]:
    """All that differs, by kind of thing in the order of the contract. Empty: the target is what the contract says."""
    shape = _with_table_collation(contract, target.shape)
    expected = _expected(contract, shape)
    said = _Said(target, replace(target, shape=shape).shape)
    return (
        *_table(contract, target),
        *said.things("column", expected.columns, shape.columns, said.column_reasons),
        *said.order(expected, shape),
        *said.things("index", said.sayable(expected.indexes), shape.indexes, said.index_reasons),
        *said.things("foreign key", expected.foreign_keys, shape.foreign_keys, key_reasons),
        *_checks(contract, target, shape),
        *_children(contract, target),
        *status_differences(contract, target),
    )


def _with_table_collation(contract: Contract, shape: Shape) -> Shape:
    """Columns that name no collation have the table's: the one that the contract knows, where it says."""
    wanted = contract.before.collation if contract.before is not None else ""
    return replace(shape, collation=wanted) if wanted else shape


def _expected(contract: Contract, shape: Shape) -> Expected:
    changed = {c.name.lower(): c for c in contract.changes}
    if (before := standing_after(contract)) is not None:
        columns = tuple(changed.get(c.name.lower(), c) for c in before.columns)
        missing = tuple(c for c in contract.changes if c.name.lower() not in {b.name.lower() for b in before.columns})
        return Expected(
            _in_place((*columns, *missing, *contract.columns)),
            (*before.indexes, *contract.indexes),
            (*before.foreign_keys, *contract.foreign_keys),
            closed=True,
        )
    return _judged_by_place(contract, shape, changed)


def _judged_by_place(contract: Contract, shape: Shape, changed: dict[str, Column]) -> Expected:
    """What stood before is what stands in front of everything that the contract adds."""
    added = {c.name.lower() for c in contract.columns}
    names = [c.name.lower() for c in shape.columns]
    at_the_end = [c.name.lower() for c in contract.columns if not c.after]
    first = min((names.index(n) for n in at_the_end if n in names), default=len(names))
    stood = tuple(changed.get(c.name.lower(), c) for c in shape.columns[:first] if c.name.lower() not in added)
    later = set(names[first:]) | added
    ours = {i.name.lower() for i in contract.indexes}
    indexes = [i for i in shape.indexes if i.name.lower() not in ours and not _touches(i.columns, later)]
    our_keys = {f.name.lower() for f in contract.foreign_keys}
    keys = [f for f in shape.foreign_keys if f.name.lower() not in our_keys and not _touches(f.columns, later)]
    missing = tuple(c for n, c in changed.items() if n not in names[:first])
    return Expected(
        (*stood, *missing, *contract.columns),
        (*indexes, *contract.indexes),
        (*keys, *contract.foreign_keys),
        closed=False,
    )


def _touches(names: Sequence[str], columns: set[str]) -> bool:
    return any(n.lower() in columns for n in names)


class _Said:
    """Comparisons with one target, minding what its kind of source has no words for."""

    def __init__(self, target: Target, shape: Shape) -> None:
        self._target, self._shape, self._unsaid = target, shape, target.unsaid

    def things(
        self, thing: str, wanted: Sequence[T], live: Sequence[T], reasons: Callable[[T, T], tuple[str, ...]]
    ) -> Iterator[Difference]:
        by_name = {x.name.lower(): x for x in live}
        named = {x.name.lower() for x in wanted}
        others = [x for x in live if x.name.lower() not in named]
        for one in wanted:
            there = by_name.get(one.name.lower())
            if there is not None:
                yield from self._differs(thing, one, reasons(one, there))
            elif thing != "column" and (twin := next((o for o in others if not reasons(one, o)), None)) is not None:
                others.remove(twin)
                told = f"it is called {twin.name} there, and is otherwise the same"
                yield Difference(Kind.NAME, thing, one.name, told, self._line(thing, twin.name))
            else:
                told = f"{shown(one)}: the contract names it, the target does not have it"
                yield Difference(Kind.TARGET_LACKS, thing, one.name, told, self._line("table", ""))
        for other in others:
            told = f"{shown(other)}: the target has it, the contract does not name it"
            yield Difference(Kind.CONTRACT_LACKS, thing, other.name, told, self._line(thing, other.name))

    def _differs(self, thing: str, wanted: T, reasons: Sequence[str]) -> Iterator[Difference]:
        for reason in reasons:
            yield Difference(Kind.DIFFERS, thing, wanted.name, reason, self._line(thing, wanted.name))

    def _line(self, thing: str, name: str) -> int:
        return self._target.line(thing, name)

    def column_reasons(self, wanted: Column, live: Column) -> tuple[str, ...]:
        return column_reasons(wanted, self._as_said(wanted, live), self._shape)

    def _as_said(self, wanted: Column, live: Column) -> Column:
        """The target's column; what its source has no words for is taken as wanted."""
        if Unsaid.COLLATION in self._unsaid:
            live = replace(live, charset=None, collation=None)
        if Unsaid.ON_UPDATE in self._unsaid:
            live = replace(live, on_update=wanted.on_update)
        if Unsaid.GENERATED in self._unsaid:
            live = replace(live, generated=wanted.generated, stored=wanted.stored)
        if Unsaid.INVISIBLE in self._unsaid:
            live = replace(live, invisible=wanted.invisible)
        if wanted.type.family is Family.JSON and live.type.base == "longtext" and self._checked_as_json(live):
            # What MariaDB makes of JSON, and so what a dump of it says.
            live = replace(live, type=parse_type("json"), charset=None, collation=None)
        return live

    def _checked_as_json(self, live: Column) -> bool:
        bare = [c.lower().replace("`", "").replace(" ", "") for _, c in self._shape.checks]
        return any(f"json_valid({live.name.lower()})" in c for c in bare)

    def sayable(self, indexes: Sequence[Index]) -> Sequence[Index]:
        """Without those over expressions, where the source has no words for them."""
        if Unsaid.EXPRESSIONS not in self._unsaid:
            return indexes
        return [i for i in indexes if all(p.expression is None for p in i.parts)]

    def index_reasons(self, wanted: Index, live: Index) -> tuple[str, ...]:
        if Unsaid.INVISIBLE in self._unsaid:
            live = replace(live, visible=wanted.visible)
        return index_reasons(wanted, live, self._shape)

    def order(self, expected: Expected, shape: Shape) -> Iterator[Difference]:
        """Columns that both have, in another order: told, because a statement that names no columns would notice."""
        if not expected.closed or Unsaid.ORDER in self._unsaid:
            return
        live = [c.name.lower() for c in shape.columns]
        wanted = [c.name.lower() for c in expected.columns if c.name.lower() in live]
        live = [n for n in live if n in set(wanted)]
        for name, instead in zip(wanted, live, strict=True):
            if name != instead:
                told = f"the order is otherwise from here on: {instead} stands where {name} is wanted"
                yield Difference(Kind.ORDER, "column", name, told, self._line("column", instead))
                return


def _table(contract: Contract, target: Target) -> Iterator[Difference]:
    """Properties of the table itself, as far as the contract says them."""
    wanted = contract.before.collation if contract.before is not None else ""
    live = target.shape.collation
    if wanted and live and wanted != live and Unsaid.COLLATION not in target.unsaid:
        told = f"the default collation is {live}, wanted {wanted}"
        yield Difference(Kind.DIFFERS, "table", target.shape.table.name, told, target.line("table", ""))
    if target.shape.kind != "BASE TABLE":
        told = f"it is a {target.shape.kind.lower()}, wanted a base table"
        yield Difference(Kind.DIFFERS, "table", target.shape.table.name, told, target.line("table", ""))


def _checks(contract: Contract, target: Target, shape: Shape) -> Iterator[Difference]:
    """CHECKs that the contract adds; others are looked at for the statuses that they name."""
    if Unsaid.CHECKS in target.unsaid:
        return
    for check in contract.checks:
        reasons = check_reasons(check, shape)
        if reasons is None:
            told = f"({check.sql}): the contract names it, the target does not have it"
            yield Difference(Kind.TARGET_LACKS, "check", check.name, told, target.line("table", ""))
        for reason in reasons or ():
            yield Difference(Kind.DIFFERS, "check", check.name, reason, target.line("table", ""))


def _in_place(columns: Sequence[Column]) -> tuple[Column, ...]:
    """In physical order: each behind the column that it names."""
    placed: list[Column] = []
    for column in columns:
        names = [c.name.lower() for c in placed]
        at = names.index(column.after.lower()) + 1 if column.after.lower() in names else len(placed)
        placed.insert(at, column)
    return tuple(placed)


def _children(contract: Contract, target: Target) -> Iterator[Difference]:
    """Foreign keys of other tables into this one: their delete and update rules are part of what was frozen."""
    before, mine = standing_after(contract), contract.table
    if before is None:
        return
    wanted = {(t.name.lower(), f.name.lower()): f for t, f in before.children if t != mine}
    live = {(t.name.lower(), f.name.lower()): (t, f) for t, f in target.shape.referenced_by if t != mine}
    for at, key in wanted.items():
        table = TableName(mine.schema, next(t.name for t, f in before.children if f is key))
        shown_name = f"{table.name}.{key.name}"
        if at in live:
            for reason in key_reasons(key, live[at][1]):
                yield Difference(Kind.DIFFERS, "relation", shown_name, reason, target.line("table", ""))
        elif twin := next(
            (o for o in live.values() if o[0].name.lower() == at[0] and not key_reasons(key, o[1])), None
        ):
            told = f"it is called {twin[1].name} there, and is otherwise the same"
            del live[twin[0].name.lower(), twin[1].name.lower()]
            yield Difference(Kind.NAME, "relation", shown_name, told, target.line("table", ""))
        elif target.tables is None or any(t.name.lower() == at[0] for t in target.tables):
            told = f"{shown(key)}: the contract names it, the target does not have it"
            yield Difference(Kind.TARGET_LACKS, "relation", shown_name, told, target.line("table", ""))
    for at, (table, key) in live.items():
        if at not in wanted:
            told = f"{shown(key)}: the target has it, the contract does not name it"
            yield Difference(
                Kind.CONTRACT_LACKS, "relation", f"{table.name}.{key.name}", told, target.line("table", "")
            )


def shown(thing: Column | Index | ForeignKey) -> str:
    """The thing in a few words."""
    match thing:
        case Column():
            return f"{thing.type}{'' if thing.null else ' NOT NULL'}"
        case Index():
            parts = ", ".join(p.column or f"({p.expression})" for p in thing.parts)
            return f"{'UNIQUE ' if thing.unique else ''}({parts})"
        case ForeignKey():
            return f"({', '.join(thing.columns)}) → {thing.references.name} ON DELETE {thing.on_delete}"
