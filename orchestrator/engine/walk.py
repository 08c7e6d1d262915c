"""The heart: look, plan, gate, intend, act, record; step by step, and callable again at any moment.

Nothing here knows MySQL, a terminal or a clock of its own: all that comes in through ``Parts``.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.effects import added, adds, failed, intended, settled
from orchestrator.engine.gate import wait_for_checks
from orchestrator.engine.loss import hanging_before, loss_before, was_accepted
from orchestrator.engine.parts import Parts
from orchestrator.engine.pulse import Pulse, Unheard
from orchestrator.errors import AnotherServer, CannotSay, Fenced, Held, PhaseFailed, RolloutError, ServerUnreachable
from orchestrator.model.advice import again
from orchestrator.model.facts import Need
from orchestrator.model.outcome import Outcome, Result, Seen
from orchestrator.model.state import GOES_BACK, REPAIR, Ask, Event, EventKind, Record, Request, move
from orchestrator.model.step import (
    Compare,
    Step,
    step_key,
)
from orchestrator.model.stuck import Stuck, StuckBy, stuck
from orchestrator.model.way_back import remaining
from orchestrator.ports import Lease, Phase


class Ended(Struct, frozen=True):
    """How one command on one phase ended well: its record, and one sentence."""

    record: Record
    note: str


class Paused(Exception):
    """Somebody asked for a pause and has it. Not an error: the command ends with 0."""

    def __init__(self, record: Record, note: str) -> None:
        super().__init__(note)
        self.record = record
        self.note = note


class Engine:
    """Runs one phase to its end, under a lease that the caller holds."""

    def __init__(self, parts: Parts) -> None:
        self._p = parts

    def walk(self, record: Record, lease: Lease, phase: Phase) -> Ended:
        """Do every step of ``phase`` that is missing. ``record`` is RUNNING in that phase, its epoch the lease's.

        Raises Held (75), PhaseFailed (76), CannotSay (80), Fenced. Whatever is raised was recorded before, if it
        could be.
        """
        record = self._recovered(record, lease, phase)
        last: str | None = None
        while True:
            lease.alive()
            facts = self._p.observer.look(phase.needs)
            steps = phase.steps(self._p.runbook, facts, record)
            if not steps:
                return self._completed(record, phase)
            step = steps[0]
            if step_key(step) == last:
                raise self._fails(record, Outcome(Result.FAILED, f"{last} was done, and the server does not show it"))
            record = self._step(record, lease, step)
            last = step_key(step)

    def goes_back(self, record: Record, outcome: Outcome) -> PhaseFailed:
        """Readers to 0 % and new writes closed at once, then the record: rolled back by itself. The mirror stays."""
        began = self._p.clock.monotonic()
        self._p.flags.lower(record.epoch)
        took_s = self._p.clock.monotonic() - began
        note = f"readers are on the old column (0 %), {took_s:.1f} s after the failing sample: {outcome.note}"
        done = tuple(p for p in record.done if p not in GOES_BACK)
        changed = replace(record, done=done, done_steps=(), intent=None)
        self.record(changed, EventKind.WENT_BACK, note, outcome=outcome)
        return PhaseFailed(
            f"{record.phase} rolled back by itself: {note}",
            outcome.expected or "every gate and check passes for the whole hold time",
            f"mend what failed, then: rollout next --phase {GOES_BACK[0]}",
        )

    def record(
        self,
        record: Record,
        kind: EventKind,
        note: str = "",
        *,
        step: str = "",
        outcome: Outcome | None = None,
        reason: str = "",
    ) -> Record:
        """Move by the table of edges, save, and tell the listeners. Raises Fenced and CannotSay."""
        event = Event(
            kind=kind,
            at=self._p.clock.now(),
            who=self._p.who,
            phase=record.phase,
            note=note,
            step=step,
            reason=reason or self._p.reason,
            figures=outcome.figures if outcome else {},
            evidence=outcome.evidence if outcome else (),
            revision=record.revision + 1,
        )
        moved = move(record, event)
        event = replace(event, state=moved.state.value)
        saved = self._p.store.save(moved, event)
        for listener in self._p.listeners:
            listener.event(saved, event)
        return saved

    def _recovered(self, record: Record, lease: Lease, phase: Phase) -> Record:
        """Settle the intent of a process that died: ask the server, and believe only what it shows."""
        step = record.intent
        if step is None:
            return record
        driver = self._p.drivers[step.kind]
        seen = driver.observe(step, Pulse(self._p, lease, record, step))
        match seen:
            case Seen.PRESENT:
                return self._settled(record, step, Outcome(Result.DONE, "found done after an interruption"))
            case Seen.UNKNOWN:
                raise self._cannot_say(
                    record, Outcome(Result.UNKNOWN, f"nobody can say what became of {step_key(step)}")
                )
            case Seen.ABSENT | Seen.PARTIAL:
                offered = {
                    step_key(s) for s in phase.steps(self._p.runbook, self._p.observer.look(phase.needs), record)
                }
                if step_key(step) not in offered:
                    record, _ = self.cleared(record, step, lease)
                return replace(record, intent=None)

    def cleared(self, record: Record, step: Step, lease: Lease) -> tuple[Record, str]:
        """The half step is cleared, and what became of it. What of it took effect and stays is ours to take away."""
        driver, beat = self._p.drivers[step.kind], Unheard(self._p, lease, record, step)
        note = driver.abandon(step, beat).note
        if adds(step) and driver.observe(step, beat) in (Seen.PRESENT, Seen.PARTIAL):
            record = added(record, step)
        return record, note

    def _step(self, record: Record, lease: Lease, step: Step) -> Record:
        pulse = Pulse(self._p, lease, record, step, self._stuck)
        outcome = self._gate(pulse, step)
        if outcome is None:
            pulse.record = self.record(intended(pulse.record, step), EventKind.INTENDED, step=step_key(step))
            outcome = self._applied(step, pulse)
        return self._after(step, outcome, pulse, lease)

    def _applied(self, step: Step, pulse: Pulse) -> Outcome:
        """The driver's outcome; what it raises instead is recorded, unless nothing can be recorded any more.

        A ramp is never left open by a command that ends: the flags go down first.
        """
        try:
            return self._p.drivers[step.kind].apply(step, pulse)
        except (Fenced, ServerUnreachable, CannotSay):
            raise
        except RolloutError as error:
            if isinstance(error, AnotherServer) and pulse.may_go_back:
                # A failover: readers may not stay where nobody watches them.
                return Outcome(Result.BACK, error.seen, error.expected)
            if pulse.record.phase == "read-switch":
                self._p.flags.lower(pulse.record.epoch)
            if isinstance(error, Held):
                return Outcome(Result.HELD, error.seen, error.expected, error.next)
            self.record(replace(pulse.record, intent=None), EventKind.FAILED, error.seen, step=step_key(step))
            raise

    def _gate(self, pulse: Pulse, step: Step) -> Outcome | None:
        """What keeps the step from beginning; None when nothing does. A refusal that waiting does not mend is recorded
        and raised."""
        try:
            held = wait_for_checks(self._p.judge, self._p.clock, self._p.watcher, pulse, step)
            seen_by = self._p.observer
            held = held or hanging_before(step, self._p.runbook, pulse.record, seen_by)
            return held or loss_before(step, pulse, seen_by)
        except (Fenced, ServerUnreachable, CannotSay):
            raise
        except Held as held:
            return Outcome(Result.HELD, held.seen, held.expected, held.next)
        except RolloutError as refusal:
            self.record(pulse.record, EventKind.FAILED, refusal.seen, step=step_key(step))
            raise

    def _after(self, step: Step, outcome: Outcome, pulse: Pulse, lease: Lease) -> Record:
        record = pulse.record
        match outcome.result:
            case Result.DONE:
                return self._settled(record, step, self._metered(step, outcome, pulse))
            case Result.PAUSED:
                raise self._stopped(step, pulse, lease)
            case Result.HELD:
                raise self._held(replace(record, intent=None), step, outcome)
            case Result.UNKNOWN:
                raise self._cannot_say(record, outcome)
            case Result.BACK | Result.FAILED if record.phase in GOES_BACK and step.kind != "measure-baselines":
                raise self.goes_back(record, outcome)
            case Result.BACK | Result.FAILED:
                if step.kind == "compare" and record.phase in ("rollback", "finish") and was_accepted(record, outcome):
                    return self._settled(record, step, self._metered(step, outcome, pulse))
                raise self._fails(failed(record, step), outcome)

    def _settled(self, record: Record, step: Step, outcome: Outcome) -> Record:
        changed = settled(record, step, outcome)
        return self.record(changed, EventKind.STEP_DONE, outcome.note, step=step_key(step), outcome=outcome)

    def _metered(self, step: Step, outcome: Outcome, pulse: Pulse) -> Outcome:
        """A comparison while both are written also says what going back would lose, for ``status``. Whoever asks for a
        pause meanwhile gets it before the next step, without that figure. Raises PhaseFailed: readers went back."""
        if not (isinstance(step, Compare) and step.relation == "corresponds"):
            return outcome
        reading = self._p.observer.look(frozenset({Need.METER}), pulse.scans_on).meter
        if pulse.stopped is not None and pulse.stopped.result is Result.BACK:
            raise self.goes_back(pulse.record, pulse.stopped)
        if reading is None or reading.value is None:
            return outcome
        return replace(outcome, figures=outcome.figures | {"meter_rows": float(reading.value.rows)})

    def _completed(self, record: Record, phase: Phase) -> Ended:
        name = phase.name
        if name == "rollback":
            done = remaining(record, self._p.runbook.phases.rollback_ddl)
            record = replace(record, done=done, done_steps=(), accepted=(), target="")
            saved = self.record(record, EventKind.ROLLED_BACK, _rollback_note(record))
            return Ended(saved, saved.note)
        if name == "finish":
            saved = self.record(
                replace(record, done_steps=()), EventKind.FINISHED, "the mirror is gone, the rollout is closed"
            )
            return Ended(saved, saved.note)
        steps, done = len(record.done_steps), (*record.done, *(() if name == REPAIR else (name,)))
        note = f"{steps} steps, the last: {record.note}" if steps > 1 else record.note
        record = replace(record, done=done, done_steps=(), on_conflict="")
        saved = self.record(record, EventKind.PHASE_DONE, note)
        return Ended(saved, saved.note)

    def _stopped(self, step: Step, pulse: Pulse, lease: Lease) -> Exception:
        """A pause or an abort arrived: the pause keeps the half step, the abort clears it; both are answered once."""
        record = pulse.record
        ask = pulse.asked or Request(Ask.PAUSE, self._p.who, self._p.clock.now())
        self._p.store.answered(record.id, ask)
        if ask.ask is Ask.ABORT:
            if record.phase in GOES_BACK:
                self._p.flags.lower(record.epoch)
            record, note = self.cleared(record, step, lease)
            left = tuple(p for p in record.done if record.phase not in GOES_BACK or p not in GOES_BACK)
            cancelled = replace(record, intent=None, done=left)
            self.record(cancelled, EventKind.ABORTED, f"aborted by {ask.who}: {note}", reason=ask.reason)
            return PhaseFailed(
                f"{record.phase} was aborted by {ask.who} in {step_key(step)}; {note or 'nothing is left'}",
                "a phase that runs to its end",
                again(record),
            )
        saved = self.record(replace(record, intent=None), EventKind.PAUSED, f"paused by {ask.who}", reason=ask.reason)
        return Paused(saved, f"{record.phase} is paused by {ask.who} in {step_key(step)}; progress is kept")

    def _held(self, record: Record, step: Step, outcome: Outcome) -> Held:
        at = self._p.clock.now()
        held = self.record(record, EventKind.HELD, outcome.note, step=step_key(step), outcome=outcome)
        found = stuck(held, None, None, at, self._p.runbook.limits.max_wait_s)
        if found is not None and not held.stuck_told:
            self._stuck(held, found)
        return Held(
            f"{record.phase} held before {step_key(step)}: {outcome.note}",
            outcome.expected or "every check passes within max_wait",
            outcome.next or f"rollout check, then the same command again: {again(record)}",
        )

    def _stuck(self, record: Record, found: Stuck) -> Record:
        note = f"{found}: {record.note}" if found.by is StuckBy.HELD else str(found)
        return self.record(record, EventKind.STUCK, note, step=step_key(record.intent) if record.intent else "")

    def _fails(self, record: Record, outcome: Outcome) -> PhaseFailed:
        self.record(replace(record, intent=None), EventKind.FAILED, outcome.note, outcome=outcome)
        return PhaseFailed(
            f"{record.phase} stopped, paused where it was: {outcome.note}",
            outcome.expected or "a step that takes effect",
            outcome.next or f"mend it, then: {again(record)}",
        )

    def _cannot_say(self, record: Record, outcome: Outcome) -> CannotSay:
        self.record(record, EventKind.NEEDS_HUMAN, outcome.note, outcome=outcome)
        return CannotSay(
            f"{record.phase}: {outcome.note}",
            "a server that shows whether the step took effect",
            outcome.next
            or f"look at the table and its sessions, then: {again(record)} (it asks the server again first)",
        )


def _rollback_note(record: Record) -> str:
    kept = ", ".join(record.done)
    return f"the old application is served with every write that the new one made; still done: {kept or 'nothing'}"
