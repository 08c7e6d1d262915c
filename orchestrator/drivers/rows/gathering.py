"""What a sweep reads where few rows are pending: the table as a comparison reads it, and their keys.

A span that is written is locked row by row while it is read, and committed. A table of which one row in a hundred moved
would be locked and committed as often as one that was never filled; so it is only read, by large stretches, and the
rows that were found are written by their keys, those of several stretches together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orchestrator.model.keys import Key, encode_key
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.filling import FillRule
from orchestrator.mysql.keyset import BatchSize, Reader
from orchestrator.mysql.persistence import Ask
from orchestrator.mysql.session import Row
from orchestrator.mysql.sql.bounds import Span, read_key
from orchestrator.mysql.sql.rows import ROLE, Stretch, listed

_MOST_KEYS = 500
# Of one stretch; a packet has the keys of less than two such, twice: far below the 1 MiB that servers take at the
# least unless they are told to take less.
_MOST_KEY_BYTES = 32 * 1024
# More than one row in so many: a batch that takes whatever is pending is the better one.
_DENSE = 4
_TELLING_ROWS = 50
_GATHER_S = 1.0


class Gathering:
    """The reading half of a pass over a table in which most rows are right. ``size`` bounds what is written at once;
    ``elapsed_s`` is the work's own time."""

    def __init__(self, reader: Reader, rule: FillRule, size: BatchSize, elapsed_s: Callable[[], float]) -> None:
        self._reader = reader
        self._rule = rule
        self._target_s = size.target_s
        self._size = BatchSize.reading(size.target_s)
        self._most_keys = min(_MOST_KEYS, size.most_rows)
        self._elapsed_s = elapsed_s

    def halve(self) -> bool:
        """The server did not take as many rows at once. False: it was one row."""
        self._most_keys, before = max(1, self._most_keys // 2), self._most_keys
        return before > 1

    def question(self, span: Span, most_keys: int | None = None) -> str:
        """What is asked of one stretch: the keys of its rows that are pending, or that must not be passed by."""
        space, tag = self._reader.space, self._reader.tag
        return listed(space, span, self._rule.wrong, self._rule.counted, most_keys or self._most_keys, tag)

    def next(self, span: Span, ask: Ask, goes_on: Callable[[float], float]) -> Stretch | None:
        """The next rows of ``span`` with the keys of those that are pending: as many as one packet writes, or about a
        second's reading. None: too many are pending. ``goes_on`` gets what each stretch took, and says which share of
        its time the next one may take; 0: there is none.

        Raises what ``ask`` raises; ServerError never for a row's sake (None then: whoever writes it names it)."""
        keys: tuple[Key, ...] = ()
        at, rows, blocked = span.lo, 0, 0
        until_s = self._elapsed_s() + _GATHER_S
        while True:
            began_s = self._elapsed_s()
            try:
                found = self._read(Span(at, span.hi), ask, self._most_keys - len(keys))
            except ServerError as error:
                if not error.is_of_a_row:
                    raise
                found = None
            if found is None or found.keys is None:
                break
            at, rows, keys = found.span.hi, rows + found.rows, keys + found.keys
            blocked += found.counts[1]
            full = blocked or len(keys) >= self._most_keys or _bytes_of(keys) >= _MOST_KEY_BYTES
            full = full or self._elapsed_s() >= until_s
            if at == span.hi or full or not (share := goes_on(self._elapsed_s() - began_s)):
                break
            self._size = self._size.sharing(share)
        if not rows and found is None:
            return None
        read_only, uuid = ask(lambda: self._reader.session.query(ROLE))[0]
        return Stretch(Span(span.lo, at), rows, (len(keys), blocked), not read_only, str(uuid), keys)

    def _read(self, span: Span, ask: Ask, most_keys: int) -> Stretch | None:
        """One stretch, up to its last row or the last key that there is room for; None: too many are pending."""
        reader, began_s = self._reader, self._elapsed_s()
        here = ask(lambda: reader.cut(span, self._size.rows))
        text = self.question(here, most_keys)
        found = [self._split(row) for row in ask(lambda: reader.session.query(text))]
        taken = _within_bytes([key for key, _ in found])
        full = len(found) == most_keys or taken < len(found)
        if full:
            found, here = found[:taken], Span(here.lo, found[taken - 1][0])
        counted = full or here.hi == span.hi
        rows = ask(lambda: reader.count(here)) if counted else self._size.rows
        if taken > _TELLING_ROWS and rows < _DENSE * taken:
            self._size = BatchSize.reading(self._target_s)
            return None
        self._size = self._size.after(rows, self._elapsed_s() - began_s)
        pending = tuple(key for key, row in found if row[0])
        return Stretch(here, rows, (len(pending), sum(1 for _, row in found if row[1])), True, "", pending)

    def _split(self, row: Row) -> tuple[Key, Row]:
        width = len(self._reader.space.columns)
        return read_key(self._reader.space, row[:width]), row[width:]


def _bytes_of(keys: Sequence[Key]) -> int:
    return sum(len(encode_key(key).encode()) for key in keys)


def _within_bytes(keys: Sequence[Key]) -> int:
    """How many of the first keys, one at least, have no more bytes than a stretch may have."""
    total = 0
    for number, key in enumerate(keys):
        total += _bytes_of((key,))
        if total > _MOST_KEY_BYTES and number:
            return number
    return len(keys)
