"""Scans of a whole table that only read: live values, drift, and the meter. All walk by key, and none keeps rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.errors import Held
from orchestrator.model.contract import Column, Invariant
from orchestrator.model.facts import DriftFacts, MeterFacts, Shape, ValueScan
from orchestrator.model.outcome import Progress
from orchestrator.model.step import Truth
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.comparison import Comparer, Tally
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.keyset import MOST_READ_ROWS, BatchSize, Patience, Reader, stretches
from orchestrator.mysql.pace import Pace
from orchestrator.mysql.persistence import Backoff
from orchestrator.mysql.questions import Question, drift_question, invariants_question, meter_question
from orchestrator.mysql.relation import Relation, some
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.bounds import Span, key_space
from orchestrator.mysql.sql.rows import estimate, estimate_of
from orchestrator.mysql.values import Problem, ValueTally, add_refused, add_values, unwritable_problems
from orchestrator.ports import Clock, KeepGoing

TARGET_S = 0.08


def always(progress: Progress) -> bool:
    """The answer to a scan of whoever holds no lease, and listens to nobody meanwhile."""
    return True


class Reach(Struct, frozen=True):
    """How far a scan of values goes: to the end, or until ``max_rows`` are seen or ``max_s`` are over by ``clock``."""

    max_rows: int
    max_s: float
    clock: Clock


def scan_values(
    session: Session, relation: Relation, shape: Shape, reach: Reach, also: Sequence[Problem] = ()
) -> ValueScan:
    """Old values within ``reach`` that no mapping knows or that do not fit, and what ``also`` asks of every row.

    It ends where a mapping's expression is an error for some row's values: a few such rows are named. Works before the
    new columns exist. Raises RunbookError (no usable key), ServerError, ServerUnreachable.
    """
    of_mappings = unwritable_problems(relation, shape)
    problems = (*of_mappings, *also)
    tally = ValueTally()
    if not problems:
        return ValueScan(0, True, ())
    reader = Reader(session, key_space(shape), (some(f"{p.name} IS NOT NULL" for p in problems),))
    until, scanned, complete = reach.clock.monotonic() + reach.max_s, 0, False
    size, patient, at = BatchSize.reading(TARGET_S, min(MOST_READ_ROWS, reach.max_rows)), patience(reach.clock), Span()
    try:
        for stretch in stretches(reader, at, size, patient):
            if stretch.counts[0]:
                add_values(reader, stretch.span, problems, tally)
            scanned, at, complete = scanned + stretch.rows, Span(stretch.span.hi), stretch.span.hi is None
            if scanned >= reach.max_rows or reach.clock.monotonic() >= until:
                break
    except ServerError as error:
        piece = reader.cut(at, size.most_rows) if error.is_of_a_row else None
        if piece is None or not add_refused(reader, piece, of_mappings, tally, patient.ask):
            raise
    return ValueScan(scanned, complete, tally.counts())


def scan_drift(
    session: Session,
    relation: Relation,
    shape: Shape,
    mode: Truth,
    keep_going: KeepGoing = always,
    pace: Pace | None = None,
) -> DriftFacts:
    """Every row by the relation of ``mode``; a row is looked at again before it is called wrong.

    Raises Held when ``keep_going`` said no: a part of a table proves nothing. RunbookError, ServerError,
    ServerUnreachable.
    """
    tally = _whole(session, shape, drift_question(relation, mode), keep_going, pace)
    return DriftFacts(tally.rows_compared, tally.mismatches, tally.classes())


def scan_invariants(
    session: Session,
    invariants: Sequence[Invariant],
    shape: Shape,
    keep_going: KeepGoing = always,
    pace: Pace | None = None,
) -> DriftFacts:
    """Rows that break an invariant, each counted once. Raises as ``scan_drift``."""
    if not invariants:
        return DriftFacts(0, 0)
    tally = _whole(session, shape, invariants_question(invariants), keep_going, pace)
    return DriftFacts(tally.rows_compared, tally.mismatches, tally.classes())


def scan_meter(
    session: Session,
    relation: Relation,
    shape: Shape,
    dropped: Sequence[Column] = (),
    keep_going: KeepGoing = always,
    pace: Pace | None = None,
) -> MeterFacts:
    """What the way back cannot carry, by class; ``dropped`` columns would go with it. Raises as ``scan_drift``."""
    if not (relation.pairs or dropped):
        return MeterFacts(())

    def told(progress: Progress) -> bool:
        return keep_going(replace(progress, note="counts what going back would lose"))

    return MeterFacts(_whole(session, shape, meter_question(relation, dropped), told, pace).classes())


def patience(clock: Clock, wait: Callable[[float, str], None] | None = None) -> Patience:
    """Tries again with backoff; without ``wait`` it just sleeps."""
    return Patience(clock, Backoff(random.random), wait or (lambda seconds, _: clock.sleep(seconds)))


def _whole(session: Session, shape: Shape, question: Question, keep_going: KeepGoing, pace: Pace | None) -> Tally:
    clock, tally = SystemClock(), Tally()
    reader = Reader(session, key_space(shape), question.counted, pace=pace)
    total = estimate_of(session.query(estimate(reader.space)))

    def listen(waits: str = "") -> None:
        done = tally.rows_compared
        if not keep_going(Progress(done=done, total=max(total, done), throttled_by=waits, estimated=True)):
            raise Held(
                f"the scan of {shape.table} was stopped after {done} rows",
                "a scan that reaches the end of the table",
                "type the same command again",
            )

    def wait(seconds: float, reason: str) -> None:
        clock.sleep(seconds)
        listen(reason)

    comparer = Comparer(reader, question, patience(clock, wait), tally)
    for stretch in stretches(reader, Span(), BatchSize.reading(TARGET_S), comparer.patience):
        comparer.judge(stretch)
        if stretch.span.hi is not None:
            listen()
    return tally
