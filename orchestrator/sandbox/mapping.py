"""What the two columns of a pair must hold after each write: the mapping and the mirror's rule, said a second time.

The ledger and the traffic use this model; the product renders SQL of its own. A difference of the two is a finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from msgspec import Struct

from orchestrator.model.contract import (
    Column,
    Contract,
    Copy,
    Default,
    Expression,
    Mapping,
    Match,
    Transform,
    ValueMap,
    Winner,
)
from orchestrator.model.facts import Shape
from orchestrator.model.types import Family
from orchestrator.sandbox.expression import Expr, evaluate
from orchestrator.sandbox.values import condense, draw, fits, stored, with_charset

Value = Any
Image = dict[str, Value]


class _Unknown:
    """What a mapping gives for a value that it does not know, or whose result the column cannot hold."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


def _typed(text: str | None, column: Column) -> Value:
    if text is not None and column.type.family in (Family.INTEGER, Family.YEAR, Family.BIT):
        return int(text)
    return stored(text, column)


def _transform(transform: Transform, source: Column, target: Column) -> Expr:
    """The transform as a function of the row; UNKNOWN where it knows no value or the value does not fit the target."""
    match transform:
        case Copy():
            apply: Expr = lambda row: row[source.name.lower()]  # noqa: E731
        case Expression(sql):
            apply = evaluate(sql)
        case ValueMap():
            apply = _value_map(transform, source, target)

    def checked(row: Any) -> Value:
        if row[source.name.lower()] is UNKNOWN:
            return UNKNOWN
        value = apply(row)
        return stored(value, target) if value is not UNKNOWN and fits(value, target) else UNKNOWN

    return checked


def _value_map(of: ValueMap, source: Column, target: Column) -> Expr:
    def fold(value: Value) -> Value:
        return value.casefold() if of.match is Match.COLLATION and isinstance(value, str) else value

    table = {fold(_typed(a, source)): _typed(b, target) for a, b in of.values}
    keeps = of.unmapped.value == "keep"

    def look_up(row: Any) -> Value:
        value = row[source.name.lower()]
        return table.get(fold(value), value if keeps else UNKNOWN)

    return look_up


def default_value(column: Column) -> Value:
    """What an INSERT that does not name the column stores. UNKNOWN for expressions: the server decides."""
    if column.default is None:
        return None
    if column.default.is_expression:
        return UNKNOWN
    return stored(_plain(column.default, column), column)


def _plain(default: Default, column: Column) -> Value:
    if column.type.family in (Family.INTEGER, Family.YEAR):
        return int(default.text)
    if column.type.family is Family.BIT:
        return int(default.text.strip("b'") or "0", 2)
    return default.text


class PairModel(Struct, frozen=True):
    """One pair: both columns and both directions."""

    mapping: Mapping
    old: Column
    new: Column
    forward: Expr
    backward: Expr

    @property
    def names(self) -> tuple[str, str]:
        return self.old.name.lower(), self.new.name.lower()

    def corresponds(self, row: Image) -> bool:
        """``n <=> f(o)`` or ``o <=> b(n)``, byte for byte."""
        o, n = self.names
        return bool(self.forward(row) == row[n] or self.backward(row) == row[o])

    @property
    def counts(self) -> bool:
        """Whether both columns are integers that mean the same number, so that ``+ 1`` is the same on both sides."""
        o, n = self.names
        whole = self.old.type.family is Family.INTEGER and self.new.type.family is Family.INTEGER
        return whole and all(self.forward({o: i}) == i and self.backward({n: i}) == i for i in (0, 1, 7, 100))

    def follow(self, before: Image, row: Image) -> None:
        """Do to ``row`` (after a statement) what the mirror does, given the row before it."""
        o, n = self.names
        old_changed, new_changed = row[o] != before[o], row[n] != before[n]
        if (old_changed or new_changed) and not self.corresponds(row):
            if old_changed and (not new_changed or self.mapping.on_conflict is Winner.OLD):
                self.fill(row)
            else:
                back = self.backward(row)
                row[o] = row[o] if back is UNKNOWN else back
        elif not old_changed and not new_changed and (row[n] is None or row[n] == default_value(self.new)):
            self.fill(row)

    def fill(self, row: Image) -> None:
        """``n := f(o)`` where that is known and fits: the mirror for an old write, the backfill, the sweep."""
        value = self.forward(row)
        if value is not UNKNOWN:
            row[self.names[1]] = value

    def filled(self, value: Value) -> Value:
        """What the new column holds beside that old value after the backfill: as it was added, where nothing fits."""
        row: Image = {self.names[0]: value, self.names[1]: default_value(self.new)}
        self.fill(row)
        return row[self.names[1]]

    def draw_old(self, rng: Random) -> Value:
        """A value for the old column that the mapping knows and that fits the new one."""
        forward = self.mapping.forward
        if isinstance(forward, ValueMap) and forward.unmapped.value == "refuse":
            return _typed(rng.choice(forward.values)[0], self.old)
        for _ in range(200):
            value = draw(rng, self.old)
            if self.forward({self.names[0]: value}) is not UNKNOWN:
                return value
        raise ValueError(f"{self.mapping}: no value found that the mapping fits")

    def draw_new(self, rng: Random) -> Value:
        """A value for the new column whose way back is known and fits; also such that only correspond."""
        backward = self.mapping.backward
        if isinstance(backward, ValueMap) and backward.unmapped.value == "refuse":
            return _typed(rng.choice(backward.values)[0], self.new)
        for _ in range(200):
            value = self.forward({self.names[0]: self.draw_old(rng)})
            if isinstance(value, int) and isinstance(backward, Expression) and rng.random() < 0.5:
                value += rng.choice((-1, 1, 7, 500))
            if value is not UNKNOWN and fits(value, self.new) and self.backward({self.names[1]: value}) is not UNKNOWN:
                return value
        raise ValueError(f"{self.mapping}: no value found that fits both ways")


_SHORT = 200
# What the driver gives for a column of that kind, where that is the form for comparing.
_READ_AS: dict[Family, type] = {
    Family.INTEGER: int,
    Family.TEXT: str,
    Family.ENUM: str,
    Family.BINARY: bytes,
    Family.TEMPORAL: datetime,
}


class TableModel:
    """The table before and after: its columns by name in lower case, and its pairs."""

    def __init__(self, contract: Contract, shape: Shape) -> None:
        added = {c.name.lower() for c in contract.columns}
        live = [c for c in shape.columns if c.name.lower() not in added and c.generated is None]
        self.key = tuple(k.lower() for k in shape.key)
        self.old_columns = {c.name.lower(): with_charset(c, shape) for c in live}
        self.new_columns = {c.name.lower(): with_charset(c, shape) for c in contract.columns}
        self.columns = self.old_columns | self.new_columns
        self.pairs = tuple(self._pair(m) for m in contract.pairs)
        self.fills = tuple(contract.derived)
        self.derived = {m.new.lower() for m in self.fills}
        self.unique = _unique(contract, shape, self.key)
        self._as_read = {name: _READ_AS.get(column.type.family) for name, column in self.columns.items()}
        self._whole = _words(m for m in contract.mappings)

    def _pair(self, mapping: Mapping) -> PairModel:
        if mapping.old is None or mapping.backward is None:
            raise ValueError(f"{mapping} is not a pair")
        old, new = self.columns[mapping.old.lower()], self.columns[mapping.new.lower()]
        forward, backward = _transform(mapping.forward, old, new), _transform(mapping.backward, new, old)
        return PairModel(mapping, old, new, forward, backward)

    def kept(self, name: str, value: Value) -> Value:
        """The form in which the ledger keeps and compares a value of that column."""
        short = not isinstance(value, str | bytes) or len(value) < _SHORT
        if value is None or (short and type(value) is self._as_read[name]):
            return value  # in that form already: most are, and there are many
        form = stored(value, self.columns[name])
        return form if name in self._whole else condense(form)

    def pair_of(self, name: str) -> PairModel | None:
        return next((p for p in self.pairs if name.lower() in p.names), None)

    def unique_value(self, name: str, serial: int) -> Value:
        """The value of that number for a column of a unique index: no two numbers give the same."""
        column = self.columns[name]
        match column.type.family:
            case Family.INTEGER | Family.DECIMAL | Family.FLOAT:
                return serial
            case Family.BINARY:
                return serial.to_bytes(min(column.type.length or 8, 8), "big").ljust(_width(column), b"\0")
            case Family.TEMPORAL:
                return datetime(2026, 1, 1) + timedelta(seconds=serial)
            case _:
                return f"u{serial:07x}"[-(column.type.length or 40) :]

    def draw(self, rng: Random, name: str) -> Value:
        """A value for that column that an application may write while the rollout runs."""
        pair = self.pair_of(name)
        if pair is None:
            return draw(rng, self.columns[name.lower()])
        return pair.draw_old(rng) if name.lower() == pair.names[0] else pair.draw_new(rng)


def _width(column: Column) -> int:
    return (column.type.length or 0) if column.type.base == "binary" else 0


def _unique(contract: Contract, shape: Shape, key: tuple[str, ...]) -> frozenset[str]:
    """Columns of unique indexes, apart from the key and from those that refer to another table."""
    columns = {c.lower() for index in (*shape.indexes, *contract.indexes) if index.unique for c in index.columns}
    bound = {c.lower() for f in (*shape.foreign_keys, *contract.foreign_keys) for c in f.columns}
    return frozenset(columns - set(key) - bound)


def _words(mappings: Iterable[Mapping]) -> frozenset[str]:
    """Names of columns that an expression reads: their values are kept whole."""
    texts = [t.sql for m in mappings for t in (m.forward, m.backward) if isinstance(t, Expression)]
    return frozenset(word.lower() for text in texts for word in re.findall(r"\w+", text))
