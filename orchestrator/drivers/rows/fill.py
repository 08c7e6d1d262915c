"""Fills new columns from old ones in key order: backfill is one pass, the sweep passes until one finds nothing.

The position rows say how far it is; everything else is computed again by whoever goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.drivers.rows.canary import canary
from orchestrator.drivers.rows.gathering import Gathering
from orchestrator.drivers.rows.listening import Listening
from orchestrator.drivers.rows.passes import FillPass, Halt, Work, span_of
from orchestrator.drivers.rows.table import Definition, live_shape
from orchestrator.drivers.rows.telling import lockers
from orchestrator.drivers.rows.waited import before, wait_for_rows
from orchestrator.drivers.rows.workers import Ranges, Workers
from orchestrator.model.facts import Position, Shape
from orchestrator.model.keys import Key
from orchestrator.model.outcome import Outcome, Result, Seen
from orchestrator.model.step import Fill, step_key
from orchestrator.mysql.batch_bound import LargestBatch, largest_batch
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.filling import FillRule, fill_rule
from orchestrator.mysql.keyset import BatchSize, Reader
from orchestrator.mysql.persistence import Backoff, once
from orchestrator.mysql.relation import load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql import packets, positions
from orchestrator.mysql.sql.bounds import KeySpace, Span, key_space, show
from orchestrator.mysql.sql.packets import Move
from orchestrator.mysql.sql.positions import Fence, PassName
from orchestrator.mysql.sql.rows import counts, estimate, estimate_of, nth_key
from orchestrator.mysql.sql.state import SERVER_UUID
from orchestrator.mysql.told import NOT_INSTALLED, told
from orchestrator.ports import Beat

_ANSWER_S = 15.0
_MOST_PASSES = 50
_UNKNOWN_EPOCH = ":epoch"
_UNKNOWN_KEYS = ":keys"
_SWEEP = "sweep-"
_SAMPLES = 10
_LOCK_WAIT_S = 1


class FillDriver:
    """``jitter`` gives numbers in [0, 1) for the waits between tries."""

    def __init__(self, site: Site, jitter: Callable[[], float] = random.random) -> None:
        self._site = site
        self._backoff = Backoff(jitter)

    def describe(self, step: Fill) -> Sequence[str]:
        """The key and the largest batch; the end of the next rows that are read, what is asked of them, then the packet
        that writes, with the bounds that it has now. A sweep is read as far as one packet of it would be."""
        with self._session(step) as session:
            planned = self._load(session, step)
            rule, reader = planned.rule, planned.reader
            position = self._position(session, step)
            begun = position is not None and not position.done
            span = span_of(position) if position is not None and begun else Span(None, reader.last())
            largest = largest_batch(session, step.table, step.max_batch_rows)
            size = BatchSize.start(step.target_time_s, largest.rows)
            told = _told(reader.space, largest, step.target_time_s)
            # The new columns may not exist yet: the bounds are found without the rule.
            next_rows = Reader(session, reader.space, ()).next(span, size.rows)
            end = nth_key(reader.space, span, size.rows, reader.tag)
            if not next_rows.rows:
                return (told, end, "-- no row is left to look at")
            asking = counts(reader.space, next_rows.span, rule.counted, reader.tag)
            keys = None
            if step.pass_name == "sweep":
                gathering = Gathering(reader, rule, size, self._site.clock.monotonic)
                asking, keys = gathering.question(next_rows.span), _UNKNOWN_KEYS
                if all(planned.shape.column(c.name) for c in self._site.runbook.contract.columns):
                    next_rows = gathering.next(span, once, lambda _: 1.0) or next_rows
            move = Move(next_rows.span.hi, next_rows.rows, next_rows.rows, next_rows.span.hi == span.hi, keys)
            fence = Fence(self._pass(step, _next_name(step, position)), _UNKNOWN_EPOCH, span.lo)
            return (told, end, asking, *packets.batch(reader.space, fence, move, rule.write, reader.tag))

    def apply(self, step: Fill, beat: Beat) -> Outcome:
        """Run to the end, or to the signal that ends it; the position is stored either way. Raises Fenced."""
        listening = Listening(beat, self._site.clock)
        with self._session(step) as session:
            planned = self._load(session, step)
            uuid = str(session.value(SERVER_UUID))
            definition = Definition(planned.shape, lambda: listening.elapsed_s)
            tag = self._site.tag(step_key(step))
            work = Work(planned.reader, planned.rule, listening, self._backoff, uuid, tag, definition)
            try:
                return (
                    self._backfill(step, work, listening) if step.pass_name == "backfill" else self._sweep(step, work)
                )
            except Halt as halt:
                return halt.outcome

    def observe(self, step: Fill, beat: Beat) -> Seen:
        """By the position rows. A sweep is never found done: rows may have moved, and another pass is harmless."""
        with self._session(step) as session:
            position = self._position(session, step)
        if position is None:
            return Seen.ABSENT
        return Seen.PRESENT if position.done and step.pass_name == "backfill" else Seen.PARTIAL

    def abandon(self, step: Fill, beat: Beat) -> Outcome:
        return Outcome(Result.DONE, "nothing to clear: a batch is whole or absent, and the position is stored")

    def _backfill(self, step: Fill, work: Work, listening: Listening) -> Outcome:
        """One pass. What earlier workers left of their ranges comes first, however many there are now."""
        of, size = self._pass(step, step.pass_name), self._size(work.reader.session, step)
        begun = work.reader.session.one(positions.read(of)) is not None
        total = estimate_of(work.reader.session.query(estimate(work.reader.space)))
        sample = None if begun else canary(work, of, size, total)
        size = sample.size if sample is not None else size
        run = FillPass(work, of, size)
        run.begin()
        ranges = self._ranges(work.reader.session, of)
        crew = []
        if step.workers == 1:
            for left in (r for r in ranges[1:] if not r.done):
                FillPass(work, replace(of, range_no=left.range_no), size).run()
            run.run()
        else:
            workers = Workers(work, listening, lambda: self._open(step), step.workers)
            listening.began(of.name, sum(r.rows_done for r in ranges), listening.total)
            workers.run(Ranges(of, ranges), size)
            crew = [f"{workers.most} workers"]
        position = positions.whole(self._ranges(work.reader.session, of))
        assert position is not None
        notes = [f"{position.rows_done} rows looked at, {position.rows_changed} written"]
        if position.rows_skipped:
            notes.append(f"{position.rows_skipped} locked rows are left to the sweep")
        if sample is not None:
            notes.append(sample.told(total))
        return _done(work, "; ".join([*notes, *crew]), (position,))

    def _ranges(self, session: Session, of: PassName) -> list[Position]:
        return [positions.position_of(row) for row in session.query(positions.read_like(of, of.name))]

    def _sweep(self, step: Fill, work: Work) -> Outcome:
        """Passes until one that this call began finds nothing to write and skips nothing."""
        session, clock = work.reader.session, self._site.clock
        past = [positions.position_of(r) for r in session.query(positions.read_like(self._pass(step, ""), _SWEEP))]
        resumed = bool(past) and not past[-1].done
        number = len(past) + (0 if resumed else 1)
        passes: list[Position] = []
        while True:
            size = self._size(session, step)
            gathering = Gathering(work.reader, work.rule, size, lambda: work.listening.elapsed_s)
            run = FillPass(work, self._pass(step, sweep_name(number)), size, gathering)
            position = run.run()
            until = clock.monotonic() + self._site.runbook.limits.max_wait_s
            met = wait_for_rows(run, partial(before, clock, until))
            passes.append(met.after(position, run.remembers_all))
            if not resumed and not passes[-1].rows_changed and not passes[-1].rows_skipped:
                written = sum(p.rows_changed for p in passes)
                return _done(work, f"{len(passes)} passes, {written} rows written, the last pass found nothing", passes)
            if met.left or len(passes) >= _MOST_PASSES:
                return self._left_over(work, passes[-1], met.left)
            resumed, number = False, number + 1

    def _left_over(self, work: Work, last: Position, left: tuple[Key, ...]) -> Outcome:
        if not last.rows_skipped:
            seen = f"each pass finds rows to write again; the last one wrote {last.rows_changed}"
            return Outcome(
                Result.FAILED,
                seen,
                "rows that stay as they were filled",
                "look for a writer that sets new columns to what the old ones do not say",
                figures=work.listening.figures(),
            )
        keys = [show(work.reader.space, key) for key in left[:_SAMPLES]]
        who = lockers(work.reader.session, work.reader.space.table)
        return Outcome(
            Result.HELD,
            f"{last.rows_skipped} rows stay locked, among them {', '.join(keys)}; locked by {who}",
            "rows that are free for a moment",
            "end what holds them, then type the same command again",
            work.listening.figures(),
            tuple(("locked", "", "1", key) for key in keys),
        )

    @contextmanager
    def _session(self, step: Fill) -> Iterator[Session]:
        """A session of its own; what the server says that nobody expected becomes an error for the operator."""
        try:
            with closing(self._open(step)) as session:
                yield session
        except ServerError as error:
            raise told(error, f"filling {step.table}") from error

    def _open(self, step: Fill) -> Session:
        """A batch waits for nothing of the application's; a single row, and the position, for a second at most."""
        session = self._site.connect(step.pass_name, _ANSWER_S)
        session.pin("innodb_lock_wait_timeout", _LOCK_WAIT_S)
        return session

    def _load(self, session: Session, step: Fill) -> _Planned:
        contract = self._site.runbook.contract
        shape = live_shape(session, step.table, contract.key)
        rule = fill_rule(load_relation(session, contract, shape), shape, step.on_conflict, step.mend)
        tag, pace = self._site.tag(step_key(step)), self._site.pace()
        reader = Reader(session, key_space(shape), rule.counted, tag, pace)
        return _Planned(rule, reader, shape)

    def _size(self, session: Session, step: Fill) -> BatchSize:
        return BatchSize.start(step.target_time_s, largest_batch(session, step.table, step.max_batch_rows).rows)

    def _position(self, session: Session, step: Fill) -> Position | None:
        """The latest position row of this step, or None; also when nothing was ever installed."""
        prefix = "backfill" if step.pass_name == "backfill" else _SWEEP
        try:
            rows = session.query(positions.read_like(self._pass(step, ""), prefix))
        except ServerError as error:
            if error.number in NOT_INSTALLED or error.is_privilege:
                return None
            raise
        found = [positions.position_of(row) for row in rows]
        return positions.whole([p for p in found if p.pass_name == found[-1].pass_name])

    def _pass(self, step: Fill, name: str) -> PassName:
        return PassName(self._site.settings.state_schema, self._site.runbook.id, step.walk, name)


class _Planned(Struct, frozen=True):
    """What is written, how it is read, and the table for which that was planned."""

    rule: FillRule
    reader: Reader
    shape: Shape


def _told(space: KeySpace, largest: LargestBatch, target_time_s: float) -> str:
    key = f"{space.index} ({', '.join(space.names)})"
    size = f"about {target_time_s * 1000:.0f} ms, at most {largest.rows} rows ({largest.reason})"
    return f"-- in the order of {key}; each batch: {size}"


def _next_name(step: Fill, last: Position | None) -> str:
    """The pass that goes on, or that begins."""
    if step.pass_name == "backfill" or (last is not None and not last.done):
        return last.pass_name if last is not None else step.pass_name
    return sweep_name(1 if last is None else 1 + int(last.pass_name.removeprefix(_SWEEP)))


def sweep_name(number: int) -> str:
    return f"{_SWEEP}{number}"


def _done(work: Work, note: str, passes: Sequence[Position]) -> Outcome:
    figures = work.listening.figures() | {
        "rows_done": float(sum(p.rows_done for p in passes)),
        "rows_changed": float(sum(p.rows_changed for p in passes)),
        "rows_skipped": float(sum(p.rows_skipped for p in passes)),
        "passes": float(len(passes)),
    }
    return Outcome(Result.DONE, "; ".join(p for p in (note, work.listening.throttled) if p), figures=figures)
