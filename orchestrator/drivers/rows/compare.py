"""The full pass that only reads: every row by the relation that holds; for verify also invariants, CHECKs and count.

The spans that it reads tile the whole key space, from open end to open end, so that no row can stand outside of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

from orchestrator.drivers.rows.bookmark import Bookmark
from orchestrator.drivers.rows.counting import Count
from orchestrator.drivers.rows.listening import Listening, stopped
from orchestrator.drivers.rows.table import altered, live_shape
from orchestrator.errors import Held
from orchestrator.model import in_use
from orchestrator.model.facts import MismatchClass, Shape
from orchestrator.model.keys import Key
from orchestrator.model.outcome import Outcome, Result, Seen, Signal, SignalKind
from orchestrator.model.step import Compare, Purpose, step_key
from orchestrator.model.types import Family
from orchestrator.mysql.comparison import Comparer, Tally, keys_of_wrong
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.keyset import BatchSize, Patience, Reader, stretches
from orchestrator.mysql.persistence import Backoff
from orchestrator.mysql.questions import NOTED, Question, question_of
from orchestrator.mysql.relation import load_relation
from orchestrator.mysql.session import Row, Session
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.bounds import Span, key_space, read_key
from orchestrator.mysql.sql.positions import COMPARED, PassName
from orchestrator.mysql.sql.rows import (
    before_last,
    count_all,
    counts,
    estimate,
    estimate_of,
    kill_query,
    nth_key,
    recent,
)
from orchestrator.mysql.told import told
from orchestrator.ports import Beat

NEWEST_ROWS = 10_000
_ANSWER_S = 30.0
_COUNT_S = 86_400.0
_POLL_S = 0.2
RECENT_ROWS = 1_000
# Of the last rows by key, where only those that moved of late are asked for.
MOVED_ROWS = 1_000
_PLACES = 32
_ROWS_A_PLACE = 100


class Ended(Exception):
    """A signal ended the pass."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.note)
        self.outcome = outcome


class CompareDriver:
    """Writes no row of the table. ``jitter`` gives numbers in [0, 1) for waits."""

    def __init__(self, site: Site, jitter: Callable[[], float] = random.random) -> None:
        self._site = site
        self._jitter = jitter
        self._backoff = Backoff(jitter)

    def describe(self, step: Compare) -> Sequence[str]:
        """The first span's count of rows and of wrong ones, the keys of these, and for verify the plain count; for the
        newest rows where they begin, and what asks for them by time."""
        with closing(self._site.connect("compare", _ANSWER_S)) as session:
            try:
                return self._shown(session, step)
            except ServerError as error:
                raise told(error, f"comparing {step.table}") from error

    def _shown(self, session: Session, step: Compare) -> Sequence[str]:
        shape, reader, question = self._asked(session, step)
        tag, rows = reader.tag, BatchSize.reading(step.target_time_s).rows
        span = Span()
        before: tuple[str, ...] = ()
        after: tuple[str, ...] = ()
        if late := _late_rows(step.purpose):
            before = (before_last(reader.space, late),)
            row = session.one(before[0])
            span = _behind(reader, row)
            times = _recency(shape) if row is not None else ()
            after = tuple(recent(reader.space, index, column, RECENT_ROWS, span) for index, column in times)
        if step.purpose == "verify":
            after = (count_all(shape, tag),)
        # The new columns may not exist yet: the bounds are found without the question.
        first = Reader(session, reader.space, ()).next(span, rows).span
        counting = counts(reader.space, first, question.counted, tag)
        end = nth_key(reader.space, span, rows, tag)
        return (*before, end, counting, keys_of_wrong(reader, question, first), *after)

    def apply(self, step: Compare, beat: Beat) -> Outcome:
        """DONE when nothing is wrong. BACK when something is and both columns were written, else FAILED."""
        listening = Listening(beat, self._site.clock)
        with closing(self._site.connect("compare", _ANSWER_S)) as session:
            try:
                return self._compared(session, step, listening)
            except Ended as ended:
                return ended.outcome
            except ServerError as error:
                raise told(error, f"comparing {step.table}") from error

    def observe(self, step: Compare, beat: Beat) -> Seen:
        """A comparison is done by whoever saw its end, else again; a clean one goes on where it was."""
        return Seen.ABSENT

    def abandon(self, step: Compare, beat: Beat) -> Outcome:
        return Outcome(Result.DONE, "nothing to clear: a comparison changes no row")

    def _compared(self, session: Session, step: Compare, listening: Listening) -> Outcome:
        shape, reader, question = self._asked(session, step)
        comparer = Comparer(reader, question, self._patience(listening), Tally())
        listening.note = step.purpose
        outcome = self._judged(step, shape, comparer, listening)
        self._unchanged(session, step, shape)
        return outcome

    def _unchanged(self, session: Session, step: Compare, shape: Shape) -> None:
        """Raises Held: somebody altered the table meanwhile, and rows were judged by columns that are others now."""
        changed = altered(shape, live_shape(session, step.table, self._site.runbook.contract.key))
        if changed:
            raise Held(
                f"{step.table} was altered while it was compared: {', '.join(changed)}",
                "a table that keeps its columns while it is compared",
                "look who alters it; then the same command again",
            )

    def _judged(self, step: Compare, shape: Shape, comparer: Comparer, listening: Listening) -> Outcome:
        session, reader = comparer.reader.session, comparer.reader
        if _late_rows(step.purpose):
            self._newest(step, shape, comparer, listening)
            return _outcome(step, comparer.tally, None, listening)
        listening.total = estimate_of(session.query(estimate(reader.space)))
        if step.purpose != "verify":
            self._walk(step, Span(), comparer, listening)
            return _outcome(step, comparer.tally, None, listening)
        return self._verified(step, shape, comparer, listening)

    def _verified(self, step: Compare, shape: Shape, comparer: Comparer, listening: Listening) -> Outcome:
        """A drift pass is repeated so often that it begins anew; the proof of verify goes on where it was."""
        session, tally = comparer.reader.session, comparer.tally
        name = f"{COMPARED}{step.relation}"
        of = PassName(self._site.settings.state_schema, self._site.runbook.id, step.walk, name)
        bookmark = Bookmark(session, of, listening.epoch, self._site.clock)
        left = bookmark.found()
        at, tally.rows_compared = left or (None, 0)
        listening.done = tally.rows_compared
        self._walk(step, Span(at), comparer, listening, bookmark)
        bookmark.forget()
        return _outcome(step, tally, self._count(session, shape, step, listening), listening)

    def _asked(self, session: Session, step: Compare) -> tuple[Shape, Reader, Question]:
        contract = self._site.runbook.contract
        shape = live_shape(session, step.table, contract.key)
        relation = load_relation(session, contract, shape)
        question = question_of(step, relation, contract, shape)
        tag, pace = self._site.tag(step_key(step)), self._site.pace()
        return shape, Reader(session, key_space(shape), question.counted, tag, pace), question

    def _patience(self, listening: Listening) -> Patience:
        def wait(seconds: float, reason: str) -> None:
            heed(listening.wait(seconds, reason), listening)

        return Patience(self._site.clock, self._backoff, wait)

    def _walk(
        self, step: Compare, span: Span, comparer: Comparer, listening: Listening, bookmark: Bookmark | None = None
    ) -> None:
        began_s = listening.elapsed_s
        size = BatchSize.reading(step.target_time_s)
        for found in stretches(comparer.reader, span, size, comparer.patience):
            comparer.judge(found)
            listening.worked(found.rows, listening.elapsed_s - began_s)
            signal = listening.go_on()
            if bookmark is not None and not comparer.tally.mismatches:
                bookmark.keep(found.span.hi, comparer.tally.rows_compared, now=signal.kind is not SignalKind.GO)
            heed(signal, listening)
            began_s = listening.elapsed_s

    def _newest(self, step: Compare, shape: Shape, comparer: Comparer, listening: Listening) -> None:
        """The last rows by key, and by each column that says when a row was made or changed, where an index has it."""
        reader, ask, last = comparer.reader, comparer.patience.ask, _late_rows(step.purpose)
        listening.total = last
        row = ask(lambda: reader.session.one(before_last(reader.space, last)))
        tail = _behind(reader, row)
        self._walk(step, tail, comparer, listening)
        met: set[Key] = set()
        for index, column in _recency(shape) if row is not None else ():
            text = recent(reader.space, index, column, RECENT_ROWS, tail)
            keys = [read_key(reader.space, r) for r in ask(partial(reader.session.query, text))]
            comparer.judge_keys([key for key in keys if key not in met])
            met.update(keys)
            heed(listening.go_on(), listening)
        if step.purpose == "moved" and row is not None:
            self._sample(comparer, listening)

    def _sample(self, comparer: Comparer, listening: Listening) -> None:
        """Some rows in one place of many, another one each time: changes that no index shows are found by looking."""
        reader, ask = comparer.reader, comparer.patience.ask
        first, end = ask(reader.ends)
        if first is not None and end is not None:
            places = (None, *reader.spread(first, end, _PLACES))
            place = places[min(int(self._jitter() * len(places)), len(places) - 1)]
            comparer.judge(ask(lambda: reader.next(Span(place, end), _ROWS_A_PLACE)))
            heed(listening.go_on(), listening)

    def _count(self, session: Session, shape: Shape, step: Compare, listening: Listening) -> int:
        """The plain count, which may take long: it runs beside, and is taken back when the work ends meanwhile."""
        tag = self._site.tag(step_key(step))
        with closing(Count(self._site.connect("count", _COUNT_S), count_all(shape, tag))) as count:
            while not count.wait(_POLL_S):
                signal = listening.go_on()
                if signal.kind is not SignalKind.GO:
                    session.execute(kill_query(count.process_id))
                    heed(signal, listening)
            return count.rows()


def heed(signal: Signal, listening: Listening) -> None:
    """Raises Ended for every signal but GO."""
    if signal.kind is not SignalKind.GO:
        raise Ended(stopped(signal, "no row was changed by the comparison", listening.figures()))


def _behind(reader: Reader, row: Row | None) -> Span:
    """All that comes after the key ``row``, or everything."""
    return Span(None if row is None else read_key(reader.space, row))


def _late_rows(purpose: Purpose) -> int:
    """How many of the last rows by key are asked for; 0: the whole table is."""
    return {"newest": NEWEST_ROWS, "moved": MOVED_ROWS}.get(purpose, 0)


def _recency(shape: Shape) -> list[tuple[str, str]]:
    """(index, column) of visible indexes that begin with a column which the server sets to the present time."""
    found = []
    for index in shape.indexes:
        column = shape.column(index.parts[0].column)
        if column is None or not index.visible or index.kind != "BTREE" or column.type.family is not Family.TEMPORAL:
            continue
        default = column.default
        made = default is not None and default.is_expression and default.text.upper().startswith("CURRENT_TIMESTAMP")
        if column.on_update or made:
            found.append((index.name, column.name))
    return found


def _outcome(step: Compare, tally: Tally, counted: int | None, listening: Listening) -> Outcome:
    classes = tally.classes()
    figures = listening.figures() | {
        "rows_compared": float(tally.rows_compared),
        "mismatches": float(tally.mismatches),
        **({} if counted is None else {"rows_table": float(counted)}),
    }
    evidence = tuple((c.name, c.mapping, str(c.rows), *c.keys) for c in classes)
    moving = "" if counted in (None, tally.rows_compared) else f" (the table moves: {counted} rows when it was counted)"
    if not tally.mismatches:
        asked = f"compared, all hold{moving}"
        if step.purpose == "in-use":
            asked = f"looked at, nobody uses {', '.join(step.columns)}"
        note = f"{tally.rows_compared} rows {asked}"
        return Outcome(Result.DONE, note, figures=figures, evidence=evidence)
    told = "; ".join([_told(c) for c in classes if c.name not in NOTED][:5])
    return Outcome(
        Result.BACK if step.relation == "corresponds" else Result.FAILED,
        f"{tally.mismatches} of {tally.rows_compared} rows are wrong: {told}",
        *_wanted(step),
        figures,
        evidence,
    )


def _wanted(step: Compare) -> tuple[str, str]:
    """What every row should be like, and what to do where one is not."""
    if step.purpose == "in-use":
        return in_use.ALLOWED, in_use.NEXT
    holds = "every row holds the relation, every invariant and every CHECK"
    return holds, f"look at the keys that are named; what is missing or stale is mended by: {step.mend}"


def _told(found: MismatchClass) -> str:
    mapping = f" {found.mapping}" if found.mapping else ""
    return f"{found.name}{mapping}: {found.rows} (key {', '.join(found.keys[:3])})"
