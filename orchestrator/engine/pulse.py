"""The beat: the one moment inside long work when it listens to its lease, to people, and to the checks."""

from __future__ import annotations

from orchestrator.engine.parts import Parts
from orchestrator.model.outcome import GO, Progress, Signal, SignalKind
from orchestrator.model.state import Ask, Record, Request
from orchestrator.model.step import Step, working_class
from orchestrator.model.verdict import Judgement
from orchestrator.ports import Lease

GOES_BACK = ("read-switch", "verify")
LOOK_EVERY_S = 0.5
TELL_EVERY_S = 1.0


class Pulse:
    """Implements ports.Beat for one step. Looks and listens at most every half second, however often it is called."""

    def __init__(self, parts: Parts, lease: Lease, record: Record, step: Step) -> None:
        self._p = parts
        self._lease = lease
        self._step = step
        self._looked_at = float("-inf")
        self._told_at = float("-inf")
        self._holding_since: float | None = None
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

    def __call__(self, progress: Progress) -> Signal:
        now = self._p.clock.monotonic()
        self._lease.alive()
        if now - self._looked_at >= LOOK_EVERY_S or self._p.interrupted() is not None:
            self._looked_at = now
            self._signal = self._requested() or self._judged(now)
        if now - self._told_at >= TELL_EVERY_S:
            self._told_at = now
            self._p.store.progress(self.record.id, self.epoch, progress)
        self._p.watcher.progress(self.record, self._step, progress, self._signal)
        return self._signal

    def requested(self) -> Signal | None:
        """Only the people's part of a beat, for waits that judge by themselves."""
        self._lease.alive()
        return self._requested()

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
        verdicts = self._p.judge.during(working_class(self._step))
        bad = [v for v in verdicts if not v.good]
        if not bad:
            self._holding_since = None
            tightest = max(verdicts, key=lambda v: v.strain, default=None)
            return Signal(SignalKind.GO, tightest.reason, tightest.strain) if tightest and tightest.strain else GO
        reason = "; ".join(v.reason for v in bad)
        if self.may_go_back and any(v.goes_back and v.judgement in (Judgement.HOLD, Judgement.REFUSE) for v in bad):
            return Signal(SignalKind.BACK, reason)
        if any(v.judgement is Judgement.REFUSE for v in bad):
            return Signal(SignalKind.STOP, reason)
        if self._holding_since is None:
            self._holding_since = now
        if now - self._holding_since > self._p.runbook.limits.max_wait_s:
            return Signal(SignalKind.STOP, f"held for {now - self._holding_since:.0f} s: {reason}")
        return Signal(SignalKind.HOLD, reason)
