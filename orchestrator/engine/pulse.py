"""The beat: the one moment inside long work when it listens to its lease, to people, and to the checks."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from orchestrator.engine.holding import Holding
from orchestrator.engine.parts import Parts
from orchestrator.model.outcome import GO, Outcome, Progress, Signal, SignalKind, goes_on, stopped_by
from orchestrator.model.state import GOES_BACK, SHADOW_WRITE, Ask, Record, Request
from orchestrator.model.step import Step, StepClass, step_class, working_class
from orchestrator.model.stuck import Stuck, stuck
from orchestrator.ports import Lease

LOOK_EVERY_S = 0.5
TELL_EVERY_S = 1.0
_HOLDS_S = 0.25


class Pulse:
    """Implements ports.Beat for one step. Looks and listens at most every half second, however often it is called.

    ``record``: as stored; ``tell`` stores that it is stuck, so it may move while the step runs."""

    def __init__(
        self,
        parts: Parts,
        lease: Lease,
        record: Record,
        step: Step,
        tell: Callable[[Record, Stuck], Record] | None = None,
    ) -> None:
        self._p = parts
        self._lease = lease
        self._step = step
        self._tell = tell
        self._moved: tuple[tuple[str, int], float] | None = None
        self._looked_at = float("-inf")
        self._told_at = float("-inf")
        self._holding = Holding(parts.runbook.limits.max_wait_s)
        self._signal = GO
        self.record = record
        self.asked: Request | None = None

    @property
    def epoch(self) -> int:
        return self._lease.epoch

    @property
    def may_go_back(self) -> bool:
        """Whether this step belongs to a stage in which the application may be on the new column."""
        return self.record.phase in GOES_BACK

    @property
    def besides(self) -> tuple[StepClass, ...]:
        """While all readers are on the new column they are watched, whatever else is done meanwhile. And what the sweep
        fills, and its comparison finds right, stays so only under a mirror that stands."""
        swept = self.record.phase == SHADOW_WRITE and step_class(self._step) is StepClass.ROWS
        return (StepClass.READS,) if swept or (self.may_go_back and self.record.readers_due) else ()

    def __call__(self, progress: Progress) -> Signal:
        now = self._p.clock.monotonic()
        self._lease.alive()
        if now - self._looked_at >= LOOK_EVERY_S or self._p.interrupted() is not None:
            self._looked_at = now
            self._signal = self._requested() or self._judged(now)
            if self._signal.kind is SignalKind.BACK:
                # Whoever lowered the flags to abort asked for that first.
                self._signal = self._requested() or self._signal
        self.told(progress)
        self._p.watcher.progress(self.record, self._step, progress, self._signal)
        return self._signal

    def scans_on(self, progress: Progress) -> bool:
        """For a scan of the observer's (``ports.KeepGoing``): it beats, and waits while the answer is HOLD. False when
        it is to stop; ``stopped`` says why."""
        while (signal := self(progress)).kind is SignalKind.HOLD:
            self._p.clock.sleep(_HOLDS_S)
        return signal.kind is SignalKind.GO

    @property
    def stopped(self) -> Outcome | None:
        """How the step ends whose last beat told it to stop; None when it did not."""
        return None if goes_on(self._signal) else stopped_by(self._signal)

    def requested(self) -> Signal | None:
        """Only the people's part of a beat, for waits that judge by themselves."""
        self._lease.alive()
        return self._requested()

    def told(self, progress: Progress) -> None:
        """Now and then, for other terminals: how far it is. Once an episode, for the history and whoever is to be
        called: that it does not get any further."""
        now = self._p.clock.monotonic()
        if self._moved is None or progress.moved_to != self._moved[0]:
            self._moved = progress.moved_to, now
        if now - self._told_at < TELL_EVERY_S:
            return
        self._told_at = now
        progress = replace(progress, still_s=now - self._moved[1])
        self._p.store.progress(self.record.id, self.epoch, progress)
        if self._tell is None or self.record.stuck_told:
            return
        at = self._p.clock.now()
        found = stuck(self.record, (progress, at), None, at, self._p.runbook.limits.max_wait_s)
        if found is not None:
            self.record = self._tell(self.record, found)

    def _requested(self) -> Signal | None:
        interrupt = self._p.interrupted()
        if interrupt is not None:
            self.asked = Request(interrupt, self._p.who, self._p.clock.now(), "signal")
        else:
            self.asked = self._p.store.asked(self.record.id)
        if self.asked is None:
            return None
        kind = SignalKind.ABORT if self.asked.ask is Ask.ABORT else SignalKind.PAUSE
        return Signal(kind, f"{self.asked.ask.value} asked for by {self.asked.who}")

    def _judged(self, now: float) -> Signal:
        due = self._p.judge.during(working_class(self._step), *self.besides, stage=self.record.phase)
        return self._holding.answer(due, now, back=self.may_go_back)


class Unheard(Pulse):
    """The beat of what nobody may stop or slow down: clearing up. It only keeps the lease, and tells how far it is."""

    def __call__(self, progress: Progress) -> Signal:
        self._lease.alive()
        self.told(progress)
        self._p.watcher.progress(self.record, self._step, progress, GO)
        return GO
