"""The smallest things that are planned, shown, done and recorded. A closed union; every match over it is exhaustive.

A step carries everything that its driver needs, because it is stored whole as the intent and must be understood
after a crash, when a plan made later no longer offers it.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

from orchestrator.model.contract import TableName
from orchestrator.model.ddl_step import (
    AddCheck,
    AddColumns,
    AddForeignKey,
    AddIndex,
    AddingStep,
    ChangeColumn,
    CountDuplicates,
    DdlStep,
    DropCheck,
    DropColumns,
    DropForeignKey,
    DropIndex,
    DroppingStep,
    ExclusiveDdlStep,
    GhostAlter,
    NativeDdlStep,
    ProveForeignKey,
    RenameColumn,
    SetDefault,
    ShowIndex,
    TryDdl,
)
from orchestrator.model.mirror_step import (
    FlagMirrorStep,
    InstallTrigger,
    ProveDoubleWrites,
    RaiseDoubleWrites,
    RemoveMirror,
    TriggerStep,
    Truth,
    TryMirror,
)
from orchestrator.model.reads_step import (
    CloseRollout,
    KeepFlags,
    LowerFlags,
    MeasureBaselines,
    OpenWrites,
    ReadsStep,
    SetPercent,
    WatchReaders,
)
from orchestrator.model.value import StepBase

__all__ = [
    "AddCheck",
    "AddColumns",
    "AddForeignKey",
    "AddIndex",
    "AddingStep",
    "CatchUp",
    "ChangeColumn",
    "CloseRollout",
    "Compare",
    "CountDuplicates",
    "DdlStep",
    "Drain",
    "DropCheck",
    "DropColumns",
    "DropForeignKey",
    "DropIndex",
    "DroppingStep",
    "ExclusiveDdlStep",
    "Fill",
    "FlagMirrorStep",
    "GhostAlter",
    "InstallTrigger",
    "KeepFlags",
    "LowerFlags",
    "MeasureBaselines",
    "NativeDdlStep",
    "OpenWrites",
    "ProveDoubleWrites",
    "ProveForeignKey",
    "Purpose",
    "Quiet",
    "RaiseDoubleWrites",
    "ReadsStep",
    "RemoveMirror",
    "RenameColumn",
    "RowsStep",
    "SetDefault",
    "SetPercent",
    "ShowIndex",
    "Soak",
    "Step",
    "StepClass",
    "TriggerStep",
    "Truth",
    "TryDdl",
    "TryMirror",
    "WaitStep",
    "WatchReaders",
    "step_class",
    "step_key",
    "working_class",
]

Purpose = Literal["drift", "verify", "newest", "moved", "in-use"]

_SWEEP = "rollout next --phase shadow-write"


class StepClass(Enum):
    """What a step does to the application; checks choose their moments by it."""

    EXCLUSIVE = "takes an exclusive metadata lock for a moment"
    ROWS = "writes or reads rows in batches"
    READS = "moves readers or writers of the application"
    URGENT = "the way back: nothing is asked before it"
    PASSIVE = "only looks, or only writes our own rows"


class Fill(StepBase, frozen=True, kw_only=True, tag="fill"):
    """One or more keyed passes that make every row hold what it should. ``pass_name``: backfill (one pass, the range
    fixed at the start, rows that are locked are left) or sweep (passes until nothing is left).

    ``on_conflict`` "": the old column is the truth, ``n <=> f(o)`` is restored everywhere. Once both were written:
    "refuse" fills only what is unset and stops at rows that do not correspond; "new_wins" and "old_wins" mend them.
    ``workers``: of the backfill; 0 finds out how many. ``mend``: the command that mends such rows by somebody's word.
    """

    table: TableName
    walk: int
    pass_name: Literal["backfill", "sweep"]
    target_time_s: float
    max_batch_rows: int
    on_conflict: Literal["", "refuse", "new_wins", "old_wins"] = ""
    workers: int = 1
    mend: str = _SWEEP


class Compare(StepBase, frozen=True, kw_only=True, tag="compare"):
    """A pass that only reads: over the whole table, or (``newest``, ``moved``) over rows that changed of late.

    ``in-use`` asks whether ``columns``, which were there before ddl, hold what somebody else put there. ``mend``: the
    command that mends rows."""

    table: TableName
    walk: int
    purpose: Purpose
    relation: Truth
    target_time_s: float
    columns: tuple[str, ...] = ()
    mend: str = _SWEEP


class Soak(StepBase, frozen=True, kw_only=True, tag="soak"):
    """Time passes under watch of the checks: only what passes in which all of them pass counts."""

    seconds: float


class CatchUp(StepBase, frozen=True, kw_only=True, tag="catch-up"):
    """Wait until every replica that counts has executed all that the primary has now."""

    seconds: float


class Drain(StepBase, frozen=True, kw_only=True, tag="drain"):
    """One poll has passed since a flag was moved, and no transaction begun before that moment is open. ``after``: which
    flag, where a phase drains twice ("" for those of the readers)."""

    table: TableName
    poll_s: float
    after: str = ""


class Quiet(StepBase, frozen=True, kw_only=True, tag="quiet"):
    """``seconds`` without a sampled statement that names ``columns`` (or the flag table, with ``flag``).

    ``writes_only``: SELECTs do not count. ``waived``: somebody vouches for it, or nobody could have written.
    ``doubled``: pairs (old, new) that applications write both columns of; a statement that stores both does not count.
    ``after``: as of Drain."""

    table: TableName
    columns: tuple[str, ...]
    seconds: float
    flag: bool
    writes_only: bool
    waived: bool
    doubled: tuple[tuple[str, str], ...] = ()
    after: str = ""


RowsStep = Fill | Compare
WaitStep = Soak | CatchUp | Drain | Quiet
Step = DdlStep | RowsStep | TryMirror | TriggerStep | FlagMirrorStep | ProveDoubleWrites | ReadsStep | WaitStep


def step_class(step: Step) -> StepClass:
    """How the step meets the application."""
    if isinstance(step, ExclusiveDdlStep | GhostAlter):
        return StepClass.EXCLUSIVE
    match step:
        case RaiseDoubleWrites() | RemoveMirror(driver="flag"):
            return StepClass.PASSIVE
        case InstallTrigger() | RemoveMirror():
            return StepClass.EXCLUSIVE
        case Fill() | Compare() | ProveForeignKey() | CountDuplicates():
            return StepClass.ROWS
        case OpenWrites() | SetPercent() | KeepFlags() | WatchReaders() | Soak() | ProveDoubleWrites():
            return StepClass.READS
        case LowerFlags():
            return StepClass.URGENT
        case TryDdl() | TryMirror() | CatchUp() | MeasureBaselines() | Drain() | Quiet() | CloseRollout():
            return StepClass.PASSIVE


def working_class(step: Step) -> StepClass:
    """As what its beats are judged: gh-ost copies rows for long before it asks for its one lock."""
    return StepClass.ROWS if isinstance(step, GhostAlter) else step_class(step)


def step_key(step: Step) -> str:
    """A name for the step that is unique within its phase and stable between two plans of the same phase."""
    match step:
        case ChangeColumn():
            return f"{step.kind}:{step.after.name}"
        case SetDefault():
            return f"{step.kind}:{step.column.name}"
        case RenameColumn():
            return f"{step.kind}:{step.old}"
        case AddCheck() | DropCheck():
            return f"{step.kind}:{step.check.name}"
        case AddIndex() | ShowIndex() | DropIndex() | CountDuplicates():
            return f"{step.kind}:{step.index.name}"
        case AddForeignKey() | ProveForeignKey() | DropForeignKey():
            return f"{step.kind}:{step.foreign_key.name}"
        case Fill():
            return f"{step.kind}:{step.pass_name}"
        case Compare():
            return f"{step.kind}:{step.purpose}"
        case InstallTrigger():
            return f"{step.kind}:{step.event}"
        case SetPercent():
            return f"{step.kind}:{step.percent}"
        case Drain() | Quiet() if step.after:
            return f"{step.kind}:{step.after}"
        case _:
            return step.kind
