"""The keyed walk that fill, compare and the scans share: stretches of rows, sized by time, that tile the key space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.model.keys import Key, spread
from orchestrator.model.types import Family
from orchestrator.mysql.pace import NO_REST, Pace, Rest
from orchestrator.mysql.persistence import Backoff, persist
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.bounds import KeySpace, Span, read_key
from orchestrator.mysql.sql.rows import Stretch, counts, last_key, nth_key, stretch_of
from orchestrator.ports import Clock

T = TypeVar("T")
FIRST_ROWS = 200
LEAST_ROWS = 50
_TELLING_ROWS = 20
_LATE = 2.0
# Of a slow batch, with each one that was faster; where nobody waits for what is read, sooner.
_FORGOTTEN, _FORGOTTEN_READING = 0.1, 0.5
# What is so much smaller than was asked for was cut at an end, and shows little more than what any statement costs.
_CUT = 4
# What is only read holds no lock: a stretch of it may take so many times the target of a batch, and is still a moment.
_READ_TARGETS = 3
MOST_READ_ROWS = 50_000


class BatchSize(Struct, frozen=True):
    """How many rows the next batch may have, so that it takes no more than ``target_s``: grows twofold at most, shrinks
    as it must.

    ``share``: of the target, while room is made for others.
    ``row_s`` is what a row costs in a slow batch: the slowest of late, forgotten slowly, because the application waits
    for the slow ones. ``written_s`` is what writing one cost. None before it was measured.
    """

    target_s: float
    most_rows: int
    rows: int
    row_s: float | None = None
    written_s: float | None = None
    forgotten: float = _FORGOTTEN
    share: float = 1.0

    @property
    def aim_s(self) -> float:
        return self.target_s * self.share

    @staticmethod
    def start(target_s: float, most_rows: int) -> BatchSize:
        return BatchSize(target_s, most_rows, max(1, min(FIRST_ROWS, most_rows)))

    @staticmethod
    def reading(target_s: float, most_rows: int = MOST_READ_ROWS) -> BatchSize:
        """The first size of stretches that are read and not written, where a batch takes ``target_s``."""
        return replace(BatchSize.start(target_s * _READ_TARGETS, most_rows), forgotten=_FORGOTTEN_READING)

    def after(self, rows: int, took_s: float, fixed_s: float = 0.0) -> BatchSize:
        """The size after a batch of ``rows`` rows that took ``took_s`` in all, of which ``fixed_s`` would have been
        the same for fewer rows (the commit). Where that is more than half of the target, as much again is for rows:
        smaller batches would be no shorter, only more."""
        if rows <= 0:
            return self.clamped(self.rows * 2)
        if rows < self.rows // _CUT and took_s <= self.aim_s:
            return self
        cost_s = max(took_s - fixed_s, 1e-6) / rows
        judged_s = cost_s if self.row_s is None else max(cost_s, self.row_s + (cost_s - self.row_s) * self.forgotten)
        # Below some size a batch costs its round trips and its commit, and a smaller one takes as long.
        room_s = max(self.aim_s - fixed_s, min(fixed_s, self.aim_s))
        wanted = max(min(self.rows, LEAST_ROWS), int(room_s / judged_s))
        return replace(self.clamped(min(self.rows * 2, wanted)), row_s=judged_s)

    def wrote(self, written: int, took_s: float) -> BatchSize:
        """Learn from what writing ``written`` rows took; a few rows say nothing, there the commit is most of it."""
        return self if written < _TELLING_ROWS else replace(self, written_s=took_s / written)

    def fits(self, pending: int) -> bool:
        """Whether writing ``pending`` rows is expected to stay near the target; as many as a first batch may have, when
        nothing is known of what writing costs here."""
        if self.rows == 1:
            return True
        return pending <= FIRST_ROWS if self.written_s is None else pending * self.written_s <= _LATE * self.aim_s

    def shrunk_for(self, pending: int) -> BatchSize:
        """The size at which the same share of pending rows takes the target time."""
        most = FIRST_ROWS if self.written_s is None else self.aim_s / max(1e-9, self.written_s)
        return self.clamped(min(self.rows - 1, int(self.rows * most / pending)))

    def sharing(self, share: float) -> BatchSize:
        """The size while a batch may take ``share`` of the target: smaller at once, larger as batches show it."""
        rows = self.rows if self.row_s is None else int(self.target_s * share / self.row_s)
        return replace(self.clamped(min(self.rows, max(rows, min(self.rows, LEAST_ROWS)))), share=share)

    def halved(self) -> BatchSize:
        return self.clamped(self.rows // 2)

    def clamped(self, rows: int) -> BatchSize:
        return replace(self, rows=max(1, min(rows, self.most_rows)))


class Reader(Struct, frozen=True):
    """Reads stretches of one key space; ``counted`` are conditions (0 or 1) over the row ``t``. ``pace``: None where
    little is read."""

    session: Session
    space: KeySpace
    counted: tuple[str, ...]
    tag: str = ""
    pace: Pace | None = None

    def on(self, session: Session) -> Reader:
        """The same for another thread."""
        return replace(self, session=session, pace=self.pace and self.pace.another())

    def rest(self, took_s: float) -> Rest:
        """What follows work on rows of ``took_s`` that ended right now."""
        return self.pace.after(self.session, took_s) if self.pace is not None else NO_REST

    def last(self) -> Key | None:
        """The last key that exists now; None: the table is empty."""
        row = self.session.one(last_key(self.space))
        return None if row is None else read_key(self.space, row)

    def ends(self) -> tuple[Key | None, Key | None]:
        """The first and the last key that exist now. Raises ServerError, ServerUnreachable."""
        row = self.session.one(nth_key(self.space, Span(), 1, self.tag))
        return None if row is None else read_key(self.space, row), self.last()

    def spread(self, first: Key, last: Key, places: int) -> tuple[Key, ...]:
        """Keys, which need not exist, between two that do; none where a bound cannot be made up (a zero date)."""
        texts = any(
            isinstance(v, str) and c.type.family in (Family.TEMPORAL, Family.TIME)
            for c, v in zip(self.space.columns * 2, (*first, *last), strict=True)
        )
        return () if texts else spread(first, last, places)

    def next(self, span: Span, limit_rows: int) -> Stretch:
        """The next rows of ``span``, about ``limit_rows``; when they are its last ones, the stretch ends where ``span``
        ends, also when that is open. So stretches tile a span. Raises ServerError, ServerUnreachable."""
        ends = self.cut(span, limit_rows)
        return stretch_of(ends, self.session.query(counts(self.space, ends, self.counted, self.tag))[0])

    def cut(self, span: Span, rows: int) -> Span:
        """The first ``rows`` rows of ``span``; all of it when it has no more. Raises ServerError, ServerUnreachable."""
        row = self.session.one(nth_key(self.space, span, rows, self.tag))
        return span if row is None else Span(span.lo, read_key(self.space, row))

    def count(self, span: Span) -> int:
        """The rows of ``span``. Raises ServerError, ServerUnreachable."""
        return int(self.session.query(counts(self.space, span, (), self.tag))[0][0])


class Patience(Struct, frozen=True):
    """How a reading walk waits: ``wait`` gets seconds and a reason, and may raise to end the walk."""

    clock: Clock
    backoff: Backoff
    wait: Callable[[float, str], None]

    def ask(self, question: Callable[[], T]) -> T:
        """The answer to something that only reads. Raises ServerError, ServerUnreachable."""
        return persist(question, self.backoff, self.wait)


def stretches(reader: Reader, span: Span, size: BatchSize, patience: Patience) -> Iterator[Stretch]:
    """Stretches that tile ``span`` without gap or overlap, sized by the time that reading each took."""
    at = span.lo
    while True:
        began = patience.clock.monotonic()
        found = patience.ask(partial(reader.next, Span(at, span.hi), size.rows))
        took_s = patience.clock.monotonic() - began
        rest = reader.rest(took_s)
        size = size.after(found.rows, took_s).sharing(rest.share)
        yield found
        if found.span.hi == span.hi:
            return
        if rest.seconds:
            patience.wait(rest.seconds, rest.reason)
        at = found.span.hi


def chunks(keys: Sequence[Key], size: int) -> Iterator[Sequence[Key]]:
    """``keys`` in pieces of at most ``size``."""
    for start in range(0, len(keys), size):
        yield keys[start : start + size]
