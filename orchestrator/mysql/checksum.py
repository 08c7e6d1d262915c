"""Byte-exact digests of a table: the proof that nothing but what should have changed did, and that two servers agree.

A digest says the same for the same rows whatever order they were read in; ``digests`` walks by key in short reads, so
that nothing is locked and no snapshot is kept. On a table without traffic two digests of the same rows are equal; on
one with traffic ``differing`` looks again at what differs, until it is still or proven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec import Struct

from orchestrator.errors import ConfigurationError, RunbookError
from orchestrator.model.contract import Column
from orchestrator.model.facts import Shape
from orchestrator.model.keys import Key
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.keyset import BatchSize, Patience, Reader, chunks
from orchestrator.mysql.pace import Pace
from orchestrator.mysql.session import Row, Session
from orchestrator.mysql.sql.bounds import Span, key_space, read_key
from orchestrator.mysql.sql.checksum import HEX_DIGITS, LENGTHS_DIFFER, digests_of_keys, digests_of_span, span_digest

_MOST_ROWS = 10_000
_TARGET_S = 0.08
_CHUNK_ROWS = 100
_ROUNDS = 10


class Digest(Struct, frozen=True):
    """``value`` is the XOR of the rows' SHA-256, 0 for no rows."""

    rows: int
    value: int

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.rows + other.rows, self.value ^ other.value)


NOTHING = Digest(0, 0)


class Side(Struct, frozen=True):
    """One server's table, and the columns that count."""

    reader: Reader
    columns: tuple[Column, ...]
    patience: Patience

    def of(self, span: Span) -> Digest:
        """Raises ConfigurationError (a row could not be hashed), ServerError, ServerUnreachable."""
        text = span_digest(self.reader.space, span, self.columns, self.reader.tag)
        try:
            rows, value = self.patience.ask(lambda: self.reader.session.query(text))[0]
        except ServerError as error:
            if error.number == LENGTHS_DIFFER:
                raise self._not_hashed() from error
            raise
        return Digest(int(rows), self._number(value) if rows else 0)

    def rows_of(self, span: Span) -> dict[Key, int]:
        return self._keyed(digests_of_span(self.reader.space, span, self.columns, self.reader.tag))

    def rows_at(self, keys: Sequence[Key]) -> dict[Key, int]:
        found: dict[Key, int] = {}
        for part in chunks(keys, _CHUNK_ROWS):
            found |= self._keyed(digests_of_keys(self.reader.space, part, self.columns, self.reader.tag))
        return found

    def _keyed(self, text: str) -> dict[Key, int]:
        rows: list[Row] = self.patience.ask(lambda: self.reader.session.query(text))
        return {read_key(self.reader.space, row[:-1]): self._number(row[-1]) for row in rows}

    def _number(self, value: str | None) -> int:
        if value is None or len(value) != HEX_DIGITS:
            raise self._not_hashed()
        return int(value, 16)

    def _not_hashed(self) -> ConfigurationError:
        return ConfigurationError(
            f"a row of {self.reader.space.table} is longer than the server's max_allowed_packet, and has no digest",
            "a max_allowed_packet that holds every row",
            "raise max_allowed_packet on the server, then the same command again",
        )


def side(
    session: Session,
    shape: Shape,
    patience: Patience,
    names: Sequence[str] = (),
    tag: str = "",
    pace: Pace | None = None,
) -> Side:
    """``names``: the columns that count, all of the table without them. Raises RunbookError: one is not there, or the
    table has no usable key."""
    wanted = {name.lower() for name in names}
    columns = tuple(c for c in shape.columns if not wanted or c.name.lower() in wanted)
    missing = wanted - {c.name.lower() for c in columns}
    if missing:
        raise RunbookError(f"{shape.table} has no column {', '.join(sorted(missing))}", "columns of the table", "look")
    return Side(Reader(session, key_space(shape), (), tag, pace), columns, patience)


def digests(of: Side, target_s: float = _TARGET_S) -> Iterator[tuple[Span, Digest]]:
    """Spans that tile the whole key space, each with its digest; each is read as a comparison is where a batch takes
    ``target_s``."""
    at: Key | None = None
    size = BatchSize.reading(target_s, _MOST_ROWS)
    while True:
        began = of.patience.clock.monotonic()
        span = of.patience.ask(partial(of.reader.cut, Span(at), size.rows))
        found = of.of(span)
        took_s = of.patience.clock.monotonic() - began
        rest = of.reader.rest(took_s)
        size = size.after(found.rows, took_s).sharing(rest.share)
        yield span, found
        if span.hi is None:
            return
        if rest.seconds:
            of.patience.wait(rest.seconds, rest.reason)
        at = span.hi


def checksum(of: Side) -> Digest:
    """The digest of the whole table. Raises ServerError, ServerUnreachable."""
    total = NOTHING
    for _, found in digests(of):
        total += found
    return total


class Difference(Struct, frozen=True):
    """A row that is not the same on both sides. ``here`` and ``there`` say whether it is there at all."""

    key: Key
    here: bool
    there: bool


def differing(here: Side, there: Side, caught_up: Callable[[], None], span: Span, known: Digest) -> list[Difference]:
    """The rows of ``span`` that are not the same on a replica ``there`` as they are ``here``; ``known`` was read here.

    ``caught_up`` returns when all that ``here`` has committed by now is visible ``there``. A row is called different
    only when it stood still here while we looked there; one that never stands still is not judged.
    """
    caught_up()
    if there.of(span) == known:
        return []
    mine, theirs = here.rows_of(span), there.rows_of(span)
    doubtful = [key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)]
    proven: list[Difference] = []
    for _ in range(_ROUNDS):
        if not doubtful:
            break
        before = here.rows_at(doubtful)
        caught_up()
        seen, after = there.rows_at(doubtful), here.rows_at(doubtful)
        still = [key for key in doubtful if before.get(key) == after.get(key)]
        proven += [Difference(k, k in before, k in seen) for k in still if before.get(k) != seen.get(k)]
        doubtful = [key for key in doubtful if before.get(key) != after.get(key)]
    return sorted(proven, key=lambda d: repr(d.key))
