"""What a beat answers to checks that do not pass, and for how long they may hold without a break."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.outcome import GO, Signal, SignalKind
from orchestrator.model.verdict import Judgement, Verdict


class Holding:
    """Remembers since when checks hold; after ``max_wait_s`` of that the answer is to stop."""

    def __init__(self, max_wait_s: float) -> None:
        self._max_wait_s = max_wait_s
        self._since: float | None = None

    def answer(self, verdicts: Sequence[Verdict], now: float, *, back: bool) -> Signal:
        """``back``: readers may be on the new column, and some take them back. A GO says how near a limit is."""
        bad = [v for v in verdicts if not v.good]
        if not bad:
            self._since = None
            tightest = max(verdicts, key=lambda v: v.strain, default=None)
            return Signal(SignalKind.GO, tightest.reason, tightest.strain) if tightest and tightest.strain else GO
        reason = "; ".join(v.reason for v in bad)
        if back and any(v.goes_back and v.judgement in (Judgement.HOLD, Judgement.REFUSE) for v in bad):
            return Signal(SignalKind.BACK, reason)
        if any(v.judgement is Judgement.REFUSE for v in bad):
            return Signal(SignalKind.STOP, reason)
        self._since = now if self._since is None else self._since
        if now - self._since > self._max_wait_s:
            return Signal(SignalKind.STOP, f"held for {now - self._since:.0f} s: {reason}")
        return Signal(SignalKind.HOLD, reason)
