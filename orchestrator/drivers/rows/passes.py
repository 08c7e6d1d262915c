"""One keyed pass that writes: batch after batch from the stored position to the end that was fixed when it began.

Whatever happens to a batch (refused, unanswered, sent by somebody whose lease is gone), the position row says what is
true, and the pass goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.drivers.rows.gathering import Gathering
from orchestrator.drivers.rows.listening import Ear, stopped
from orchestrator.drivers.rows.poison import named, poisoned
from orchestrator.drivers.rows.table import Definition
from orchestrator.drivers.rows.telling import altered_meanwhile, another_role, given_up, refused, still_pending
from orchestrator.errors import Fenced, ServerUnreachable
from orchestrator.model.facts import Position
from orchestrator.model.keys import Key
from orchestrator.model.outcome import Outcome, Result, SignalKind
from orchestrator.mysql.errno import LOCK_WAIT_TIMEOUT, Cure, ServerError
from orchestrator.mysql.filling import FillRule
from orchestrator.mysql.keyset import BatchSize, Reader
from orchestrator.mysql.persistence import Backoff, persist
from orchestrator.mysql.sql import packets, positions
from orchestrator.mysql.sql.bounds import Span, show
from orchestrator.mysql.sql.packets import Move
from orchestrator.mysql.sql.positions import Fence, PassName, stored
from orchestrator.mysql.sql.rows import Stretch, estimate, estimate_of

T = TypeVar("T")
# Keys of locked rows that one pass remembers, to wait for them one by one; the others need another whole pass.
_REMEMBERED = 1_000
READ_ONLY = 1290


class Halt(Exception):
    """The pass ended before its range did; ``outcome`` says how. Internal to this room."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.note)
        self.outcome = outcome


class Left(Exception):
    """The pass was given to somebody else between two batches. Internal to this room."""


class Work(Struct, frozen=True):
    """What does not change during a pass. ``tag`` goes into every statement."""

    reader: Reader
    rule: FillRule
    listening: Ear
    backoff: Backoff
    server_uuid: str
    tag: str
    definition: Definition


class FillPass:
    """Runs one pass. ``run`` gives its position row when the range is done; raises Halt, Left, Fenced,
    ServerUnreachable."""

    def __init__(self, work: Work, of: PassName, size: BatchSize, gathering: Gathering | None = None) -> None:
        """``gathering``: how it is read where few rows are pending; without it every stretch is a batch."""
        self._w = work
        self._of = of
        self._gathering = gathering
        self.size = size
        self._tried = 0
        self._unanswered = False
        self.skipped: tuple[Key, ...] = ()
        # Whether ``skipped`` names every row that the whole pass had to leave.
        self.remembers_all = False

    def run(self) -> Position:
        position = self.begin()
        self.remembers_all = not position.rows_skipped
        while not position.done:
            self._listen()
            # Who has a batch without an answer stays: only here it is known what may have become of it.
            if not self._tried and self._w.listening.leaves():
                raise Left
            began_s = self._w.listening.elapsed_s
            stretch = self._next(position)
            self._accepts(stretch)
            position = self._moved(position, stretch, began_s)
            self.size = self.size.sharing(self._rest(self._w.listening.elapsed_s - began_s))
        return position

    def _rest(self, took_s: float) -> float:
        """Make room for others after work of ``took_s``: which share of the target time is for us. Raises Halt."""
        rest = self._w.reader.rest(took_s)
        if rest.seconds:
            self.pause(rest.seconds, rest.reason)
        return rest.share

    def wait_for_row(self, key: Key) -> int | None:
        """Fill one row that this pass had to leave, waiting for its lock for a second at most: rows written.

        None: it is still locked, or the server does not answer. Raises Halt, Fenced.
        """
        self._listen()
        fence = Fence(self._of, self._w.listening.epoch, None)
        statements = packets.single(self._w.reader.space, fence, key, self._w.rule.write, self._w.tag)
        try:
            answer = packets.moved(self._w.reader.session.packet(statements))
        except ServerUnreachable:
            return None
        except ServerError as error:
            if error.is_of_a_row:
                raise Halt(named(self._w.reader, self._w.rule, key, error)) from error
            return None
        if answer.fenced:
            self.ask(self._read)
            return None
        return answer.changed

    def begin(self) -> Position:
        """The position row as it stands, created or taken over when need be. Raises Fenced, Halt."""
        session, epoch = self._w.reader.session, self._w.listening.epoch

        def ask() -> tuple[Position, int]:
            if session.one(positions.read(self._of)) is None:
                hi = self._w.reader.last()
                total = estimate_of(session.query(estimate(self._w.reader.space))) if hi is not None else 0
                session.packet(positions.alone(positions.begin(self._of, epoch, hi, total)))
            session.packet(positions.alone(positions.forget_compared(self._of)))
            session.packet(positions.alone(positions.adopt(self._of, epoch)))
            return self._read()

        position, total = self.ask(ask)
        self._w.listening.began(self._of.name, position.rows_done, total)
        return position

    def _read(self) -> tuple[Position, int]:
        """The position row now, and the rows it expects. Raises Fenced: it is gone, or has another epoch."""
        row = self._w.reader.session.one(positions.read(self._of))
        if row is None or positions.position_of(row).epoch != self._w.listening.epoch:
            raise Fenced(
                f"the position of {self._of.name} belongs to another holder",
                "the lease that this command took",
                "rollout status, then the same command when nobody else works",
            )
        return positions.position_of(row), positions.rows_total_of(row)

    def _next(self, position: Position) -> Stretch:
        """The next rows, few enough that writing those that need it takes about the target time."""
        span = span_of(position)
        try:
            return self._gathered(span) or self._sized(span)
        except ServerError as error:
            if not error.is_of_a_row:
                self._unchanged(at_once=True)
                raise
            ends = self.ask(lambda: self._w.reader.cut(span, self.size.rows))
            raise Halt(self._refusal(error, ends)) from error

    def _sized(self, span: Span) -> Stretch:
        while True:
            stretch = self.ask(lambda: self._w.reader.next(span, self.size.rows))
            pending = stretch.counts[0]
            if self.size.fits(pending):
                return stretch
            self.size = self.size.shrunk_for(pending)

    def _gathered(self, span: Span) -> Stretch | None:
        if self._gathering is None:
            return None
        hears, go = self._w.listening.go_on, SignalKind.GO
        return self._gathering.next(span, self.ask, lambda took_s: self._rest(took_s) if hears().kind is go else 0.0)

    def _unchanged(self, *, at_once: bool = False) -> None:
        """Stops when somebody altered what is filled."""
        changed = self.ask(lambda: self._w.definition.altered(self._w.reader.session, at_once=at_once))
        if changed:
            raise Halt(altered_meanwhile(self._w.reader.space.table, changed, self._w.listening.figures()))

    def _accepts(self, stretch: Stretch) -> None:
        """Stops before anything is written that the server's role, the table or a value forbids."""
        other = another_role(stretch, self._w.server_uuid, self._where(stretch.span))
        if other is not None:
            raise Halt(other)
        self._unchanged()
        if stretch.counts[1]:
            found = self.ask(lambda: refused(self._w.reader, stretch.span, self._w.rule))
            raise Halt(replace(found, figures=self._w.listening.figures()))

    def _moved(self, position: Position, stretch: Stretch, began_s: float) -> Position:
        """Send the batch and read what became of it; the position is the old one when nothing did."""
        last = stored(stretch.span.hi) == position.hi
        move = Move(stretch.span.hi, stretch.rows, stretch.counts[0], last, stretch.keys)
        fence = Fence(self._of, position.epoch, span_of(position).lo)
        statements = packets.batch(self._w.reader.space, fence, move, self._w.rule.write, self._w.tag)
        sent_s = self._w.listening.elapsed_s
        try:
            answer = packets.moved(self._w.reader.session.packet(statements))
        except (ServerError, ServerUnreachable) as error:
            self._trouble(error, stretch)
            return self._reread(position)
        if answer.fenced:
            now = self._reread(position)
            if now == position:
                self._trouble(ServerError(READ_ONLY, "the server takes no writes"), stretch)
            return now
        now_s = self._w.listening.elapsed_s
        self._tried, self._unanswered = 0, False
        if stretch.keys is None:
            packet_s = now_s - sent_s
            size = self.size.after(stretch.rows, packet_s, max(0.0, packet_s - answer.write_s))
            self.size = size.wrote(answer.changed, answer.write_s)
        self._w.listening.worked(stretch.rows, now_s - began_s)
        if answer.skipped:
            self._remember_skipped(stretch.span)
        return replace(
            position,
            position=stored(move.to),
            rows_done=position.rows_done + move.rows,
            rows_changed=position.rows_changed + answer.changed,
            rows_skipped=position.rows_skipped + answer.skipped,
            done=move.last,
        )

    def _reread(self, position: Position) -> Position:
        """What is true after a packet that was refused or not answered: an earlier one may have moved the position."""
        now, _ = self.ask(self._read)
        if now != position:
            self._tried, self._unanswered = 0, False
            self._w.listening.caught_up(now.rows_done - position.rows_done)
        return now

    def _trouble(self, error: ServerError | ServerUnreachable, stretch: Stretch) -> None:
        """Do what the error's cure says; returns when the batch may be tried again, raises when not."""
        cure = Cure.WAIT if isinstance(error, ServerUnreachable) else error.cure
        told = error.seen if isinstance(error, ServerUnreachable) else str(error.number)
        self._unanswered = self._unanswered or cure is Cure.RECONNECT
        if cure is Cure.SMALLER and self._shrunk(stretch):
            return
        if isinstance(error, ServerError) and cure in (Cure.SMALLER, Cure.TOPOLOGY, Cure.STOP):
            raise Halt(self._refusal(error, stretch.span))
        self._tried += 1
        self._w.listening.retries += 1
        if self._tried >= self._w.backoff.tries:
            if isinstance(error, ServerUnreachable):
                raise error
            held = self._unanswered and error.number == LOCK_WAIT_TIMEOUT
            where = f"the batch {self._where(stretch.span)}"
            raise Halt(given_up(error, where, 0 if held else self._tried, self._w.listening.figures()))
        self.pause(self._w.backoff.wait_s(self._tried - 1), f"server-error {told}")

    def _shrunk(self, stretch: Stretch) -> bool:
        """The next batch is half of this one; False: it was one row."""
        if stretch.keys is not None and self._gathering is not None:
            return self._gathering.halve()
        whole = self.size.rows > 1
        self.size = self.size.halved()
        return whole

    def _refusal(self, error: ServerError, span: Span) -> Outcome:
        """Names the row when it is one row's fault, else the batch."""
        if error.is_of_a_row:
            found = poisoned(self._w.reader, self._w.rule, span, self.ask)
            if found is not None:
                return replace(found, figures=self._w.listening.figures())
        return Outcome(
            Result.FAILED,
            f"the server refused the batch {self._where(span)}: {error.number} {error.without_values}",
            "a batch that the server takes",
            "mend what the error names, then type the same command again: it goes on from the stored position",
            self._w.listening.figures(),
        )

    def _remember_skipped(self, span: Span) -> None:
        room = _REMEMBERED - len(self.skipped)
        if room > 0:
            self.skipped += self.ask(lambda: still_pending(self._w.reader, span, self._w.rule, room))
        self.remembers_all = self.remembers_all and len(self.skipped) < _REMEMBERED

    def _listen(self) -> None:
        signal = self._w.listening.go_on()
        if signal.kind is not SignalKind.GO:
            raise Halt(stopped(signal, "the position is stored", self._w.listening.figures()))

    def reread(self) -> Position:
        """The position row as it stands now. Raises Fenced, Halt."""
        return self.ask(self._read)[0]

    def ask(self, question: Callable[[], T]) -> T:
        """The answer to what may be asked again. Raises ServerError, ServerUnreachable, Halt."""
        return persist(question, self._w.backoff, self.pause)

    def pause(self, seconds: float, reason: str) -> None:
        """Wait, listening. Raises Halt."""
        signal = self._w.listening.wait(seconds, reason)
        if signal.kind is not SignalKind.GO:
            raise Halt(stopped(signal, "the position is stored", self._w.listening.figures()))

    def _where(self, span: Span) -> str:
        lo, hi, space = span.lo, span.hi, self._w.reader.space
        return f"behind {show(space, lo) if lo else 'the start'} up to {show(space, hi) if hi else 'the end'}"


def span_of(position: Position) -> Span:
    """What is left of a pass. Raises ConfigurationError."""
    name = position.pass_name
    return Span(positions.end_of(name, position.position), positions.end_of(name, position.hi))
