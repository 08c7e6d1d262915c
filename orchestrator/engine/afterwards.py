"""After the last stage: readers stay on the new column until finish, and while somebody watches, a failure takes them
back as in the ramp.

Watching holds no lease and writes nothing but its progress, so that finish, rollback and verify work beside it. What it
does at last is fenced all the same: it lowers the flags under the epoch of the record that it watched.
"""

from __future__ import annotations

from msgspec.structs import replace

from orchestrator.engine.holding import Holding
from orchestrator.engine.leasing import leased
from orchestrator.engine.parts import Parts
from orchestrator.engine.walk import Engine
from orchestrator.errors import Fenced, Held
from orchestrator.model.facts import MirrorFacts, Need
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Signal, SignalKind
from orchestrator.model.state import GOES_BACK, Record, State
from orchestrator.model.step import StepClass, WatchReaders

# Nobody holds a percent step open here: checks are looked at less often than on a beat.
LOOK_EVERY_S = 5.0


class Afterwards:
    def __init__(self, parts: Parts, engine: Engine) -> None:
        self._p = parts
        self._engine = engine
        self._id = parts.runbook.id
        self._cut_since: float | None = None

    def watch(self) -> str:
        """A sentence why there is nothing to watch any more: finished, readers moved by somebody, or a signal.

        Raises PhaseFailed after readers were taken back, and Held when checks held, or could not be seen, for longer
        than ``max_wait``, or a finish was cut while the mirror went and nobody ended it for so long: nothing was
        changed then. LeaseTaken when somebody acts for longer than a fenced holder may
        take: readers are back then, and that is not recorded.
        """
        while True:
            record = self._p.store.load(self._id)
            if record is None or (over := self._over(record)):
                return over if record is not None else "nothing of this rollout is left"
            if self._looks_away(record):
                self._p.clock.sleep(1.0)
                continue
            try:
                outcome = self._watched(record)
            except Fenced:
                continue  # somebody else acts by now
            if outcome.result is Result.BACK:
                self._goes_back(outcome)
            elif outcome.result is not Result.PAUSED:
                raise Held(
                    f"readers are on the new column, and nobody can say how they fare: {outcome.note}",
                    "checks that can be seen, and pass, within max_wait",
                    "rollout check, then the same command again",
                )

    def _looks_away(self, record: Record) -> bool:
        """Somebody acts, and looks while acting. Or a finish was cut when a part of the mirror was gone on purpose:
        then the old column is behind, and only the same command helps. Raises Held when nobody types it."""
        if self._p.store.holder(self._id) is not None:
            self._cut_since = None
            return True
        mirror = _mirror(self._p) if record.mirror_goes else None
        if not record.mirror_goes or (mirror is not None and mirror.intact):
            self._cut_since = None
            return False
        now = self._p.clock.monotonic()
        self._cut_since = now if self._cut_since is None else self._cut_since
        if now - self._cut_since > self._p.runbook.limits.max_wait_s:
            raise Held(
                f"a finish began to take the mirror away, and nobody ends it; all readers stay: {record.note}",
                "a mirror that stands whole, or a finish that ends",
                "rollout finish",
            )
        return True

    def _watched(self, record: Record) -> Outcome:
        """How the watch ended; on BACK the flags are down. Raises Fenced."""
        step = WatchReaders(seconds=None, gates=self._p.runbook.phases.gates, baselines=record.baselines)
        outcome = self._p.drivers[step.kind].apply(step, _Glance(self._p, record, step))
        if outcome.result is Result.BACK:
            self._p.flags.lower(record.epoch)
        return outcome

    def _over(self, record: Record) -> str:
        if self._p.interrupted() is not None:
            return "readers stay on the new column; nobody watches them any more"
        if record.state is State.FINISHED:
            return "this rollout is finished"
        return "" if record.readers_due else f"readers are not on the new column any more: {record.note}"

    def _goes_back(self, outcome: Outcome) -> None:
        """Raises PhaseFailed; returns when somebody else took readers back, or finished, in the meantime."""
        with leased(self._p, patient=True) as lease:
            fresh = self._p.store.load(self._id)
            if fresh is not None and fresh.readers_due and fresh.state is not State.FINISHED:
                raise self._engine.goes_back(replace(fresh, epoch=lease.epoch, phase=GOES_BACK[-1]), outcome)


class _Glance:
    """Implements ports.Beat without a lease. It ends the watch (PAUSE) as soon as somebody acts."""

    def __init__(self, parts: Parts, record: Record, step: WatchReaders) -> None:
        self._p = parts
        self._record = record
        self._step = step
        self._looked_at = float("-inf")
        self._holding = Holding(parts.runbook.limits.max_wait_s)
        self._signal = GO

    @property
    def epoch(self) -> int:
        return self._record.epoch

    def __call__(self, progress: Progress) -> Signal:
        now = self._p.clock.monotonic()
        if self._p.interrupted() is not None:
            self._signal = Signal(SignalKind.PAUSE, "a signal came")
        elif now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._signal = self._moved() or self._judged(now)
            self._p.store.progress(self._record.id, self.epoch, progress)
        self._p.watcher.progress(self._record, self._step, progress, self._signal)
        return self._signal

    def _moved(self) -> Signal | None:
        fresh = self._p.store.load(self._record.id)
        still = fresh is not None and (fresh.revision, fresh.epoch) == (self._record.revision, self.epoch)
        if still and self._p.store.holder(self._record.id) is None:
            return None
        return Signal(SignalKind.PAUSE, "somebody acts")

    def _judged(self, now: float) -> Signal:
        if self._record.mirror_goes and (mirror := _mirror(self._p)) is not None and not mirror.stands:
            # The checks think that finish took it away; it stood when this watch began, and nobody has acted since.
            return Signal(SignalKind.BACK, "the mirror is gone, and no finish runs")
        return self._holding.answer(self._p.judge.during(StepClass.READS), now, back=True)


def _mirror(parts: Parts) -> MirrorFacts | None:
    """None: it cannot be seen."""
    reading = parts.observer.look(frozenset({Need.MIRROR})).mirror
    return reading.value if reading is not None else None
