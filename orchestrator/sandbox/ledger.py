"""What the table must hold, told from the acknowledged writes alone: the oracle for "no row loses a write".

Writes to one row are put in order without holding anybody up: the server locks a row from the write to the commit, so a
number that is taken after the write statement has returned and before COMMIT is sent rises in the order in which the
row's transactions ran, for contested rows too. The ledger keeps the acknowledged writes with their numbers, and at the
end replays them over what the table held in the beginning, with a model of the mapping of its own. A write whose COMMIT
was not answered leaves two possible rows; either is right (see ``replay``).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from msgspec import Struct

from orchestrator.model.facts import Shape
from orchestrator.model.keys import Key, show_key
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.sql import applications as sql
from orchestrator.sandbox.mapping import UNKNOWN, Image, PairModel, TableModel
from orchestrator.sandbox.replay import Possible, Replay, Turn, Write, nulled_columns
from orchestrator.sandbox.values import Value

_PAGE_ROWS = 2_000


class Reads(Protocol):
    """A session of either kind."""

    def query(self, sql: str, args: Sequence[object] = ()) -> list[tuple[Any, ...]]: ...


class Difference(Struct, frozen=True):
    """One value that is not what the acknowledged writes make it."""

    key: str
    column: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"row {self.key}, {self.column or 'the row itself'}: expected {self.expected}, found {self.found}"


class Ledger:
    """Thread-safe while traffic runs; ``load`` before it and ``compare`` when it is quiet."""

    def __init__(self, runbook: Runbook, shape: Shape) -> None:
        self.table = runbook.table
        self.model = TableModel(runbook.contract, shape)
        self._nulled = nulled_columns(shape, runbook.contract.foreign_keys)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._writes: list[Write] = []
        self._beginning: dict[Key, tuple[Any, ...]] = {}
        self._turns: list[Turn] = []
        self._alone_from: float = float("inf")
        self._names = tuple(self.model.old_columns)
        self._at = {name: at for at, name in enumerate(self._names)}
        self._partners: dict[tuple[str, str], dict[Value, Value]] = {}
        self._replayed: tuple[tuple[int, int], dict[Key, Possible]] | None = None

    def load(self, session: Reads) -> tuple[Key, ...]:
        """Take what the table holds now as the beginning; the keys of its rows, in key order."""
        self._beginning = dict(self._pages(session, self._names))
        return tuple(self._beginning)

    def number(self) -> int:
        """The next number in the order of writes. Take it between a write statement's return and COMMIT."""
        return next(self._numbers)

    def record(self, writes: Iterable[Write]) -> None:
        """Writes whose COMMIT was acknowledged (or may have happened: ``certain`` False)."""
        with self._lock:
            self._writes.extend(writes)

    def old_is_truth(self, *, dropped: bool = False) -> None:
        """The mirror was taken down on the way back: from here the new columns follow from the old ones again.

        Say it after the way back and before new columns are written again. ``dropped``: the way back dropped them.
        """
        with self._lock:
            self._turns.append(Turn(self.number(), dropped))

    def new_is_alone(self) -> None:
        """The new application goes on without the flag: from here on the mirror may go, and no partner is promised."""
        with self._lock:
            self._alone_from = self.number()

    def written(self) -> tuple[Write, ...]:
        """All writes so far, in no order."""
        with self._lock:
            return tuple(self._writes)

    def compare(self, session: Reads, *, partners: bool = True) -> list[Difference]:
        """Every difference between the table and the ledger, value by value.

        Rows that nobody wrote must be as they were, timestamps included. ``partners`` False: of a pair only the column
        that was written last is compared (for a moment before the sweep, when the other one is not due yet).
        """
        expected = self.expected()
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
        for key in self._beginning.keys() | expected.keys():
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
        values = self._beginning.get(key)
        if values is None:
            yield Difference(show_key(key), "", "no row", "a row")
            return
        for name, value in zip(self._names, values, strict=True):
            if row[name] != value:
                yield Difference(show_key(key), name, repr(value), repr(row[name]))
        if partners:
            for pair in self.model.pairs:
                old, new = pair.names
                expected = self._filled(pair, values[self._at[old]])
                if new in row and row[new] != expected:
                    yield Difference(show_key(key), new, repr(expected), repr(row[new]))

    def _against(self, key: Key, row: Image, image: Image, partners: bool) -> Iterator[Difference]:
        for name, value in image.items():
            skipped = name.startswith("last:") or value is UNKNOWN or name not in row
            if not skipped and (partners or self._is_last_written(image, name)) and row[name] != value:
                yield Difference(show_key(key), name, repr(value), repr(row[name]))

    def _filled(self, pair: PairModel, value: Value) -> Value:
        """What the backfill puts beside an old value; most values are there many times."""
        known = self._partners.setdefault(pair.names, {})
        if value not in known:
            known[value] = pair.filled(value)
        return known[value]

    def _is_last_written(self, image: Image, name: str) -> bool:
        pair = self.model.pair_of(name)
        return pair is None or image.get(f"last:{pair.names[0]}", pair.names[0]) == name

    def expected(self) -> dict[Key, Possible]:
        """For each row that was written: the rows that it may be by now (None: it does not exist)."""
        with self._lock:
            turns, writes = tuple(self._turns), tuple(self._writes)
        if self._replayed is None or self._replayed[0] != (len(writes), len(turns)):
            replay = Replay(self.model, self._beginning, self._nulled, self._alone_from)
            self._replayed = ((len(writes), len(turns)), replay.run(writes, turns))
        return self._replayed[1]
