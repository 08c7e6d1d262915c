"""Several workers on one pass, each with a session, a range and a stored position of its own.

The row of the whole pass (range 0) says up to where keys were handed out; each worker takes the next stretch behind
that, fills it, and comes again. Only the thread that called beats: workers hear what it heard.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial

from msgspec.structs import replace

from orchestrator.drivers.rows.listening import Listening, slowed_s
from orchestrator.drivers.rows.passes import READ_ONLY, FillPass, Halt, Left, Work, span_of
from orchestrator.drivers.rows.tuning import WINDOW_S, Tuning
from orchestrator.errors import RolloutError
from orchestrator.model.facts import Position
from orchestrator.model.outcome import GO, Signal, SignalKind
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.keyset import BatchSize
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import positions
from orchestrator.mysql.sql.positions import Fence, PassName

AUTO_MOST = 4
# A range costs some packets of its own.
_STRETCH_BATCHES = 40
# Of what is left, each of several takes half a share at a time, so that none works for long when the others are done.
_SHARE = 2
# The end of a range is found by reading so far, while nobody else can take one.
_LEAST_STRETCH_ROWS, _MOST_STRETCH_ROWS = 500, 500_000
_BEAT_S = 0.05
_HELD_SHARE = 0.1


class Shared:
    """What workers hear, and what they tell: one lock around the ear of the thread that beats."""

    def __init__(self, listening: Listening) -> None:
        self.listening = listening
        self.changed = threading.Condition()
        self.signal = GO
        self.at_work = 1

    def say(self, signal: Signal) -> None:
        """All workers hear this from now on; what ends the work stays said."""
        with self.changed:
            if self.signal.kind in (SignalKind.GO, SignalKind.HOLD):
                self.signal = signal
                self.changed.notify_all()


class WorkerEar:
    """Implements listening.Ear for one worker."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._retries = 0
        self._batch_s = 0.0
        self._one_too_many: Callable[[], bool] = lambda: False

    @property
    def epoch(self) -> int:
        return self._shared.listening.epoch

    @property
    def elapsed_s(self) -> float:
        return self._shared.listening.elapsed_s

    @property
    def throttled(self) -> str:
        return self._shared.listening.throttled

    @property
    def retries(self) -> int:
        return self._retries

    @retries.setter
    def retries(self, value: int) -> None:
        with self._shared.changed:
            self._shared.listening.retries += value - self._retries
            self._retries = value

    def began(self, note: str, done: int, total: int) -> None:
        """The pass as a whole began before."""

    def worked(self, rows: int, took_s: float) -> None:
        self._batch_s = took_s
        with self._shared.changed:
            self._shared.listening.worked(rows, took_s)

    def caught_up(self, rows: int) -> None:
        with self._shared.changed:
            self._shared.listening.caught_up(rows)

    def go_on(self) -> Signal:
        with self._shared.changed:
            self._shared.changed.wait_for(lambda: self._shared.signal.kind is not SignalKind.HOLD)
            signal = self._shared.signal
            if slow_s := slowed_s(signal, self._batch_s):
                self._shared.listening.waited(slow_s / self._shared.at_work, signal.reason)
                self._shared.changed.wait_for(self._ended, timeout=slow_s)
                self._shared.changed.wait_for(lambda: self._shared.signal.kind is not SignalKind.HOLD)
            return self._shared.signal

    def leaves(self) -> bool:
        return self._one_too_many()

    def has(self, one_too_many: Callable[[], bool]) -> None:
        """A range, which ``one_too_many`` gives to others when the worker is that."""
        self._one_too_many = one_too_many

    def wait(self, seconds: float, reason: str) -> Signal:
        with self._shared.changed:
            self._shared.listening.waited(seconds / self._shared.at_work, reason)
            self._shared.changed.wait_for(self._ended, timeout=seconds)
        return self.go_on()

    def _ended(self) -> bool:
        return self._shared.signal.kind not in (SignalKind.GO, SignalKind.HOLD)

    def figures(self) -> dict[str, float]:
        with self._shared.changed:
            return self._shared.listening.figures()


class Ranges:
    """Hands out ranges of one pass, so that no two overlap; begins with those that an earlier command left open."""

    def __init__(self, of: PassName, found: list[Position]) -> None:
        self._of = of
        self._lock = threading.Lock()
        self._whole = found[0]
        self._open = [r.range_no for r in found[1:] if not r.done]
        self._free = [r.range_no for r in found[1:] if r.done]
        self._next_no = len(found)
        self._tried = 0

    @property
    def all_taken(self) -> bool:
        """Whether nobody would get one any more. Asked by the thread that beats, which must not wait for the lock."""
        return self._whole.done and not self._open

    def take(self, work: Work, rows: int) -> PassName | None:
        """The next range, of about ``rows`` rows; None when all were taken. Raises Halt, Fenced, ServerError."""
        with self._lock:
            while not self._open:
                if self._whole.done:
                    return None
                self._hand_out(work, rows)
            return replace(self._of, range_no=self._open.pop())

    def give_back(self, slot: PassName) -> None:
        """The range is done; its row may hold another one."""
        with self._lock:
            self._free.append(slot.range_no)

    def leave(self, slot: PassName) -> bool:
        """Give the rest of the range to whoever comes next; False: nobody may come any more."""
        with self._lock:
            if self._whole.done:
                return False
            self._open.append(slot.range_no)
            return True

    def _hand_out(self, work: Work, rows: int) -> None:
        """Moves on by one range, or by none when nothing is writable for a moment."""
        run = FillPass(work, self._of, BatchSize.start(1.0, rows))
        span = span_of(self._whole)
        cut = run.ask(lambda: work.reader.cut(span, rows))
        slot = replace(self._of, range_no=self._free[-1] if self._free else self._next_no)
        fence = Fence(self._of, self._whole.epoch, span.lo)
        statements = positions.hand_out(fence, cut.hi, slot, last=cut.hi == span.hi)
        ours = run.ask(lambda: positions.handed_out(work.reader.session.packet(statements)))
        now = run.reread()
        if not ours and now == self._whole:
            self._tried += 1
            if self._tried >= work.backoff.tries:
                raise ServerError(READ_ONLY, "the server takes no writes")
            run.pause(work.backoff.wait_s(self._tried), f"server-error {READ_ONLY}")
        moved, self._whole = now != self._whole, now
        if moved:
            # Ours, or an answer that was lost: the range behind the position that we knew is in the slot.
            self._open.append(slot.range_no)
            if self._free and self._free[-1] == slot.range_no:
                self._free.pop()
            else:
                self._next_no += 1


class Workers:
    """Runs a pass with ``count`` workers; 0 finds out how many. ``connect`` opens a worker's session."""

    def __init__(self, work: Work, listening: Listening, connect: Callable[[], Session], count: int) -> None:
        self._w = work
        self._shared = Shared(listening)
        self._connect = connect
        self._tuning = Tuning(AUTO_MOST) if count == 0 else None
        self._wanted = self._tuning.workers if self._tuning is not None else count
        self._threads: dict[int, threading.Thread] = {}
        self._failed: list[Exception] = []
        self._size: BatchSize | None = None
        self.most = 0

    def run(self, ranges: Ranges, size: BatchSize) -> None:
        """Returns when no range is left. Raises what the first worker that failed raised; then none is at work."""
        self._size = size
        try:
            self._attend(ranges)
        finally:
            self._shared.say(Signal(SignalKind.STOP, "another worker ended"))
            for thread in self._threads.values():
                thread.join()
        if self._failed:
            raise next((e for e in self._failed if not isinstance(e, Halt)), self._failed[0])

    def _attend(self, ranges: Ranges) -> None:
        listening = self._shared.listening
        began_s, rows, waited_s = listening.elapsed_s, listening.done, listening.throttled_s
        self._start(ranges)
        while (alive := [t for t in self._threads.values() if t.is_alive()]) and not self._failed:
            signal = listening.ask()
            self._shared.say(signal)
            if signal.kind is SignalKind.HOLD:
                listening.sleep(_BEAT_S, signal.reason)
            else:
                alive[0].join(_BEAT_S)
            took_s = listening.elapsed_s - began_s
            if self._tuning is not None and took_s >= WINDOW_S:
                held = listening.throttled_s - waited_s > _HELD_SHARE * took_s
                self._wanted = self._tuning.after((listening.done - rows) / took_s, held=held)
                began_s, rows, waited_s = listening.elapsed_s, listening.done, listening.throttled_s
                self._start(ranges)

    def _start(self, ranges: Ranges) -> None:
        """As many as are wanted; those that are too many end by themselves after their batch."""
        self._threads = {n: t for n, t in self._threads.items() if t.is_alive()}
        # Ranges are cut by it, so it stands before the first one is asked for.
        self._shared.at_work = max(1, len(self._threads), self._wanted)
        for number in range(0 if ranges.all_taken else self._wanted):
            if number not in self._threads:
                thread = threading.Thread(target=self._work, args=(ranges, number), name=f"rollout-worker-{number}")
                self._threads[number] = thread
                thread.start()
        self.most = max(self.most, len(self._threads))

    def _work(self, ranges: Ranges, number: int) -> None:
        try:
            with closing(self._connect()) as session:
                ear = WorkerEar(self._shared)
                work = replace(self._w, reader=self._w.reader.on(session), listening=ear)
                with suppress(Left):
                    self._fill(work, ear, ranges, number)
        except (Halt, RolloutError, ServerError) as error:
            self._failed.append(error)
        except Exception as error:  # a bug must reach whoever called, not die with a thread
            self._failed.append(error)

    def _fill(self, work: Work, ear: WorkerEar, ranges: Ranges, number: int) -> None:
        """Begins with the size that the others have found. The first one stays until nothing is left."""
        while number < self._wanted or number == 0:
            assert self._size is not None
            slot = ranges.take(work, self._stretch_rows(self._size))
            if slot is None:
                return
            ear.has(partial(self._leaves, ranges, slot, number))
            run = FillPass(work, slot, self._size)
            run.run()
            self._size = run.size
            ranges.give_back(slot)

    def _leaves(self, ranges: Ranges, slot: PassName, number: int) -> bool:
        return 0 < number >= self._wanted and ranges.leave(slot)

    def _stretch_rows(self, size: BatchSize) -> int:
        """About how many rows the next range has: some batches, fewer towards the end of the table."""
        listening, at_work = self._shared.listening, self._shared.at_work
        share = max(0, listening.total - listening.done) // (1 if at_work == 1 else _SHARE * at_work)
        return max(_LEAST_STRETCH_ROWS, size.rows, min(share, size.rows * _STRETCH_BATCHES, _MOST_STRETCH_ROWS))
