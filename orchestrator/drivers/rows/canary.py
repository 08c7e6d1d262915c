"""The first ranges of a backfill: a sample spread over the keys, filled, proven by the relation, and timed.

What fills wrongly, fills wrongly in a few hundred rows and stops there. The pass that follows finds these rows right.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.drivers.rows.passes import FillPass, Halt, Work
from orchestrator.model.facts import Position
from orchestrator.model.keys import Key
from orchestrator.model.outcome import Outcome, Result
from orchestrator.mysql.keyset import BatchSize
from orchestrator.mysql.sql import positions
from orchestrator.mysql.sql.bounds import Span, read_key, show
from orchestrator.mysql.sql.positions import PassName
from orchestrator.mysql.sql.rows import listed

NAME = "canary"
PLACES = 8
ROWS_A_PLACE = 100
# A table with fewer rows is its own canary.
LEAST_ROWS = 10 * PLACES * ROWS_A_PLACE
_SAMPLES = 10
_TRIES = 3
_BETWEEN_S = 0.05


class Sample(Struct, frozen=True):
    """What the canary was: ``rows`` in ``places`` at ``rows_per_s``; ``size``: of a batch, as it was learned there."""

    rows: int
    places: int
    rows_per_s: float
    size: BatchSize

    def told(self, total: int) -> str:
        left = f", about {total / self.rows_per_s:.0f} s for {total} rows" if self.rows_per_s > 0 else ""
        return f"canary: {self.rows} rows in {self.places} places, {self.rows_per_s:.0f} rows/s{left}"


def canary(work: Work, of: PassName, size: BatchSize, total: int) -> Sample | None:
    """Fill and prove the sample; None when the table is too small for one. ``of``: the pass that follows.

    Raises Halt with the rows that do not hold what they were given, and all that a pass raises.
    """
    first, last = work.reader.ends()
    if total < LEAST_ROWS or first is None or last is None:
        return None
    began_s = work.listening.elapsed_s
    # Where keys are not spread evenly, several places fall together: they are one.
    ends: dict[str | None, Position] = {}
    for number, lo in enumerate(work.reader.spread(first, last, PLACES)):
        position, size = _filled(work, replace(of, name=NAME, range_no=number), Span(lo, last), size)
        ends[position.hi] = position
    rows, places = sum(p.rows_done for p in ends.values()), len(ends)
    took_s = work.listening.elapsed_s - began_s
    return Sample(rows, places, rows / took_s if took_s > 0 else 0.0, size) if places else None


def _filled(work: Work, slot: PassName, span: Span, size: BatchSize) -> tuple[Position, BatchSize]:
    """One place, filled and looked at. A row that the application wrote meanwhile is filled again before it counts."""
    session, reader = work.reader.session, work.reader
    run = FillPass(work, slot, size)
    hi = run.ask(lambda: reader.cut(span, ROWS_A_PLACE)).hi
    begun = positions.alone(positions.begin(slot, work.listening.epoch, hi, ROWS_A_PLACE, span.lo))
    run.ask(lambda: session.packet(begun))
    position = run.run()
    lo, hi = (positions.end_of(NAME, end) for end in (position.lo, position.hi))
    left = set(run.skipped)
    for tried in range(_TRIES + 1):
        wrong = [key for key in _wrong(run, work, Span(lo, hi)) if key not in left]
        if not wrong:
            break
        if tried == _TRIES:
            raise Halt(_told(work, wrong))
        run.pause(_BETWEEN_S, "canary")
        left |= {key for key in wrong if run.wait_for_row(key) is None}
    return position, run.size


def _wrong(run: FillPass, work: Work, span: Span) -> Sequence[Key]:
    text = listed(work.reader.space, span, work.rule.wrong, (), ROWS_A_PLACE, work.tag)
    return [read_key(work.reader.space, row) for row in run.ask(lambda: work.reader.session.query(text))]


def _told(work: Work, wrong: Sequence[Key]) -> Outcome:
    keys = [show(work.reader.space, key) for key in wrong[:_SAMPLES]]
    return Outcome(
        Result.FAILED,
        f"{len(wrong)} rows of the canary do not hold what they were given, among them {', '.join(keys)}",
        "rows that hold what the mapping says once they are filled",
        "look for a trigger of the application, or an expression that gives another value each time",
        work.listening.figures(),
        tuple(("canary", "", "1", key) for key in keys),
    )
