"""What an operator can ask for: next, rollback, finish, pause, resume, abort, purge. Each may be called again at any
moment."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.engine.afterwards import Afterwards
from orchestrator.engine.entry import Entry, resumed
from orchestrator.engine.judging import refusal
from orchestrator.engine.leasing import FENCED_HOLDER_GOES_S, begun, leased
from orchestrator.engine.parts import Parts
from orchestrator.engine.walk import Ended, Engine
from orchestrator.errors import Held, UsageError
from orchestrator.model.advice import again
from orchestrator.model.facts import Facts
from orchestrator.model.outcome import Result
from orchestrator.model.state import (
    FORWARD,
    GOES_BACK,
    REMOVED,
    REMOVING,
    ROLLBACK,
    Ask,
    EventKind,
    Record,
    Request,
    State,
)
from orchestrator.model.step import Quiet
from orchestrator.ports import Lease, Phase

_PURGE_QUIET_S = 3.0


class Asked(Struct, frozen=True):
    """What was typed with a command that acts, as the record keeps it. ``goes_on``: a stage before it was of the same
    command."""

    target: str = ""
    accepted: tuple[tuple[str, int], ...] = ()
    on_conflict: Literal["", "new_wins", "old_wins"] = ""
    leap: bool = False
    goes_on: bool = False


class Commands:
    """The verbs that act on one rollout."""

    def __init__(self, parts: Parts) -> None:
        self._p = parts
        self._engine = Engine(parts)
        self._entry = Entry(parts, self._engine)
        self._id = parts.runbook.id

    def next(
        self,
        phase: str | None,
        on_conflict: Literal["", "new_wins", "old_wins"] = "",
        *,
        leap: bool = False,
        goes_on: bool = False,
    ) -> Ended | str:
        """Run the next forward phase, or say in a sentence why there is nothing to do. ``leap``: read-switch goes to
        its last percent at once. ``goes_on``: it is not the first one of this command; a pause that was asked for when
        the one before ended is answered by this one.

        Raises UsageError when ``phase`` is not the next; the refusals of the phase before anything is written.
        """
        planner = self.ready(phase, on_conflict=on_conflict)
        if isinstance(planner, str):
            return planner
        record = self._entry.present()
        self._entry.admit(record, planner)
        if leap and planner.name != "read-switch":
            raise UsageError(f"--to 100, and the next stage is {planner.name}", "read-switch", "leave it out")
        return self._run(planner, record, Asked(on_conflict=on_conflict, leap=leap, goes_on=goes_on))

    def ready(self, phase: str | None, until: str | None = None, on_conflict: str = "") -> Phase | str:
        """The stage that ``next`` would do, or a sentence why there is nothing to do. Reads only; raises UsageError.

        ``phase`` must be the next one; with ``until`` there is nothing to do once that one is done. ``on_conflict``
        decides rows for shadow-write after new columns were written, and nothing else.
        """
        record = self._entry.to_act()
        if record.state is State.FINISHED:
            return "this rollout is finished"
        if until is not None and until in record.done:
            return f"{until} is already done"
        wanted = record.next_phase
        if phase is not None and phase in record.done:
            return f"{phase} is already done"
        if wanted is None:
            return "nothing is left to do; when the old application is gone: rollout finish"
        if phase is not None and phase != wanted:
            raise UsageError(
                f"{phase} is not the next stage: {wanted} is not done",
                f"the stages in their order: {', '.join(FORWARD)}",
                f"rollout next --phase {wanted}",
            )
        if on_conflict and not (wanted == "shadow-write" and record.both_written):
            raise UsageError(
                f"--on-conflict {on_conflict}, and in {wanted} there is nothing to decide",
                "shadow-write of a rollout whose new columns were written and whose mirror was lost",
                "leave it out",
            )
        return self._p.forward[FORWARD.index(wanted)]

    def watch(self) -> str:
        """Watch readers after the last stage; see ``Afterwards.watch``. Call it when nothing is left to do."""
        return Afterwards(self._p, self._engine).watch()

    def rollback(self, target: str, accepted: tuple[tuple[str, int], ...]) -> Ended | str:
        """Lower the flags at once and without the lease, stop whoever runs, then walk the plan backwards."""
        if nothing := self.nothing_to_undo(target):
            return nothing
        if target not in GOES_BACK:
            self._p.flags.lower(None)
        if self._p.store.holder(self._id) is not None:
            self._p.store.bump_epoch(self._id)
        record = self._entry.present()
        self._entry.admit(replace(record, target=target), self._p.rollback)
        return self._run(self._p.rollback, record, Asked(target=target, accepted=accepted))

    def nothing_to_undo(self, target: str) -> str:
        """A sentence why there is nothing to go back from, else "". Raises UsageError, Held: there is no such way."""
        record = self._p.store.load(self._id)
        if record is None:
            return "nothing was begun, so there is nothing to go back from"
        if record.state is State.FINISHED:
            raise UsageError(
                "this rollout is finished: its mirror is gone and the old columns are no longer kept",
                "a rollout that is not finished",
                "write a new runbook for the way you want to go",
            )
        wanted = self._p.rollback.problems(self._p.runbook, Facts(), replace(record, target=target))
        if wanted:
            raise refusal(tuple(wanted))
        return ""

    def finish(self, waived: bool, accepted: tuple[tuple[str, int], ...]) -> Ended | str:
        """Take the mirror away for good and close. Raises Held while verify is not done or the old application is
        seen."""
        record = self._entry.to_act()
        if record.state is State.FINISHED:
            return "this rollout is already finished"
        planner = self._p.finish(waived)
        self._entry.admit(record, planner)
        return self._run(planner, record, Asked(accepted=accepted))

    def repair(self, on_conflict: Literal["", "new_wins", "old_wins"] = "") -> Ended:
        """Mend rows that do not hold by the sweep's batches, then compare every row. Raises Held before shadow-write
        is done, UsageError after finish, and what ``next`` raises."""
        record = self._entry.present()
        if record.state is State.FINISHED:
            raise UsageError(
                "this rollout is finished: nothing keeps its old columns any more",
                "a rollout that is not finished",
                "rollout verify shows what there is",
            )
        self._entry.admit(record, self._p.repair)
        return self._run(self._p.repair, record, Asked(on_conflict=on_conflict))

    def pause(self, reason: str = "") -> str:
        """Ask the running command to pause. It ends within one beat, with 0."""
        if self._p.store.holder(self._id) is None:
            return "no command of this rollout runs; nothing to pause"
        self._p.store.ask(self._id, Request(Ask.PAUSE, self._p.who, self._p.clock.now(), reason))
        onward = again(self._p.store.load(self._id) or self._entry.new())
        return f"asked to pause; the running command ends within one beat. Go on with: rollout resume, then {onward}"

    def resume(self) -> str:
        """Clear a request that nobody has answered."""
        record = self._p.store.load(self._id)
        if record is None:
            return "nothing was begun"
        asked = self._p.store.asked(self._id)
        self._p.store.ask(self._id, None)
        return (
            f"the request to {asked.ask.value} is cleared; go on with: {again(record)}"
            if asked
            else "nothing was asked for"
        )

    def abort(self, reason: str = "") -> str:
        """Lower the flags at once, stop the running command, and clear the half step that it or a dead one left."""
        record = self._p.store.load(self._id)
        if record is None:
            return "nothing was begun, so there is nothing to abort"
        if self._p.store.holder(self._id) is None and record.intent is None and record.state is not State.RUNNING:
            return "no command of this rollout runs, and nothing is half done; nothing to abort"
        request = Request(Ask.ABORT, self._p.who, self._p.clock.now(), reason)
        self._p.store.ask(self._id, request)
        if record.phase in GOES_BACK:
            self._p.flags.lower(None)
        if self._wait_until_free():
            self._p.store.bump_epoch(self._id)
        with leased(self._p, patient=True) as lease:
            self._p.store.answered(self._id, request)
            record = replace(self._entry.present(), epoch=lease.epoch)
            if record.state is State.FINISHED:
                return "the command ended before it heard of it: this rollout is finished"
            if record.intent is not None or record.state is State.RUNNING or _readers_moved(record):
                record = self._cleared(record, lease, reason)
        return f"{record.note}. Go on with: rollout next, or rollout rollback"

    def _cleared(self, record: Record, lease: Lease, reason: str) -> Record:
        """The half step of a command that is gone, cleared; in the stages of the flags, readers are back."""
        note = "nothing was half done"
        if record.intent is not None:
            record, note = self._engine.cleared(record, record.intent, lease)
        if record.phase in GOES_BACK:
            record = replace(record, done=tuple(p for p in record.done if p not in GOES_BACK))
            note = f"readers are at 0 %; {note}"
        # That we are taking the mirror down is kept: what is missing of it is not lost, and finish goes on.
        kept = tuple(k for k in record.done_steps if k in (REMOVING, REMOVED))
        record = replace(record, intent=None, done_steps=kept)
        return self._engine.record(record, EventKind.ABORTED, f"aborted by {self._p.who}: {note}", reason=reason)

    def purge(self) -> str:
        """Remove what is left of a closed rollout. Raises Held while an application still reads the flag."""
        record = self._p.store.load(self._id)
        if record is None:
            return "nothing of this rollout is left"
        back_at_start = record.state is State.ROLLED_BACK and set(record.done) <= {"ddl"}
        if not (record.state is State.FINISHED or record.state is State.NEW or back_at_start):
            raise Held(
                f"{self._id} is {record.state.value} in {record.phase}",
                "a rollout that is finished, or rolled back all the way",
                "rollout finish, or rollout rollback",
            )
        step = Quiet(
            table=record.table,
            columns=(),
            seconds=max(_PURGE_QUIET_S, 2 * self._p.runbook.phases.poll_s),
            flag=True,
            writes_only=False,
            waived=False,
        )
        with begun(self._p) as lease:
            _unmoved(record, self._p.store.load(self._id))
            watched = self._entry.watch(record, lease, step)
            if watched.result is not Result.DONE:
                raise Held(
                    f"the flag is still read: {watched.note}",
                    "no application asks for the flag any more",
                    "release the application without the flag first",
                )
            # Whoever slept here goes no further: what is cleared outside of the state knows no lease.
            lease.alive()
            self._p.flags.clear(lease.epoch)
            self._p.store.purge(self._id, lease.epoch)
        return f"{self._id} is gone from the state: record, history, positions and flag"

    def _run(self, planner: Phase, record: Record, asked: Asked) -> Ended:
        self._p.store.install()
        with begun(self._p, patient=planner.name == ROLLBACK, goes_on=asked.goes_on) as lease:
            fresh = self._entry.present()
            if planner.name != ROLLBACK:
                _unmoved(record, fresh)
            elif nothing := self.nothing_to_undo(asked.target):
                # It waited for whoever acted, who may have finished, gone back or purged.
                raise Held(f"somebody else acted meanwhile: {nothing}", "a rollout to go back from", "rollout status")
            fresh = replace(
                fresh,
                epoch=lease.epoch,
                target=asked.target,
                accepted=asked.accepted,
                on_conflict=asked.on_conflict,
                leap=asked.leap,
            )
            fresh = self._entry.created(fresh)
            fresh = self._entry.settings_noted(fresh)
            fresh, there = self._entry.begun(fresh, planner.name)
            started = self._engine.record(
                resumed(fresh, planner.name, self._p.runbook.phases.percents[-1]), EventKind.STARTED, there
            )
            ended = self._engine.walk(started, lease, planner)
            return ended if there in ended.note else replace(ended, note=f"{ended.note}; {there}")

    def _wait_until_free(self) -> bool:
        """Wait for the holder to answer the abort; True when it did not."""
        deadline = self._p.clock.monotonic() + FENCED_HOLDER_GOES_S
        while self._p.store.holder(self._id) is not None:
            if self._p.clock.monotonic() > deadline:
                return True
            self._p.clock.sleep(0.2)
        return False


def _unmoved(record: Record, fresh: Record | None) -> None:
    """What was decided on one record must not be done to another one. Raises Held."""
    if fresh is None or fresh.revision != record.revision:
        seen = "gone" if fresh is None else f"at revision {fresh.revision}"
        raise Held(
            f"somebody else moved this rollout meanwhile: it is {seen}", f"revision {record.revision}", "rollout status"
        )


def _readers_moved(record: Record) -> bool:
    """A stage of the flags was done when they were lowered: it does not hold any more."""
    return record.phase in GOES_BACK and not set(GOES_BACK).isdisjoint(record.done)
