"""What the table must hold, told from the acknowledged writes alone: the oracle for "no row loses a write".

Writes to one row are put in order without holding anybody up: the server locks a row from the write to the commit, so a
number that is taken after the write statement has returned and before COMMIT is sent rises in the order in which the
row's transactions ran, for contested rows too. The ledger keeps the acknowledged writes with their numbers, and at the
end replays them over what the table held in the beginning, with a model of the mapping of its own. A write whose COMMIT
was not answered leaves two possible rows; either is right.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from orchestrator.model.facts import Shape
from orchestrator.model.keys import Key, show_key
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.sql import applications as sql
from orchestrator.sandbox.mapping import UNKNOWN, Image, TableModel, default_value
from orchestrator.sandbox.statements import Kind, Statement, environment, with_values

_PAGE_ROWS = 2_000


class Reads(Protocol):
    """A session of either kind."""

    def query(self, sql: str, args: Sequence[object] = ()) -> list[tuple[Any, ...]]: ...


@dataclass(frozen=True, slots=True)
class Write:
    """One write statement on one row. ``row``: which of an INSERT's rows it is; ``existed``: an upsert updates it."""

    number: int
    key: Key
    statement: Statement
    args: Mapping[str, Any]
    row: int = 0
    existed: bool = False
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is not what the acknowledged writes make it."""

    key: str
    column: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"row {self.key}, {self.column or 'the row itself'}: expected {self.expected}, found {self.found}"


# A row as it may be: its columns in lower case, or None when it does not exist.
Possible = list[Image | None]


class Ledger:
    """Thread-safe while traffic runs; ``load`` before it and ``compare`` when it is quiet."""

    def __init__(self, runbook: Runbook, shape: Shape) -> None:
        self.table = runbook.table
        self.model = TableModel(runbook.contract, shape)
        self._cascades = [f.columns[0].lower() for f in shape.foreign_keys if _nulls_children(f, shape)]
        self._cascades += [f.columns[0].lower() for f in runbook.contract.foreign_keys if _nulls_children(f, shape)]
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._writes: list[Write] = []
        self._baseline: dict[Key, tuple[Any, ...]] = {}
        self._turns: list[int] = []
        self._names = tuple(self.model.old_columns)
        self._at = {name: at for at, name in enumerate(self._names)}

    def load(self, session: Reads) -> tuple[Key, ...]:
        """Take what the table holds now as the beginning; the keys of its rows, in key order."""
        self._baseline = dict(self._pages(session, self._names))
        return tuple(self._baseline)

    def number(self) -> int:
        """The next number in the order of writes. Take it between a write statement's return and COMMIT."""
        return next(self._numbers)

    def record(self, writes: Iterable[Write]) -> None:
        """Writes whose COMMIT was acknowledged (or may have happened: ``certain`` False)."""
        with self._lock:
            self._writes.extend(writes)

    def old_is_truth(self) -> None:
        """The mirror was taken down on the way back: from here the new columns follow from the old ones again."""
        with self._lock:
            self._turns.append(self.number())

    @property
    def writes(self) -> int:
        with self._lock:
            return len(self._writes)

    def compare(self, session: Reads, *, partners: bool = True) -> list[Difference]:
        """Every difference between the table and the ledger, value by value.

        Rows that nobody wrote must be as they were, timestamps included. ``partners`` False: of a pair only the column
        that was written last is compared (before the sweep, and after ``finish``).
        """
        expected = self._replay()
        new = self._live_new(session)
        names = (*self._names, *new)
        differences: list[Difference] = []
        found: set[Key] = set()
        for key, values in self._pages(session, names):
            found.add(key)
            differences += self._compare_row(key, dict(zip(names, values, strict=True)), expected.get(key), partners)
        return differences + list(self._missing(found, expected))

    def _live_new(self, session: Reads) -> tuple[str, ...]:
        live = {row[0].lower() for row in session.query(*sql.column_names(self.table))}
        return tuple(name for name in self.model.new_columns if name in live)

    def _pages(self, session: Reads, names: tuple[str, ...]) -> Iterator[tuple[Key, tuple[Any, ...]]]:
        after: Key | None = None
        parts = len(self.model.key)
        while True:
            rows = session.query(*sql.page(self.table, self.model.key, names, after, _PAGE_ROWS))
            for row in rows:
                yield tuple(row[:parts]), tuple(self.model.kept(n, v) for n, v in zip(names, row[parts:], strict=True))
            if len(rows) < _PAGE_ROWS:
                return
            after = tuple(rows[-1][:parts])

    def _missing(self, found: set[Key], expected: dict[Key, Possible]) -> Iterator[Difference]:
        for key in self._baseline.keys() | expected.keys():
            if key not in found and None not in expected.get(key, [{}]):
                yield Difference(show_key(key), "", "a row", "none")

    def _compare_row(self, key: Key, row: Image, possible: Possible | None, partners: bool) -> Iterator[Difference]:
        if possible is None:
            yield from self._compare_untouched(key, row, partners)
            return
        images = [image for image in possible if image is not None]
        if not images:
            yield Difference(show_key(key), "", "no row", "a row")
            return
        best = min((list(self._against(key, row, image, partners)) for image in images), key=len)
        yield from best

    def _compare_untouched(self, key: Key, row: Image, partners: bool) -> Iterator[Difference]:
        values = self._baseline.get(key)
        if values is None:
            yield Difference(show_key(key), "", "no row", "a row")
            return
        for name, value in zip(self._names, values, strict=True):
            if row[name] != value:
                yield Difference(show_key(key), name, repr(value), repr(row[name]))
        if partners:
            image = self._first(key)
            assert image is not None
            yield from (d for pair in self.model.pairs for d in self._against_pair(key, row, image, pair.names[1]))

    def _against(self, key: Key, row: Image, image: Image, partners: bool) -> Iterator[Difference]:
        for name, value in image.items():
            skipped = name.startswith("last:") or value is UNKNOWN or name not in row
            if not skipped and (partners or self._is_last_written(image, name)) and row[name] != value:
                yield Difference(show_key(key), name, repr(value), repr(row[name]))

    def _against_pair(self, key: Key, row: Image, image: Image, name: str) -> Iterator[Difference]:
        if name in row and row[name] != image[name]:
            yield Difference(show_key(key), name, repr(image[name]), repr(row[name]))

    def _is_last_written(self, image: Image, name: str) -> bool:
        pair = self.model.pair_of(name)
        return pair is None or image.get(f"last:{pair.names[0]}", pair.names[0]) == name

    def _replay(self) -> dict[Key, Possible]:
        with self._lock:
            writes = sorted(self._writes, key=lambda w: w.number)
            turns = sorted(self._turns)
        rows: dict[Key, Possible] = {}
        children = self._first_children()
        for write in writes:
            while turns and turns[0] < write.number:
                turns.pop(0)
                self._turn(rows)
            before = rows.get(write.key) or [self._first(write.key)]
            after = [self._applied(image, write) for image in before]
            rows[write.key] = after if write.certain else _distinct(before + after)
            self._cascade(write, after, rows, children)
        for _ in turns:
            self._turn(rows)
        return rows

    def _turn(self, rows: dict[Key, Possible]) -> None:
        for image in (i for possible in rows.values() for i in possible if i is not None):
            for pair in self.model.pairs:
                pair.fill(image)
                image.pop(f"last:{pair.names[0]}", None)

    def _first(self, key: Key) -> Image | None:
        """The row as it was when the traffic began, its new columns as the backfill fills them."""
        values = self._baseline.get(key)
        if values is None:
            return None
        image: Image = dict(zip(self._names, values, strict=True))
        return self._with_new(image)

    def _with_new(self, image: Image) -> Image:
        derived_or_unset = {name: default_value(c) for name, c in self.model.new_columns.items()}
        image |= {name: self._unset(name, value) for name, value in derived_or_unset.items()}
        for pair in self.model.pairs:
            image[pair.names[1]] = derived_or_unset[pair.names[1]]
            pair.fill(image)
        return image

    def _unset(self, name: str, value: Any) -> Any:
        return UNKNOWN if name in self.model.derived else value

    def _applied(self, image: Image | None, write: Write) -> Image | None:
        statement = write.statement
        env = environment(write.args)
        if statement.kind is Kind.DELETE:
            return None
        if statement.kind is Kind.INSERT and not write.existed:
            return self._inserted({n: e(env) for n, e in statement.inserted[write.row].items()})
        if image is None:
            return None
        if statement.kind is Kind.INSERT:
            env = with_values(env, {n: e(env) for n, e in statement.inserted[write.row].items()})
        after = dict(image)
        for name, expr in statement.assigned:
            after[name] = self.model.kept(name, expr(env | after))
        return self._settled(image, after, {n for n, _ in statement.assigned})

    def _inserted(self, given: Mapping[str, Any]) -> Image:
        blank: Image = {name: default_value(column) for name, column in self.model.columns.items()}
        after = blank | {name: self.model.kept(name, value) for name, value in given.items()}
        settled = self._settled(blank, after, set(given))
        for name in self.model.derived:
            if settled[name] == blank[name]:
                settled[name] = UNKNOWN
        return settled

    def _settled(self, before: Image, after: Image, written: set[str]) -> Image:
        """What the mirror makes of a statement; columns that the server sets by itself become unknown."""
        for pair in self.model.pairs:
            old, new = pair.names
            pair.follow(before, after)
            if (old in written or new in written) and (before[old] != after[old] or before[new] != after[new]):
                after[f"last:{old}"] = new if new in written else old
        for name, column in self.model.columns.items():
            if column.on_update and name not in written:
                after[name] = UNKNOWN
        return after

    def _first_children(self) -> dict[tuple[str, Any], set[Key]]:
        children: dict[tuple[str, Any], set[Key]] = {}
        for name in self._cascades:
            if name in self._at:
                for key, values in self._baseline.items():
                    if values[self._at[name]] is not None:
                        children.setdefault((name, values[self._at[name]]), set()).add(key)
        return children

    def _cascade(
        self, write: Write, after: Possible, rows: dict[Key, Possible], children: dict[tuple[str, Any], set[Key]]
    ) -> None:
        """ON DELETE SET NULL of a foreign key from the table to itself."""
        for name in self._cascades:
            if write.statement.kind is Kind.DELETE:
                for child in children.pop((name, write.key[0]), ()):
                    possible = rows.get(child) or [self._first(child)]
                    cut = [
                        image | {name: None} if image and image[name] == write.key[0] else image for image in possible
                    ]
                    rows[child] = cut if write.certain else _distinct(possible + cut)
            for image in after:
                if image is not None and image[name] is not None:
                    children.setdefault((name, image[name]), set()).add(write.key)


def _nulls_children(foreign_key: Any, shape: Shape) -> bool:
    return bool(
        foreign_key.references == shape.table
        and foreign_key.on_delete == "SET NULL"
        and tuple(c.lower() for c in foreign_key.referenced_columns) == tuple(k.lower() for k in shape.key)
        and len(shape.key) == 1
    )


def _distinct(possible: Possible) -> Possible:
    found: Possible = []
    for image in possible:
        if image not in found:
            found.append(image)
    return found
