"""The swap of a copy with the live table, which is ours to give: one attempt at a time, in a quiet moment, taken back
when it would keep the application waiting longer than the stall budget.

The tool's own attempt waits whole seconds for its lock with every statement of the application behind it, and when it
has the lock it may sleep for a second before it goes on. So its attempt is held back by a stand-in until nobody holds
the table and the tool is awake, or about to wake; then it is watched (``stall``). One that takes too long is ended, the
tool falls back to its postponed state, and we try again after a pause that grows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack, closing

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.drivers.ddl.marked import Copying
from orchestrator.drivers.ddl.moment import FAR_S, Moment
from orchestrator.drivers.ddl.stall import Stall
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Signal, SignalKind, goes_on
from orchestrator.model.shape_digest import shape_digest
from orchestrator.mysql import copied
from orchestrator.mysql.locks import blindness
from orchestrator.mysql.quiet import Quiet, ReplicaLook, Terms, stopping
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.mysql.stand_in import StandIn
from orchestrator.ports import Beat, CopyRun

_LOOK_EVERY_S = 0.01
_BEAT_EVERY_S = 0.25
# So near to its moment nothing else is done any more, and a beat comes late: it may take longer than what is left.
_NEAR_S = 0.25
_AWAY_S = 0.5
# A server ends a session that idles (ours after 20 s), with its lock too: the tool must have come and gone before.
_STANDS_S = 6.0
_LATE_BEAT_S = 1.5
# From the word to the end of a good attempt gh-ost needs one to four seconds.
_BEGINS_WITHIN_S = 12.0
# A beat may take seconds (a replica that gives no answer): it comes late while the tool may lock the table any moment.
_LOCKS_WITHIN_S = 2.0
_ATTEMPT_WITHIN_S = 60.0
_ENDS_WITHIN_S = 15.0


class _Watching(Struct, frozen=True):
    """A beat under which the run is watched, too, while we wait for a quiet moment."""

    run: CopyRun
    beat: Beat

    @property
    def epoch(self) -> int:
        return self.beat.epoch

    def __call__(self, progress: Progress) -> Signal:
        if self.run.ended() or self.run.trouble():
            return Signal(SignalKind.STOP, "the run has ended")
        status = self.run.status()
        rows = status.copied_rows if status is not None else 0
        held = f" ({status.waits_for} holds it back)" if status is not None and status.waits_for else ""
        note = f"all rows are copied, the cut-over is ours to give{held}: {progress.note}"
        signal = self.beat(replace(progress, done=rows, total=rows, unit="rows", note=note))
        self.run.wait(signal.kind is SignalKind.HOLD)
        return signal


class CutOver:
    """All attempts of one run; they share the bound of ``cut_over_tries`` and that of ``max_wait``."""

    def __init__(self, site: Site, run: CopyRun, copying: Copying, replicas: ReplicaLook | None) -> None:
        self._site = site
        self._run = run
        self._copying = copying
        self._session = copying.session
        self._shape = copying.shape
        self._tries = 0
        self._taken_back = 0
        self._longest_pending_s = self._longest_stall_s = 0.0
        self._locks_in_s = 0.0
        self._jitter: Callable[[], float] = random.random
        limits = site.runbook.limits
        terms = Terms(limits.max_wait_s, window=site.runbook.phases.window)
        self._quiet = Quiet(copying.session, (copying.shape.table,), replicas, site.clock, terms)
        self._began = False
        self._attempts_before, self._left_ready = 0, False

    def figures(self) -> dict[str, float]:
        """``longest_stall_s``: the longest that one attempt kept the users of the table waiting, from the last look
        that saw nobody wait; ``longest_pending_s``: the same while it had no lock."""
        return {
            "cut_over_tries": float(self._tries),
            "cut_over_taken_back": float(self._taken_back),
            "longest_pending_s": round(self._longest_pending_s, 3),
            "longest_stall_s": round(self._longest_stall_s, 3),
        }

    def give(self, beat: Beat) -> Outcome | None:
        """One attempt when the moment is right. None: look at the run again. Else why it must be ended. Raises
        ServerError."""
        if why := blindness(self._session):
            return self._held(f"metadata locks cannot be seen: {why}")
        if not self._began:
            # The copying before was no waiting.
            self._began = True
            self._quiet.restart()
        stopped = self._quiet.await_it(_Watching(self._run, beat))
        if self._run.ended() or self._run.trouble():
            return None
        if stopped is not None:
            return replace(stopped, figures=self.figures())
        if self._changed():
            return Outcome(
                Result.FAILED,
                f"{self._shape.table} was changed by somebody while its copy was filled; the copy lacks that change",
                "a table whose shape nobody else changes",
                "let them finish, then the same command again",
                figures=self.figures(),
            )
        with ExitStack() as stack:
            swap, brake, fence = (
                stack.enter_context(closing(self._site.connect(role))) for role in ("swap", "brake", "fence")
            )
            stand_in = StandIn(swap, self._copying.old, self._copying.names.sentry)
            return self._attempt(stand_in, brake, fence, beat)

    def _changed(self) -> bool:
        live = read_shape(self._session, self._shape.table)
        return live is None or shape_digest(live) != shape_digest(self._shape)

    def _attempt(self, stand_in: StandIn, brake: Session, fence: Session, beat: Beat) -> Outcome | None:
        clock = self._site.clock
        self._attempts_before, self._left_ready, began = self._run.attempts(), False, clock.monotonic()
        if not stand_in.hold():
            old = self._copying.old
            return Outcome(
                Result.FAILED,
                f"{old} came while the copy was filled",
                f"no table {old}",
                f"ask whose {old} is, then the same command again",
                figures=self.figures(),
            )
        self._locks_in_s = self._locks_in_s or clock.monotonic() - began
        moment = Moment(clock, self._run, self._copying, brake, self._locks_in_s)
        if not self._run.cut_over():
            clock.sleep(_BEAT_EVERY_S)
            return None
        signal, came = self._hold_back(stand_in, moment, beat)
        stall = Stall(self._site, self._copying, fence)
        stand_in.let_go()
        self._tries += came
        if goes_on(signal):
            signal = self._accompany(stall, moment, beat)
        if not goes_on(signal):
            return replace(stopping(signal), figures=self.figures())
        if self._run.ended() or self._swapped():
            self._await_end(beat)
            return None
        self._taken_back += stall.taken_back
        if self._tries >= self._site.runbook.phases.gh_ost.cut_over_tries:
            behind = f"; last in its way: {self._quiet.last_blocker}" if self._quiet.last_blocker else ""
            return self._held(f"the cut-over was tried {self._tries} times and taken back each time{behind}")
        # What an attempt takes is no waiting for others, but for one that met nobody's table.
        self._quiet.back_off(clock.monotonic() - began if came else 0.0, self._jitter())
        return None

    def _hold_back(self, stand_in: StandIn, moment: Moment, beat: Beat) -> tuple[Signal, bool]:
        """Until the tool stands before the stand-in, nobody holds the table and the tool is about to wake: whether that
        moment came. An attempt that it did not come for has cost nobody anything. Not GO: a beat asks for the end."""
        clock, signal, stood_at = self._site.clock, GO, 0.0
        began, beat_at = clock.monotonic(), float("-inf")
        until = began + _BEGINS_WITHIN_S
        while not self._is_over() and clock.monotonic() < until:
            waiting = stand_in.stands_before(self._session)
            if waiting is None and copied.swapping(self._session, self._shape.table):
                return signal, True
            now = clock.monotonic()
            if waiting is not None and not stood_at:
                stood_at, until = now, now + _STANDS_S
            left_s = moment.left_s(now - stood_at) if stood_at else FAR_S
            if waiting is not None and signal.kind is SignalKind.GO and left_s < _NEAR_S:
                clock.sleep(max(left_s, 0.0))
                if self._quiet.still():
                    return signal, True
            now = clock.monotonic()
            if now - beat_at >= (_BEAT_EVERY_S if waiting is None or left_s > _AWAY_S else _LATE_BEAT_S):
                beat_at = now
                note = f"cut-over, try {self._tries + 1}: waits for its moment"
                signal = beat(Progress(unit="", note=note, elapsed_s=now - began))
                if not goes_on(signal):
                    break
            clock.sleep(_LOOK_EVERY_S)
        moment.let_go()
        if (waiting := stand_in.stands_before(self._session)) is not None:
            copied.kill_query(self._session, waiting)
        return signal, False

    def _accompany(self, stall: Stall, moment: Moment, beat: Beat) -> Signal:
        """Until the attempt is over, or has to be ended; nothing of it can take effect afterwards that should not."""
        try:
            return self._watch(stall, moment, beat)
        finally:
            self._longest_stall_s = max(self._longest_stall_s, stall.longest_s)
            self._longest_pending_s = max(self._longest_pending_s, stall.longest_pending_s)
            if stall.fenced:
                if not self._is_back():
                    self._run.end()
                stall.open()

    def _is_over(self) -> bool:
        """Whether the attempt has ended, with the run or without."""
        return bool(self._run.ended() or self._run.trouble()) or self._is_back()

    def _is_back(self) -> bool:
        """Whether the tool waits for our word again. What it told last may be older than the attempt: it must have been
        seen at work first."""
        status = self._run.status()
        if status is None or self._run.attempts() <= self._attempts_before:
            return False
        self._left_ready = self._left_ready or not status.ready
        return self._left_ready and status.ready

    def _watch(self, stall: Stall, moment: Moment, beat: Beat) -> Signal:
        """Until the attempt is over, or a beat asks for the end."""
        clock, signal = self._site.clock, GO
        began = beat_at = clock.monotonic()
        locked = False
        while True:
            swap, now = stall.look(), clock.monotonic()
            if swap and not locked:
                locked, self._locks_in_s = True, now - began
            if stall.taken_back:
                moment.let_go()
            moment.release(swap, now - began)
            if swap is None and self._is_over():
                return signal
            if stall.breached():
                return Signal(SignalKind.STOP, f"somebody ended our session that guards {self._copying.names.new}")
            if now - began > _ATTEMPT_WITHIN_S:
                return Signal(SignalKind.STOP, f"the word for the cut-over brought no end in {now - began:.0f} s")
            if swap is not None:
                beat_at = now
            # Also behind a fence: a rename that comes late must be seen at once.
            patient_s = _BEAT_EVERY_S if locked and not stall.fenced else _LOCKS_WITHIN_S
            if now - beat_at >= patient_s:
                beat_at = now
                signal = beat(Progress(unit="", note=f"cut-over, try {self._tries}", elapsed_s=now - began))
                if not goes_on(signal):
                    return signal
            clock.sleep(_LOOK_EVERY_S)

    def _swapped(self) -> bool:
        """Whether the copy is the table now; its tool may still be clearing up, or hang."""
        return copied.swapped(copied.read_left(self._session, self._shape.table, self._copying.names))

    def _await_end(self, beat: Beat) -> None:
        """A tool whose work is done gets some seconds to go, whatever a beat answers; then it is ended."""
        until = self._site.clock.monotonic() + _ENDS_WITHIN_S
        while self._run.ended() is None and self._site.clock.monotonic() < until:
            beat(Progress(unit="", note="the table is swapped, its tool clears up"))
            self._site.clock.sleep(0.05)
        if self._run.ended() is None:
            self._run.end()

    def _held(self, seen: str) -> Outcome:
        return Outcome(
            Result.HELD,
            f"{seen}; the table is as it was",
            "a moment in which nobody holds the table",
            "try in a quieter hour, or look who holds it (rollout check); then the same command again",
            figures=self.figures(),
        )
