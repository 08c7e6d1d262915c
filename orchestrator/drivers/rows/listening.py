"""How work on rows listens: a beat after each batch; it waits while a check holds, and remembers for what.

Before a check holds, work slows down: what was written is not applied yet when a replica shows its lag, so that whoever
stops only at the limit comes out beyond it.
"""

from __future__ import annotations

from typing import Protocol

from orchestrator.model.outcome import Outcome, Progress, Result, Signal, SignalKind
from orchestrator.model.rate import RecentRate
from orchestrator.ports import Beat, Clock

_LEAST_WAIT_S = 0.02
_MOST_WAIT_S = 1.0
_GROWTH = 1.5
_BEAT_EVERY_S = 0.5
_WORTH_SAYING = 0.05
_EASY_STRAIN = 0.5


def slowed_s(signal: Signal, batch_s: float) -> float:
    """How long to wait after a batch of ``batch_s`` because of a limit that is near: nothing up to half of it, as long
    as the batch took at three quarters, and ever longer towards the limit."""
    over = signal.strain - _EASY_STRAIN
    if over <= 0:
        return 0.0
    left = 1.0 - signal.strain
    return _MOST_WAIT_S if left <= 0 else min(_MOST_WAIT_S, batch_s * over / left)


class Ear(Protocol):
    """What a pass hears by, and tells how far it is."""

    retries: int

    @property
    def epoch(self) -> int: ...

    @property
    def elapsed_s(self) -> float: ...

    @property
    def throttled(self) -> str: ...

    def began(self, note: str, done: int, total: int) -> None:
        """A pass of that name goes on from ``done`` rows of about ``total``."""
        ...

    def worked(self, rows: int, took_s: float) -> None:
        """A batch was written."""
        ...

    def caught_up(self, rows: int) -> None:
        """The position says that so many rows more are done than we had heard of."""
        ...

    def go_on(self) -> Signal: ...

    def leaves(self) -> bool:
        """Whether somebody else has what is left of the pass now; to be asked between two batches only."""
        ...

    def wait(self, seconds: float, reason: str) -> Signal: ...

    def figures(self) -> dict[str, float]: ...


class Listening:
    """One step's ear. Times are seconds of the tool's monotonic clock since the step began."""

    def __init__(self, beat: Beat, clock: Clock) -> None:
        self._beat = beat
        self._clock = clock
        self._began = clock.monotonic()
        self._waited_s: dict[str, float] = {}
        self._worded: dict[str, str] = {}
        self._rows = 0
        self._rate = RecentRate()
        self.done = 0
        self.total = 0
        self.estimated = True
        self.note = ""
        self.batch_rows = 0
        self.batch_s = 0.0
        self.retries = 0

    @property
    def epoch(self) -> int:
        return self._beat.epoch

    @property
    def elapsed_s(self) -> float:
        return self._clock.monotonic() - self._began

    @property
    def throttled_s(self) -> float:
        return sum(self._waited_s.values())

    @property
    def throttled_by(self) -> str:
        """The cause that cost most of the time, as it was last worded."""
        cause = max(self._waited_s, key=lambda c: self._waited_s[c], default="")
        return self._worded.get(cause, "")

    @property
    def throttled(self) -> str:
        """How much of the time was spent waiting, and for what; "" when it was not worth a word."""
        share = self.throttled_s / self.elapsed_s if self.elapsed_s > 0 else 0.0
        return f"throttled {share * 100:.0f} % of the time: {self.throttled_by}" if share >= _WORTH_SAYING else ""

    def began(self, note: str, done: int, total: int) -> None:
        self.note, self.done, self.total = note, done, total

    def caught_up(self, rows: int) -> None:
        self.done += rows

    def worked(self, rows: int, took_s: float) -> None:
        self._rows += rows
        self.done += rows
        self.batch_rows, self.batch_s = rows, took_s

    def ask(self) -> Signal:
        """One beat."""
        return self._beat(self._progress())

    def go_on(self) -> Signal:
        """Beat; wait while the answer is HOLD. The signal that ended it, which is never HOLD."""
        wait_s = min(_MOST_WAIT_S, max(_LEAST_WAIT_S, self.batch_s))
        while (signal := self.ask()).kind is SignalKind.HOLD:
            self.sleep(wait_s, signal.reason)
            wait_s = min(_MOST_WAIT_S, wait_s * _GROWTH)
        if slow_s := slowed_s(signal, self.batch_s):
            self.sleep(slow_s, signal.reason)
        return signal

    def leaves(self) -> bool:
        return False

    def wait(self, seconds: float, reason: str) -> Signal:
        """Wait ``seconds`` because of ``reason``, beating meanwhile; ends early with the signal that ends the work."""
        until = self._clock.monotonic() + seconds
        while (left_s := until - self._clock.monotonic()) > 0:
            self.sleep(min(left_s, _BEAT_EVERY_S), reason)
            signal = self.go_on()
            if signal.kind is not SignalKind.GO:
                return signal
        return self.go_on()

    def figures(self) -> dict[str, float]:
        spent = {"seconds": round(self.elapsed_s, 3), "throttled_s": round(self.throttled_s, 3)}
        return spent | {"retries": float(self.retries)}

    def sleep(self, seconds: float, reason: str) -> None:
        """Wait, and count that as time in which ``reason`` kept the work waiting."""
        began = self._clock.monotonic()
        self._clock.sleep(seconds)
        self.waited(self._clock.monotonic() - began, reason)

    def waited(self, seconds: float, reason: str) -> None:
        """So long the work stood still because of ``reason``."""
        # The wording of a reason carries its present value; the name of the check before it is what adds up.
        cause = reason.partition(" ")[0]
        self._waited_s[cause] = self._waited_s.get(cause, 0.0) + seconds
        self._worded[cause] = reason

    def _progress(self) -> Progress:
        elapsed_s = self.elapsed_s
        return Progress(
            done=self.done,
            total=max(self.total, self.done),
            rate_per_s=self._rate.per_s(elapsed_s, self._rows),
            note=self.note,
            batch_rows=self.batch_rows,
            batch_s=self.batch_s,
            throttled_s=self.throttled_s,
            throttled_by=self.throttled_by,
            elapsed_s=elapsed_s,
            estimated=self.estimated,
        )


def stopped(signal: Signal, kept: str, figures: dict[str, float]) -> Outcome:
    """What a signal other than GO makes of the step; ``kept`` says what a later call goes on from."""
    result = {
        SignalKind.PAUSE: Result.PAUSED,
        SignalKind.ABORT: Result.PAUSED,
        SignalKind.STOP: Result.HELD,
        SignalKind.BACK: Result.BACK,
    }[signal.kind]
    return Outcome(result, f"{signal.reason}; {kept}" if signal.reason else kept, figures=figures)
