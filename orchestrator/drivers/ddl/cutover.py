"""The swap of a copy with the live table, which is ours to give: one attempt at a time, in a quiet moment, taken back
when it would keep the application waiting longer than the stall budget.

The tool's own attempt waits whole seconds for its lock with every statement of the application behind it. So we look
first (a known holder costs nothing), and watch the attempt: while its lock is still PENDING it is killed, the tool
falls back to its postponed state, and we try again after a pause that grows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from orchestrator.model.facts import Shape
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Signal, SignalKind, goes_on
from orchestrator.model.shape_digest import shape_digest
from orchestrator.mysql import copied
from orchestrator.mysql.locks import blindness
from orchestrator.mysql.quiet import Quiet, ReplicaLook, Terms, stopping
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.ports import Beat, CopyRun

# Asked for at this share of the budget, so that the look, the KILL and the wake-up fit into the rest.
_ASK_AT = 0.6
_LOOK_EVERY_S = 0.01
_BEAT_EVERY_S = 0.25
# From the word to the end of a good attempt gh-ost needs one to four seconds.
_BEGINS_WITHIN_S = 30.0
_ATTEMPT_WITHIN_S = 60.0
_ENDS_WITHIN_S = 15.0


@dataclass(frozen=True, slots=True)
class _Watching:
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
        note = f"all rows are copied, the cut-over is ours to give: {progress.note}"
        signal = self.beat(replace(progress, done=rows, total=rows, unit="rows", note=note))
        self.run.wait(signal.kind is SignalKind.HOLD)
        return signal


class CutOver:
    """All attempts of one run; they share the bound of ``cut_over_tries`` and that of ``max_wait``."""

    def __init__(self, site: Site, run: CopyRun, session: Session, shape: Shape, replicas: ReplicaLook | None) -> None:
        self._site = site
        self._run = run
        self._session = session
        self._shape = shape
        self._tries = 0
        self._taken_back = 0
        self._longest_pending_s = 0.0
        self._jitter: Callable[[], float] = random.random
        limits = site.runbook.limits
        terms = Terms(limits.max_wait_s, window=site.runbook.phases.window)
        self._quiet = Quiet(session, (shape.table,), replicas, site.clock, terms)
        self._began = False
        self._clear_at = 0.0

    def figures(self) -> dict[str, float]:
        return {
            "cut_over_tries": float(self._tries),
            "cut_over_taken_back": float(self._taken_back),
            "longest_pending_s": round(self._longest_pending_s, 3),
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
        return self._attempt(beat)

    def _changed(self) -> bool:
        live = read_shape(self._session, self._shape.table)
        return live is None or shape_digest(live) != shape_digest(self._shape)

    def _attempt(self, beat: Beat) -> Outcome | None:
        before, self._clear_at = self._run.attempts(), self._site.clock.monotonic()
        if not self._run.cut_over():
            self._site.clock.sleep(_BEAT_EVERY_S)
            return None
        self._tries += 1
        signal = self._watch(before, beat)
        if not goes_on(signal):
            return replace(stopping(signal), figures=self.figures())
        if self._run.ended() or self._swapped():
            self._await_end()
            return None
        if self._tries >= self._site.runbook.phases.gh_ost.cut_over_tries:
            behind = f"; last in its way: {self._quiet.last_blocker}" if self._quiet.last_blocker else ""
            return self._held(f"the cut-over was tried {self._tries} times and got no lock{behind}")
        self._quiet.back_off(0.0, self._jitter())
        return None

    def _watch(self, before: int, beat: Beat) -> Signal:
        """Until the attempt is over, or a beat asks for the end. A session that waits too long is taken back."""
        clock, signal = self._site.clock, GO
        began, beat_at = clock.monotonic(), float("-inf")
        left_ready = False
        while not (self._run.ended() or self._run.trouble()):
            now = clock.monotonic()
            begun, so_far_s = self._run.attempts() > before, now - began
            if so_far_s > (_ATTEMPT_WITHIN_S if begun else _BEGINS_WITHIN_S):
                return Signal(SignalKind.STOP, f"the word for the cut-over brought no end in {so_far_s:.0f} s")
            pending = self._take_back(now)
            status = self._run.status()
            if begun and status is not None:
                # What it told last may be older than the attempt: it must have been seen at work first.
                left_ready = left_ready or not status.ready
                if left_ready and status.ready and not pending:
                    break
            if now - beat_at >= _BEAT_EVERY_S:
                beat_at = now
                signal = beat(Progress(unit="", note=f"cut-over, try {self._tries}", elapsed_s=so_far_s))
                if not goes_on(signal):
                    break
            clock.sleep(_LOOK_EVERY_S)
        return signal

    def _take_back(self, now: float) -> bool:
        """Whether the tool waits for its lock now. Where it has waited for too long, its statement is ended."""
        waiting = copied.waiting_for(self._session, self._shape.table)
        if waiting is None:
            self._clear_at = now
            return False
        pending_s = now - self._clear_at
        self._longest_pending_s = max(self._longest_pending_s, pending_s)
        if pending_s >= self._site.runbook.limits.stall_budget_s * _ASK_AT:
            copied.kill_query(self._session, waiting)
            self._taken_back += 1
        return True

    def _swapped(self) -> bool:
        """Whether the table is another one now; its tool may still be clearing up, or hang."""
        return self._changed()

    def _await_end(self) -> None:
        """A tool whose work is done gets some seconds to go; the caller ends it when it does not."""
        until = self._site.clock.monotonic() + _ENDS_WITHIN_S
        while self._run.ended() is None and self._site.clock.monotonic() < until:
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
