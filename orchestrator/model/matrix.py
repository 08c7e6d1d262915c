"""The read/write matrix: what each application version does to each column in each shape of the table, and where one of
its statements fails.

It is found by running the declared statements on scratch copies (``rollout compat``), is bound to the contract that it
was found for, and is what a plan, a decision record and a person read. Pure.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

from msgspec import Struct

Version = Literal["old", "new"]
VERSIONS: tuple[Version, ...] = ("old", "new")


class ShapeName(Enum):
    """The shapes of the table that statements meet. ROLLED_BACK: the mirror is down again and the columns stay;
    DROPPED: a way back with ``rollback: {ddl: drop}``, which also takes renames back."""

    BEFORE = "before"
    EXPANDED = "after ddl"
    MIRRORED = "mirror on"
    ROLLED_BACK = "after rollback"
    DROPPED = "after a drop"


SHAPES = tuple(ShapeName)

# Which shapes a stage passes through, in order.
STAGE_SHAPES: dict[str, tuple[ShapeName, ...]] = {
    "ddl": (ShapeName.BEFORE, ShapeName.EXPANDED),
    "backfill": (ShapeName.EXPANDED,),
    "shadow-write": (ShapeName.EXPANDED, ShapeName.MIRRORED),
    "read-switch": (ShapeName.MIRRORED,),
    "verify": (ShapeName.MIRRORED,),
    "rollback": (ShapeName.MIRRORED, ShapeName.ROLLED_BACK, ShapeName.DROPPED),
    "finish": (ShapeName.MIRRORED, ShapeName.EXPANDED),
}

# Where a version runs: the old application until ``finish``, the new one from the end of ddl on, and never where its
# columns are gone.
RUNS: dict[Version, frozenset[ShapeName]] = {
    "old": frozenset(SHAPES),
    "new": frozenset({ShapeName.EXPANDED, ShapeName.MIRRORED, ShapeName.ROLLED_BACK}),
}


class Access(Enum):
    """What one version does to one column in one shape; FAILS: a statement that names the column fails there."""

    NONE = ""
    READS = "reads"
    WRITES = "writes"
    BOTH = "both"
    FAILS = "fails"


class HazardKind(Enum):
    """What no error shows: the statement goes on and means something else."""

    SELECT_STAR = "select-star"
    INSERT_WITHOUT_COLUMNS = "insert-without-columns"
    NATURAL_JOIN = "natural-join"


class Spoken(Struct, frozen=True):
    """One statement of a version, and the columns of the table that it reads and writes, by their names in the shape
    after ddl where it runs there, else before."""

    version: Version
    text: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.reads) | frozenset(self.writes)


class Failure(Struct, frozen=True):
    """A statement that fails in a shape. ``number``: the server's; 0 where no error shows it, and ``text`` says what
    is otherwise then."""

    version: Version
    shape: ShapeName
    statement: str
    number: int
    text: str

    @property
    def refuses(self) -> bool:
        """Whether its version runs in that shape."""
        return self.shape in RUNS[self.version]

    @property
    def error(self) -> str:
        """The server's number and text; the text alone where no error shows it."""
        return f"{self.number} {self.text}" if self.number else self.text

    def __str__(self) -> str:
        return f"{self.version}, {self.shape.value}: {self.error}: {self.statement}"


class Hazard(Struct, frozen=True):
    """``told``: one sentence on what becomes of the statement."""

    version: Version
    kind: HazardKind
    statement: str
    told: str


class Matrix(Struct, frozen=True):
    """The proof. ``digest``: of the contract that it was found for. ``server``: the version that said so. ``columns``:
    of the table after ddl in their order, then those whose name a rename took. ``unproven``: what could not be tried,
    a sentence each."""

    digest: str
    server: str
    columns: tuple[str, ...]
    statements: tuple[Spoken, ...]
    failures: tuple[Failure, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    unproven: tuple[str, ...] = ()

    @property
    def refusals(self) -> tuple[Failure, ...]:
        """Failures of a version in a shape in which it runs: each of them refuses the runbook."""
        return tuple(f for f in self.failures if f.refuses)

    def access(self, version: Version, shape: ShapeName, column: str) -> Access:
        """One cell. NONE where the version says nothing of the column, or does not run in that shape."""
        if shape not in RUNS[version]:
            return Access.NONE
        naming = [s for s in self.statements if s.version == version and column in s.names]
        failed = {f.statement for f in self.failures if (f.version, f.shape) == (version, shape)}
        if any(s.text in failed for s in naming):
            return Access.FAILS
        reads, writes = any(column in s.reads for s in naming), any(column in s.writes for s in naming)
        if reads and writes:
            return Access.BOTH
        return Access.READS if reads else Access.WRITES if writes else Access.NONE

    def failing(self, version: Version, shape: ShapeName) -> tuple[Failure, ...]:
        """All statements of the version that fail in that shape, whether it runs there or not."""
        return tuple(f for f in self.failures if (f.version, f.shape) == (version, shape))
