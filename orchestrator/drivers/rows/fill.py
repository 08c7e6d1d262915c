"""Fills new columns from old ones in key order: backfill is one pass, the sweep passes until one finds nothing.

The position rows say how far it is; everything else is computed again by whoever goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from orchestrator.drivers.rows.canary import canary
from orchestrator.drivers.rows.listening import Listening
from orchestrator.drivers.rows.passes import FillPass, Halt, Work, span_of
from orchestrator.drivers.rows.table import live_shape
from orchestrator.drivers.rows.telling import lockers
from orchestrator.drivers.rows.workers import Ranges, Workers
from orchestrator.model.facts import Position
from orchestrator.model.keys import Key
from orchestrator.model.outcome import Outcome, Result, Seen
from orchestrator.model.step import Fill, step_key
from orchestrator.mysql.batch_bound import LargestBatch, largest_batch
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.filling import FillRule, fill_rule
from orchestrator.mysql.keyset import BatchSize, Reader
from orchestrator.mysql.persistence import Backoff
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
from orchestrator.ports import Beat, Clock

_ANSWER_S = 15.0
_MOST_PASSES = 50
_UNKNOWN_EPOCH = ":epoch"
_SWEEP = "sweep-"
_SAMPLES = 10
_LOCK_WAIT_S = 1
_BETWEEN_ROUNDS_S = 0.1


class FillDriver:
    """``jitter`` gives numbers in [0, 1) for the waits between tries."""

    def __init__(self, site: Site, jitter: Callable[[], float] = random.random) -> None:
        self._site = site
        self._backoff = Backoff(jitter)

    def describe(self, step: Fill) -> Sequence[str]:
        """The key and the largest batch; the end of the next batch, what is in it, then the packet that writes it, with
        the bounds that it has now."""
        with self._session(step) as session:
            rule, reader = self._load(session, step)
            position = self._position(session, step)
            begun = position is not None and not position.done
            span = span_of(position) if position is not None and begun else Span(None, reader.last())
            largest = largest_batch(session, step.table, step.max_batch_rows)
            rows = BatchSize.start(step.target_time_s, largest.rows).rows
            told = _told(reader.space, largest, step.target_time_s)
            # The new columns may not exist yet: the bounds are found without the rule.
            next_rows = Reader(session, reader.space, ()).next(span, rows)
            end = nth_key(reader.space, span, rows, reader.tag)
            if not next_rows.rows:
                return (told, end, "-- no row is left to look at")
            counting = counts(reader.space, next_rows.span, rule.counted, reader.tag)
            move = Move(next_rows.span.hi, next_rows.rows, next_rows.rows, last=next_rows.span.hi == span.hi)
            fence = Fence(self._pass(step, _next_name(step, position)), _UNKNOWN_EPOCH, span.lo)
            return (told, end, counting, *packets.batch(reader.space, fence, move, rule.write, reader.tag))

    def apply(self, step: Fill, beat: Beat) -> Outcome:
        """Run to the end, or to the signal that ends it; the position is stored either way. Raises Fenced."""
        listening = Listening(beat, self._site.clock)
        with self._session(step) as session:
            rule, reader = self._load(session, step)
            uuid = str(session.value(SERVER_UUID))
            work = Work(reader, rule, listening, self._backoff, uuid, self._site.tag(step_key(step)))
            try:
                return (
                    self._backfill(step, work, listening) if step.pass_name == "backfill" else self._sweep(step, work)
                )
            except Halt as halt:
                return halt.outcome

    def observe(self, step: Fill) -> Seen:
        """By the position rows. A sweep is never found done: rows may have moved, and another pass is harmless."""
        with self._session(step) as session:
            position = self._position(session, step)
        if position is None:
            return Seen.ABSENT
        return Seen.PRESENT if position.done and step.pass_name == "backfill" else Seen.PARTIAL

    def abandon(self, step: Fill) -> Outcome:
        return Outcome(Result.DONE, "nothing to clear: a batch is whole or absent, and the position is stored")

    def _backfill(self, step: Fill, work: Work, listening: Listening) -> Outcome:
        """One pass. What earlier workers left of their ranges comes first, however many there are now."""
        of, size = self._pass(step, step.pass_name), self._size(work.reader.session, step)
        begun = work.reader.session.one(positions.read(of)) is not None
        total = estimate_of(work.reader.session.query(estimate(work.reader.space)))
        sample = None if begun else canary(work, of, size, total)
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
            run = FillPass(work, self._pass(step, sweep_name(number)), size)
            position = run.run()
            until = clock.monotonic() + self._site.runbook.limits.max_wait_s
            met = _wait_for_rows(run, partial(_before, clock, until))
            passes.append(_after(position, met, run.remembers_all))
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
        with closing(self._open(step)) as session:
            try:
                yield session
            except ServerError as error:
                raise told(error, f"filling {step.table}") from error

    def _open(self, step: Fill) -> Session:
        """A batch waits for nothing of the application's; a single row, and the position, for a second at most."""
        session = self._site.connect(step.pass_name, _ANSWER_S)
        session.pin("innodb_lock_wait_timeout", _LOCK_WAIT_S)
        return session

    def _load(self, session: Session, step: Fill) -> tuple[FillRule, Reader]:
        contract = self._site.runbook.contract
        shape = live_shape(session, step.table, contract.key)
        rule = fill_rule(load_relation(session, contract, shape), shape, step.on_conflict)
        return rule, Reader(session, key_space(shape), rule.counted, self._site.tag(step_key(step)))

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


def _told(space: KeySpace, largest: LargestBatch, target_time_s: float) -> str:
    key = f"{space.index} ({', '.join(space.names)})"
    size = f"about {target_time_s * 1000:.0f} ms, at most {largest.rows} rows ({largest.reason})"
    return f"-- in the order of {key}; each batch: {size}"


@dataclass(frozen=True, slots=True)
class _Met:
    """What the single-row pass brought: rows that it met, rows of these that it wrote, keys that stay locked."""

    rows: int
    written: int
    left: tuple[Key, ...]


def _before(clock: Clock, until: float) -> bool:
    return clock.monotonic() < until


def _wait_for_rows(run: FillPass, goes_on: Callable[[], bool]) -> _Met:
    """Wait for the rows that a pass had to leave, one by one and round after round, as long as ``goes_on``.

    So a row that is locked at every moment at which a pass comes by does not cost whole passes.
    """
    left, met, written = run.skipped, 0, 0
    while left and goes_on():
        later = []
        for key in left:
            changed = run.wait_for_row(key) if goes_on() else None
            if changed is None:
                later.append(key)
            else:
                met, written = met + 1, written + changed
        if len(later) == len(left):
            run.pause(_BETWEEN_ROUNDS_S, f"locked-rows {len(later)} rows")
        left = tuple(later)
    return _Met(met, written, left)


def _after(position: Position, met: _Met, remembers_all: bool) -> Position:
    """The pass as it stands once its rows were waited for. A row that it left and that is right by now is in none of
    the lists."""
    unmet = 0 if remembers_all else max(0, position.rows_skipped - met.rows - len(met.left))
    changed = position.rows_changed + met.written
    return replace(position, rows_changed=changed, rows_skipped=len(met.left) + unmet)


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
