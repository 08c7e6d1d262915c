"""What acting brought, what looking for a half-done step brought, and the words spoken on a beat."""

from __future__ import annotations

from enum import Enum

from msgspec import field

from orchestrator.model.value import Value


class Result(Enum):
    """DONE took effect. PAUSED stopped in between, resumable. FAILED did not take effect and waiting mends nothing.
    HELD did not take effect yet, try later. BACK: the application must go back to the old column. UNKNOWN: nobody can
    say."""

    DONE = "done"
    PAUSED = "paused"
    HELD = "held"
    FAILED = "failed"
    BACK = "back"
    UNKNOWN = "unknown"


class Outcome(Value, frozen=True):
    """``note`` is one sentence for the operator; ``figures`` are numbers for history and metrics (base units in the
    names)."""

    result: Result
    note: str = ""
    expected: str = ""
    next: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    evidence: tuple[tuple[str, ...], ...] = ()


class Seen(Enum):
    """What the server shows of a step whose end we did not witness."""

    ABSENT = "absent"
    PARTIAL = "partial"
    PRESENT = "present"
    UNKNOWN = "unknown"


# What is left to an estimate that turns out too low: nobody is told that all is done before it is.
_MOST_OF_AN_ESTIMATE = 0.99


class Progress(Value, frozen=True):
    """How far long work is. ``total`` 0 means that there is no total; ``estimated``: that it is a guess, which grows
    with ``done`` where it was too low. ``rate_per_s`` is that of the last while. ``throttled_s`` is time spent waiting
    on purpose. ``still_s``: for how long ``done`` has not moved; whoever tells the progress fills it in."""

    done: int = 0
    total: int = 0
    unit: str = "rows"
    rate_per_s: float = 0.0
    note: str = ""
    batch_rows: int = 0
    batch_s: float = 0.0
    throttled_s: float = 0.0
    throttled_by: str = ""
    elapsed_s: float = 0.0
    still_s: float = 0.0
    estimated: bool = False

    @property
    def share(self) -> float | None:
        """How much of it is done, 0 to 1; None without a total. Of an estimate never all: only the end shows that."""
        if self.total <= 0:
            return None
        return min(_MOST_OF_AN_ESTIMATE if self.estimated else 1.0, self.done / self.total)

    @property
    def moved_to(self) -> tuple[str, int]:
        """What moves while the work does: past its total nothing is done any more, however time goes on."""
        return self.unit, min(self.done, self.total) if self.total else self.done

    @property
    def eta_s(self) -> float | None:
        """Seconds left at the present rate; None when that cannot be said: an estimate that is reached says nothing."""
        if self.total <= 0 or self.rate_per_s <= 0 or (self.estimated and self.done >= self.total):
            return None
        return max(0.0, (self.total - self.done) / self.rate_per_s)


class SignalKind(Enum):
    GO = "go"
    HOLD = "hold"
    PAUSE = "pause"
    ABORT = "abort"
    STOP = "stop"
    BACK = "back"


class Signal(Value, frozen=True):
    """The answer to a beat. HOLD: wait a little and beat again. PAUSE, ABORT: somebody asked. STOP: a check held for
    too long or refuses. BACK: a check demands the way back.

    ``strain`` of a GO: how much of the limit in ``reason`` is reached (0 to 1). Work on rows slows down from a half on,
    so that what is under way already does not carry it over the limit."""

    kind: SignalKind
    reason: str = ""
    strain: float = 0.0


GO = Signal(SignalKind.GO)


def stopped_by(signal: Signal) -> Outcome:
    """How a step ends that a beat told to stop: paused by people, back or held by checks."""
    match signal.kind:
        case SignalKind.PAUSE | SignalKind.ABORT:
            return Outcome(Result.PAUSED, signal.reason)
        case SignalKind.BACK:
            return Outcome(Result.BACK, signal.reason)
        case SignalKind.GO | SignalKind.HOLD | SignalKind.STOP:
            return Outcome(Result.HELD, signal.reason)


def goes_on(signal: Signal) -> bool:
    """Whether the step is not told to stop; on HOLD it waits and beats again."""
    return signal.kind in (SignalKind.GO, SignalKind.HOLD)
