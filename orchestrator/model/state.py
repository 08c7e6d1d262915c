"""The life of a rollout: states, the events that move it, and the table of edges, each with the sentence that says
when.

What is asked for (a request in the store) and what is reached (the state here) are two things.
"""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Literal

from msgspec import field
from msgspec.structs import replace

from orchestrator.model.contract import Column, TableName
from orchestrator.model.step import Step, Truth
from orchestrator.model.value import Value

SHADOW_WRITE = "shadow-write"
FORWARD = ("ddl", "backfill", SHADOW_WRITE, "read-switch", "verify")
# While the application may be on the new column: what fails there takes readers back by itself.
GOES_BACK = ("read-switch", "verify")
ROLLBACK = "rollback"
FINISH = "finish"
REPAIR = "repair"


class State(Enum):
    NEW = "new"
    RUNNING = "running"
    HELD = "held"
    PAUSED = "paused"
    ROLLED_BACK = "rolled-back"
    NEEDS_HUMAN = "needs-human"
    DONE = "done"
    FINISHED = "finished"


class EventKind(Enum):
    CREATED = "created"
    STARTED = "started"
    INTENDED = "intended"
    STEP_DONE = "step-done"
    PHASE_DONE = "phase-done"
    HELD = "held"
    PAUSED = "paused"
    ABORTED = "aborted"
    FAILED = "failed"
    WENT_BACK = "went-back"
    ROLLED_BACK = "rolled-back"
    NEEDS_HUMAN = "needs-human"
    FINISHED = "finished"
    SETTINGS_CHANGED = "settings-changed"
    STUCK = "stuck"


class Edge(Value, frozen=True):
    before: State
    kind: EventKind
    after: State
    sentence: str


def _edges() -> tuple[Edge, ...]:
    s, e = State, EventKind
    rest = (
        Edge(s.NEW, e.STARTED, s.RUNNING, "The first command that changes something takes the lease."),
        Edge(s.HELD, e.STARTED, s.RUNNING, "The same command is typed again after a hold."),
        Edge(s.PAUSED, e.STARTED, s.RUNNING, "The command is typed again after a pause, a failure or an abort."),
        Edge(s.ROLLED_BACK, e.STARTED, s.RUNNING, "The rollout goes forward again, or further back."),
        Edge(s.DONE, e.STARTED, s.RUNNING, "A phase is done and the next one, a rollback or finish begins."),
        Edge(s.NEEDS_HUMAN, e.STARTED, s.RUNNING, "A human has looked; the server is asked again what happened."),
        Edge(s.RUNNING, e.STARTED, s.RUNNING, "The process that ran it is gone, and another takes over."),
        Edge(s.RUNNING, e.INTENDED, s.RUNNING, "A step is about to be done, and is recorded whole."),
        Edge(s.RUNNING, e.STEP_DONE, s.RUNNING, "A step took effect."),
        Edge(s.RUNNING, e.PHASE_DONE, s.DONE, "No step of the phase is left and its checks after it passed."),
        Edge(s.RUNNING, e.HELD, s.HELD, "A check held for longer than max_wait."),
        Edge(s.RUNNING, e.PAUSED, s.PAUSED, "Somebody asked for a pause, or the command got a signal."),
        Edge(s.RUNNING, e.ABORTED, s.PAUSED, "Somebody asked for an abort; the half step was cleared."),
        Edge(s.RUNNING, e.FAILED, s.PAUSED, "A step failed in a way that waiting does not mend."),
        Edge(
            s.RUNNING,
            e.WENT_BACK,
            s.ROLLED_BACK,
            "A check or gate failed in read-switch or verify; readers are on the old column.",
        ),
        Edge(s.RUNNING, e.ROLLED_BACK, s.ROLLED_BACK, "A rollback that somebody typed reached its target."),
        Edge(s.RUNNING, e.NEEDS_HUMAN, s.NEEDS_HUMAN, "The server cannot say what became of a step."),
        Edge(s.RUNNING, e.FINISHED, s.FINISHED, "The mirror is gone for good and the rollout is closed."),
    )
    resting = (s.NEW, s.HELD, s.PAUSED, s.ROLLED_BACK, s.DONE, s.NEEDS_HUMAN, s.RUNNING)
    settings = tuple(
        Edge(x, e.SETTINGS_CHANGED, x, "Settings outside the contract were changed in the runbook.") for x in resting
    )
    aborts = tuple(
        Edge(x, e.ABORTED, s.PAUSED, "An abort is asked for while no command runs.")
        for x in (s.HELD, s.PAUSED, s.ROLLED_BACK, s.DONE, s.NEEDS_HUMAN)
    )
    lost = tuple(
        Edge(x, e.WENT_BACK, s.ROLLED_BACK, "A check or gate failed while readers were watched after the last stage.")
        # ROLLED_BACK: a rollback to verify leaves all readers where they are.
        for x in (s.HELD, s.PAUSED, s.DONE, s.NEEDS_HUMAN, s.ROLLED_BACK)
    )
    still = tuple(
        Edge(x, e.STUCK, x, "It has held, or stood still, for too long; told once.") for x in (s.RUNNING, s.HELD)
    )
    return rest + settings + aborts + lost + still


EDGES: tuple[Edge, ...] = _edges()
_TABLE = {(edge.before, edge.kind): edge for edge in EDGES}
_MIRRORING = ("install-trigger", "raise-double-writes")
# Among the steps that took effect from the moment in which the mirror's removal is meant: it goes in parts.
REMOVING, REMOVED = "remove-mirror:begun", "remove-mirror"
QUIET_KINDS = frozenset({EventKind.INTENDED, EventKind.HELD, EventKind.STUCK})
# While nothing but these comes, what is held goes on being held.
_NO_STEP = QUIET_KINDS | {EventKind.STARTED, EventKind.SETTINGS_CHANGED}


class ForbiddenTransition(Exception):
    """The event cannot happen in this state: our own bug, never the operator's."""


class Event(Value, frozen=True):
    """One line of the append-only history. ``revision`` is the record's revision after it."""

    kind: EventKind
    at: datetime
    who: str
    phase: str
    note: str = ""
    step: str = ""
    reason: str = ""
    figures: dict[str, float] = field(default_factory=dict)
    evidence: tuple[tuple[str, ...], ...] = ()
    revision: int = 0
    state: str = ""


class PhaseRecord(Value, frozen=True):
    """How one phase went the last time it ran."""

    name: str
    state: State
    began: datetime
    ended: datetime | None = None
    note: str = ""


class Record(Value, frozen=True):
    """The current state, derived from the events. ``transitions`` counts what changes a plan (not intents and holds).

    ``phase`` is the phase that runs or ran last, also ``rollback`` and ``finish``. ``done`` are the forward phases that
    hold now. ``done_steps`` are keys of steps of ``phase`` that took effect in this visit. ``walk`` counts how often
    backfill began anew. ``both_written``: new_writes was opened since the mirror stands, so values correspond instead
    of being equal to ``f(o)``.
    ``leap``: this visit of read-switch goes to its last percent at once. ``target`` is where a running
    rollback goes to ("" = all the way).
    ``columns_added``, ``indexes_added``, ``foreign_keys_added``, ``checks_added`` and ``columns_renamed`` (by their old
    names) are what ddl did: all else of the contract was there, and is somebody's. ``sources``: the columns that the
    mappings read, as ddl found them. ``trial``: what the last trial of the mirror showed, "" before the first.
    ``mirror``: as what the mirror was put up, "" while none of ours stands. ``held_since``: since when ``held_step`` is
    held, however often it was tried. ``stuck_told``: that it is stuck was told.
    """

    id: str
    table: TableName
    digest: str
    runbook_text: str
    runbook_path: str
    server_uuid: str
    revision: int = 0
    transitions: int = 0
    epoch: int = 0
    state: State = State.NEW
    phase: str = ""
    done: tuple[str, ...] = ()
    done_steps: tuple[str, ...] = ()
    walk: int = 0
    both_written: bool = False
    intent: Step | None = None
    target: str = ""
    on_conflict: Literal["", "new_wins", "old_wins"] = ""
    accepted: tuple[tuple[str, int], ...] = ()
    baselines: tuple[tuple[str, float], ...] = ()
    leap: bool = False
    phases: tuple[PhaseRecord, ...] = ()
    columns_added: tuple[str, ...] = ()
    indexes_added: tuple[str, ...] = ()
    foreign_keys_added: tuple[str, ...] = ()
    checks_added: tuple[str, ...] = ()
    columns_renamed: tuple[str, ...] = ()
    sources: tuple[Column, ...] = ()
    note: str = ""
    trial: str = ""
    mirror: Literal["", "triggers", "flag"] = ""
    held_since: datetime | None = None
    held_step: str = ""
    stuck_told: bool = False

    @property
    def next_phase(self) -> str | None:
        """The first forward phase that is not done; None when all are."""
        return next((p for p in FORWARD if p not in self.done), None)

    @property
    def mirror_due(self) -> bool:
        """Whether the mirror should stand: shadow-write is done, or has put up a part of it by now."""
        if self.phase == FINISH and self.mirror_goes:
            return False
        again = self.phase == SHADOW_WRITE and self.mirror != ""
        return SHADOW_WRITE in self.done or again or any(s.startswith(_MIRRORING) for s in self.done_steps)

    @property
    def readers_due(self) -> bool:
        """Whether the ramp was passed and holds: all readers are on the new column, and stay there."""
        return "read-switch" in self.done

    @property
    def mirror_goes(self) -> bool:
        """A step of ours takes the mirror down, or has: what is missing of it is not lost."""
        return not {REMOVING, REMOVED}.isdisjoint(self.done_steps)

    @property
    def truth(self) -> Truth:
        """What every row must hold now."""
        return "corresponds" if self.both_written else "old-is-truth"

    def phase_record(self, name: str) -> PhaseRecord | None:
        return next((p for p in self.phases if p.name == name), None)


def move(record: Record, event: Event) -> Record:
    """The record after ``event``: state by the table of edges, counters and the phase's own line. Pure.

    Changes that an event brings besides (done steps, intent, walk …) are made by the caller with ``replace`` before.
    Raises ForbiddenTransition.
    """
    stays = event.kind in _NO_STEP or (event.kind is EventKind.STEP_DONE and event.step != record.held_step)
    edge = _TABLE.get((record.state, event.kind))
    if edge is None:
        raise ForbiddenTransition(f"{event.kind.value} cannot happen while {record.state.value}")
    counted = 0 if event.kind in QUIET_KINDS else 1
    moved = replace(
        record,
        state=edge.after,
        phase=event.phase or record.phase,
        revision=record.revision + 1,
        transitions=record.transitions + counted,
        note=event.note or record.note,
        held_since=record.held_since if stays else None,
        held_step=record.held_step if stays else "",
        stuck_told=event.kind is EventKind.STUCK or (record.stuck_told and stays),
    )
    if event.kind is EventKind.HELD and record.held_since is None:
        moved = replace(moved, held_since=event.at, held_step=event.step)
    return replace(moved, phases=_phase_lines(moved, event))


def _phase_lines(record: Record, event: Event) -> tuple[PhaseRecord, ...]:
    name = event.phase
    if not name or event.kind in (EventKind.CREATED, EventKind.SETTINGS_CHANGED):
        return record.phases
    known = record.phase_record(name)
    fresh = event.kind is EventKind.STARTED and (known is None or known.state in (State.DONE, State.ROLLED_BACK))
    began = event.at if fresh or known is None else known.began
    ended = None if record.state is State.RUNNING else event.at
    note = event.note or ("" if fresh or known is None else known.note)
    line = PhaseRecord(name, record.state, began, ended, note)
    others = tuple(_left(p, event) for p in record.phases if p.name != name)
    return (*others, line)


def _left(line: PhaseRecord, event: Event) -> PhaseRecord:
    """A stage whose command died is not running any more once another one begins."""
    if event.kind is EventKind.STARTED and line.state is State.RUNNING:
        return replace(line, state=State.PAUSED, ended=event.at)
    return line


class Ask(Enum):
    """What another terminal asks of the command that runs."""

    PAUSE = "pause"
    ABORT = "abort"


class Request(Value, frozen=True):
    ask: Ask
    who: str
    at: datetime
    reason: str = ""


class Holder(Value, frozen=True):
    """Who holds a lease: person and machine, process, since when (UTC), and the counter last seen."""

    who: str
    host: str
    pid: int
    since: datetime
    counter: int
    epoch: int
