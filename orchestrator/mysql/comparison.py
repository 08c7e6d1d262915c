"""Comparing rows by a relation: the server judges, and only counts and the keys of rows that are wrong travel.

A row that looks wrong is looked at again under its lock before it is called so: a write in flight is no mismatch. Rows
that somebody is writing are left out and asked for again, so that a look never makes the application wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from orchestrator.model.facts import MismatchClass
from orchestrator.model.keys import Key
from orchestrator.mysql.keyset import Patience, Reader, chunks
from orchestrator.mysql.questions import Question
from orchestrator.mysql.session import Row
from orchestrator.mysql.sql.bounds import Span, read_key, show
from orchestrator.mysql.sql.rows import Stretch, counts, grouped, listed, looked_at, stretch_of

SAMPLES = 10
_MOST_CLASSES = 200
_LOOK_AGAIN_ROWS = 500
LISTED_ROWS = 2 * _LOOK_AGAIN_ROWS
_CHUNK_ROWS = 100
_SETTLE_S = 2.0
_UNEXPLAINED = "unexplained"
_REST = "other"


class Tally:
    """Counts by class and mapping. Bounded, whatever the table holds: samples and classes have a greatest number."""

    def __init__(self) -> None:
        self.rows_compared = 0
        self.mismatches = 0
        self._counts: dict[tuple[str, str], int] = {}
        self._keys: dict[tuple[str, str], list[str]] = {}

    def add(self, name: str, mapping: str, rows: int, keys: Sequence[str] = ()) -> None:
        at = (name, mapping)
        if at not in self._counts and len(self._counts) >= _MOST_CLASSES:
            at = (_REST, mapping)
        self._counts[at] = self._counts.get(at, 0) + rows
        self.sample(name, mapping, keys)

    def sample(self, name: str, mapping: str, keys: Sequence[str]) -> None:
        """Keep keys of a class that was counted, up to ten of it."""
        if (name, mapping) in self._counts:
            kept = self._keys.setdefault((name, mapping), [])
            kept.extend(keys[: SAMPLES - len(kept)])

    def room(self, name: str, mapping: str) -> int:
        """How many more sample keys that class could take."""
        at = (name, mapping)
        return max(0, min(SAMPLES, self._counts.get(at, 0)) - len(self._keys.get(at, ())))

    def wants_keys(self) -> bool:
        """Whether some class could take more sample keys."""
        return any(self.room(*at) for at in self._counts)

    def classes(self) -> tuple[MismatchClass, ...]:
        """Greatest first."""
        largest = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(
            MismatchClass(name, mapping, rows, tuple(self._keys.get((name, mapping), ())))
            for (name, mapping), rows in largest
        )


def keys_of_wrong(reader: Reader, question: Question, span: Span, limit_rows: int = LISTED_ROWS) -> str:
    """What is asked of a stretch that has wrong rows, unless it has many."""
    return listed(reader.space, span, question.wrong, question.class_sql, limit_rows, reader.tag)


class Comparer(Struct, frozen=True):
    """Judges stretches that ``reader`` read with the question's counted conditions."""

    reader: Reader
    question: Question
    patience: Patience
    tally: Tally

    def judge(self, stretch: Stretch) -> int:
        """Count the stretch's rows into the tally; how many are wrong. Raises ServerError, ServerUnreachable."""
        self.tally.rows_compared += stretch.rows
        seen, noted = self.question.split(stretch.counts)
        if noted:
            self._note(stretch.span)
        if not seen:
            return 0
        few = seen <= _LOOK_AGAIN_ROWS
        wrong = self._few(stretch.span) if few else self._many(stretch.span)
        self.tally.mismatches += wrong
        return wrong

    def judge_keys(self, keys: Sequence[Key]) -> int:
        """The same for rows by key; rows that are gone are not counted."""
        rows = 0
        for part in chunks(keys, _CHUNK_ROWS):
            seen = self._look(part, lock=False)
            self.tally.rows_compared += len(seen)
            doubtful = [key for key, row in seen if row[0]]
            rows += self._count(self._settled(doubtful)) if doubtful else 0
        self.tally.mismatches += rows
        return rows

    def _note(self, span: Span) -> None:
        """Count what is noted, class by class, and keep sample keys."""
        text = counts(self.reader.space, span, [sql for _, _, sql in self.question.noted], self.reader.tag)
        found = stretch_of(span, self.patience.ask(lambda: self.reader.session.query(text))[0])
        for (name, mapping, sql), rows in zip(self.question.noted, found.counts, strict=True):
            if rows:
                self.tally.add(name, mapping, rows)
                self._sample_noted(span, name, mapping, sql)

    def _sample_noted(self, span: Span, name: str, mapping: str, condition: str) -> None:
        room = self.tally.room(name, mapping)
        if room:
            text = listed(self.reader.space, span, condition, (), room, self.reader.tag)
            rows = self.patience.ask(lambda: self.reader.session.query(text))
            self.tally.sample(name, mapping, [show(self.reader.space, read_key(self.reader.space, r)) for r in rows])

    def _few(self, span: Span) -> int:
        found = self._listed(span, LISTED_ROWS)
        return self._count(self._settled([key for key, _ in found]))

    def _many(self, span: Span) -> int:
        """Too many for a look at each: the state itself is wrong, not a write in flight. Counted by the server."""
        text = grouped(self.reader.space, span, self.question.wrong, self.question.class_sql, self.reader.tag)
        wrong = 0
        for *classes, rows in self.patience.ask(lambda: self.reader.session.query(text)):
            wrong += int(rows)
            for name, mapping in self._named(classes):
                self.tally.add(name, mapping, int(rows))
        if self.tally.wants_keys():
            for key, names in self._listed(span, _CHUNK_ROWS):
                for name, mapping in self._named(names):
                    self.tally.sample(name, mapping, (show(self.reader.space, key),))
        return wrong

    def _count(self, found: Sequence[tuple[Key, Sequence[object]]]) -> int:
        for key, names in found:
            for name, mapping in self._named(names):
                self.tally.add(name, mapping, 1, (show(self.reader.space, key),))
        return len(found)

    def _settled(self, keys: Sequence[Key]) -> list[tuple[Key, Sequence[object]]]:
        """Those of ``keys`` that are wrong under their own lock, with classes; after two seconds, as committed."""
        wrong: list[tuple[Key, Sequence[object]]] = []
        open_keys, until = list(keys), self.patience.clock.monotonic() + _SETTLE_S
        tried = 0
        while open_keys:
            free = [found for part in chunks(open_keys, _CHUNK_ROWS) for found in self._look(part, lock=True)]
            wrong += [(key, row[1:]) for key, row in free if row[0]]
            judged = {key for key, _ in free}
            busy = [key for key in open_keys if key not in judged]
            committed = [found for part in chunks(busy, _CHUNK_ROWS) for found in self._look(part, lock=False)]
            doubtful = [(key, row[1:]) for key, row in committed if row[0]]
            if self.patience.clock.monotonic() >= until:
                return wrong + doubtful
            open_keys = [key for key, _ in doubtful]
            if open_keys:
                self.patience.wait(self.patience.backoff.wait_s(tried), f"locked-rows {len(open_keys)} rows")
                tried += 1
        return wrong

    def _look(self, keys: Sequence[Key], *, lock: bool) -> list[tuple[Key, Row]]:
        conditions = [self.question.wrong, *self.question.class_sql]
        text = looked_at(self.reader.space, keys, conditions, lock=lock, tag=self.reader.tag)
        return [self._split(row) for row in self.patience.ask(lambda: self.reader.session.query(text))]

    def _listed(self, span: Span, limit_rows: int) -> list[tuple[Key, Row]]:
        text = keys_of_wrong(self.reader, self.question, span, limit_rows)
        return [self._split(row) for row in self.patience.ask(lambda: self.reader.session.query(text))]

    def _split(self, row: Row) -> tuple[Key, Row]:
        width = len(self.reader.space.columns)
        return read_key(self.reader.space, row[:width]), row[width:]

    def _named(self, names: Sequence[object]) -> list[tuple[str, str]]:
        found = [
            (name.decode() if isinstance(name, bytes) else str(name), mapping)
            for name, (mapping, _) in zip(names, self.question.classes, strict=True)
            if name is not None
        ]
        return found or [(_UNEXPLAINED, "")]
