"""The way into a phase: what is refused before anything is written, and what an interrupted visit keeps."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.engine.judging import refusal, refused
from orchestrator.engine.parts import Parts
from orchestrator.engine.pulse import Pulse
from orchestrator.engine.walk import Engine
from orchestrator.errors import ConfigurationError, Held, PrivilegeMissing, RunbookError
from orchestrator.model.facts import Facts, Need
from orchestrator.model.outcome import Outcome
from orchestrator.model.shape_diff import compare_shape
from orchestrator.model.source_drift import read_by_mappings, source_changes
from orchestrator.model.state import (
    FINISH,
    FORWARD,
    GOES_BACK,
    REMOVED,
    REMOVING,
    ROLLBACK,
    Event,
    EventKind,
    Record,
    State,
)
from orchestrator.model.step import InstallTrigger, RaiseDoubleWrites, Step, StepClass
from orchestrator.model.verdict import Problem, ProblemKind
from orchestrator.ports import Lease, Phase

_INTERRUPTED = frozenset({State.RUNNING, State.HELD, State.PAUSED, State.NEEDS_HUMAN})


class Entry:
    def __init__(self, parts: Parts, engine: Engine) -> None:
        self._p = parts
        self._engine = engine

    def present(self) -> Record:
        """The record as stored, corrected by what the server shows; a new one when none is stored. Writes nothing.

        A mirror that somebody else took down makes shadow-write, and what hangs on it, not done; a column that went
        before there was one, ddl.
        Raises RunbookError when the contract differs from the one that the rollout began with, or the mirror stands as
        another driver put it up.
        """
        record = self._p.store.load(self._p.runbook.id)
        if record is None:
            return self.new()
        if record.digest != self._p.runbook.digest and record.state is not State.FINISHED:
            changes = self._p.difference(record.runbook_text)
            raise RunbookError(
                f"{self._p.runbook.path}: the contract differs from the one that {record.id} began with "
                f"({self._p.runbook.digest[:8]}, was {record.digest[:8]}):\n{changes}",
                "the contract that was frozen when the rollout began",
                "put it back (rollout status --runbook-text prints it), or roll back all the way and purge",
            )
        self._same_mirror(record)
        if self._columns_gone(record):
            return replace(record, done=())
        if "shadow-write" in record.done and record.mirror_due and record.state is not State.FINISHED:
            mirror = self._p.observer.look(frozenset({Need.MIRROR})).mirror
            if mirror is not None and mirror.value is not None and not mirror.value.intact:
                return replace(record, done=tuple(p for p in record.done if p in ("ddl", "backfill")))
        return record

    def _columns_gone(self, record: Record) -> bool:
        """Whether a column that ddl added is gone, and no mirror hangs on it: then ddl is to be done again."""
        if "ddl" not in record.done or not record.columns_added or record.mirror or record.state is State.FINISHED:
            return False
        shape = self._p.observer.look(frozenset({Need.SHAPE})).shape
        if shape is None or shape.value is None:
            return False
        missing = compare_shape(self._p.runbook.contract, shape.value).columns_missing
        return any(c.name in record.columns_added for c in missing)

    def _same_mirror(self, record: Record) -> None:
        """A driver sees, and takes down, only what it put up itself."""
        wanted = self._p.runbook.phases.shadow
        if record.mirror not in ("", wanted):
            raise RunbookError(
                f"{self._p.runbook.path}: shadow_write.driver is {wanted}, and the mirror stands as {record.mirror}",
                "the driver that put the mirror up, until it is taken down",
                f"write driver: {record.mirror} again; it may change after: rollout rollback --to backfill",
            )

    def to_act(self) -> Record:
        """As ``present``, for a command that will write: an account that may not even read the state is told of all
        that it lacks at once, not of one right after the other. Raises PrivilegeMissing besides."""
        try:
            return self.present()
        except PrivilegeMissing:
            found = refused(self._p.judge.before(StepClass.EXCLUSIVE))
            if lacking := tuple(p for p in found if p.kind is ProblemKind.PRIVILEGE):
                raise refusal(lacking) from None
            raise

    def admit(self, record: Record, phase: Phase) -> None:
        """Raises the refusal when the phase cannot be entered: wrong server, problems, or checks that refuse."""
        facts = self._p.observer.look(phase.entry_needs | {Need.SERVER})
        server = facts.server.value if facts.server is not None else None
        if server is not None and record.server_uuid and server.server_uuid != record.server_uuid:
            raise ConfigurationError(
                f"this is server {server.server_uuid}; {record.id} began on {record.server_uuid}",
                "the server that the rollout began on",
                "point rollout at that server; after a failover look at rollout history first",
            )
        self._known_mirror(record, phase)
        if phase.name == ROLLBACK:
            problems = phase.problems(self._p.runbook, facts, record)
        else:
            due = refused(self._p.judge.before(StepClass.EXCLUSIVE, stage=phase.name))
            if phase.name in GOES_BACK:
                # The rest is judged on the way, where it takes readers back.
                due = tuple(p for p in due if p.kind is ProblemKind.PRIVILEGE)
            drifted = self.drifted(record, phase.name, facts)
            problems = (*self.findings(record), *due, *drifted, *phase.problems(self._p.runbook, facts, record))
        if problems:
            raise refusal(tuple(problems))

    def _known_mirror(self, record: Record, phase: Phase) -> None:
        """Triggers of ours that the record knows nothing of: the state is younger than they are, or was put back from a
        backup. What it then takes for the truth may be old: a sweep would write over what new applications wrote."""
        ours = record.mirror or record.mirror_due or isinstance(record.intent, InstallTrigger | RaiseDoubleWrites)
        # A trigger that came in the moment in which its command ended is put up anew by the same stage.
        ours = ours or (phase.name == "shadow-write" and _goes_on(record, phase.name))
        if ours or phase.name == ROLLBACK:
            return
        mirror = self._p.observer.look(frozenset({Need.MIRROR})).mirror
        if mirror is not None and mirror.value is not None and mirror.value.stands:
            parts = ", ".join(part.value for part in mirror.value.standing)
            raise ConfigurationError(
                f"the mirror stands on {record.table} ({parts}); the record (revision {record.revision}) knows of none",
                "the state that belongs to this table: both columns may have been written since",
                "put the state schema back as it was last; or, when nobody wrote a new column, drop those triggers,"
                " then the same command again",
            )

    def findings(self, record: Record) -> Sequence[Problem]:
        """What the runbook's text shows to be wrong. It keeps a rollout from beginning, and holds up none that has."""
        return () if record.revision else self._p.findings()

    def drifted(self, record: Record, phase: str, facts: Facts) -> Sequence[Problem]:
        """Columns that the mappings read and that are not any more what the contract says of them or, where it says
        nothing, what ddl found: somebody altered them between two stages. At the end they are read no more: whether
        rows hold is compared once again, and then they are somebody's own."""
        if phase == FINISH:
            return ()
        contract, shape = self._p.runbook.contract, facts.shape.value if facts.shape is not None else None
        begins = phase == FORWARD[0] and not _goes_on(record, phase)
        stood = contract.before.columns if contract.before is not None else () if begins else record.sources
        return tuple(
            Problem(
                ProblemKind.RUNBOOK,
                "source-changed",
                f"{record.table}, {told}: somebody altered it",
                "the columns that the mappings read, as they were when this rollout began",
                "alter it back; or rollout rollback, rollout purge, and begin again with a runbook that fits the table",
            )
            for told in (source_changes(contract, stood, shape) if shape is not None else ())
        )

    def begun(self, record: Record, phase: str) -> tuple[Record, str]:
        """The record as ddl begins, with the columns that the mappings read, and what ddl will find there as wanted
        although no earlier visit of ours left it; for the other stages as it is, and ""."""
        begins = phase == FORWARD[0] and not _goes_on(record, phase)
        shape = self._p.observer.look(frozenset({Need.SHAPE})).shape if begins else None
        if shape is None or shape.value is None:
            return record, ""
        contract = self._p.runbook.contract
        record = replace(record, sources=read_by_mappings(contract, shape.value.columns))
        return record, compare_shape(contract, shape.value).already_there

    def created(self, record: Record) -> Record:
        """Store a record that is new. Raises Held when another open rollout is on the table."""
        if record.revision:
            return record
        server = self._p.observer.look(frozenset({Need.SERVER})).server
        if server is None or server.value is None:
            why = server.unseen if server is not None else "nobody looked"
            raise Held(f"the server cannot be seen: {why}", "a server that a rollout can be bound to", "rollout check")
        uuid = server.value.server_uuid
        event = Event(EventKind.CREATED, self._p.clock.now(), self._p.who, "", revision=1, state=State.NEW.value)
        saved = self._p.store.create(replace(record, server_uuid=uuid, revision=1), event)
        for listener in self._p.listeners:
            listener.event(saved, event)
        return saved

    def settings_noted(self, record: Record) -> Record:
        """Settings outside the contract may change; each change is in the history."""
        if record.runbook_text == self._p.runbook.text:
            return record
        changed = replace(record, runbook_text=self._p.runbook.text, runbook_path=self._p.runbook.path)
        return self._engine.record(changed, EventKind.SETTINGS_CHANGED, "settings outside the contract were changed")

    def watch(self, record: Record, lease: Lease, step: Step) -> Outcome:
        """Run a step that only looks, without making it part of the history."""
        return self._p.drivers[step.kind].apply(step, Pulse(self._p, lease, record, step))

    def new(self) -> Record:
        """The record of a rollout that nobody has begun. Writes nothing."""
        runbook = self._p.runbook
        return Record(
            id=runbook.id,
            table=runbook.table,
            digest=runbook.digest,
            runbook_text=runbook.text,
            runbook_path=runbook.path,
            server_uuid="",
        )


def _goes_on(record: Record, phase: str) -> bool:
    """Whether this visit to ``phase`` takes up one that was interrupted."""
    return record.phase == phase and record.state in _INTERRUPTED


def resumed(record: Record, phase: str, last_percent: int) -> Record:
    """The record at the start of a visit to ``phase``: what an interrupted visit may keep, and what must be done again.

    Percent steps that passed are kept (the ramp goes on at the recorded step, through its gate), but for the last one:
    the flag begins at 0 % again, and only that step brings it to where it is kept. A sweep is kept, its soak is not.
    That the mirror goes, or that finish took it away, is kept: nobody lost it. A backfill goes on from its positions; a
    new one counts positions of its own (``walk``).
    """
    interrupted = _goes_on(record, phase)
    kept: tuple[str, ...] = ()
    if interrupted and phase == "read-switch":
        last = f"set-percent:{last_percent}"
        kept = tuple(k for k in record.done_steps if k.startswith("set-percent:") and k != last)
    elif interrupted and phase == "shadow-write":
        kept = tuple(k for k in record.done_steps if k == "fill:sweep")
    elif interrupted and phase == ROLLBACK:
        kept = tuple(k for k in record.done_steps if k == REMOVING)
    elif interrupted and phase == "finish":
        kept = tuple(k for k in record.done_steps if k in (REMOVING, REMOVED))
    fresh_walk = phase in ("backfill", "shadow-write") and not interrupted
    done = record.done
    if phase == ROLLBACK:
        # Readers go back before anything else, so the stages that moved them stop to hold at once.
        done = tuple(p for p in done if p not in GOES_BACK or record.target in GOES_BACK)
    return replace(record, phase=phase, done=done, done_steps=kept, walk=record.walk + (1 if fresh_walk else 0))
