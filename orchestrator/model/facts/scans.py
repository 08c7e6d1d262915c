"""What passes over the whole table found: live values, drift, what going back would lose, and how far each came."""

from __future__ import annotations

from msgspec import Struct

# The problem of a new column's value that neither the mapping nor the default explains.
SOMEBODYS = "somebody's"
# The problem of a NULL in a column of which the contract says NOT NULL.
NULLS = "NULL, where the contract says NOT NULL"
# The problems of a row that would break a CHECK of the contract, and of a CHECK that cannot be asked of rows.
BROKEN, UNTRIED = "broken", "untried"


class ValueCount(Struct, frozen=True):
    """One live value that stands in the contract's way, and in how many rows; keys are readable text. ``mapping``: the
    mapping that does not know it or whose new column cannot hold it, or what else is in question."""

    mapping: str
    value: str
    rows: int
    keys: tuple[str, ...]
    problem: str


class ValueScan(Struct, frozen=True):
    """What the values that exist do to the mappings. ``complete`` is False when the scan was cut (time or rows)."""

    rows_scanned: int
    complete: bool
    problems: tuple[ValueCount, ...]


# The class of rows that hold something in a column which a rollback with ``ddl: drop`` takes away.
DROPPED = "dropped"


class MismatchClass(Struct, frozen=True):
    """``name``: missing, stale, unmapped, unfit, conflict, derived-empty, invariant:…, check:… (mismatches); or
    lossy-ok and other-form (counted only)."""

    name: str
    mapping: str
    rows: int
    keys: tuple[str, ...]


class DriftFacts(Struct, frozen=True):
    rows_compared: int
    mismatches: int
    classes: tuple[MismatchClass, ...] = ()


class MeterFacts(Struct, frozen=True):
    """What going back would lose: rows whose new value the way back cannot carry, by class."""

    classes: tuple[MismatchClass, ...]

    @property
    def rows(self) -> int:
        return sum(c.rows for c in self.classes)


class Position(Struct, frozen=True):
    """How far a keyed pass has come. Keys are the typed text of ``model.keys``; None is the open end."""

    walk: int
    pass_name: str
    range_no: int
    lo: str | None
    hi: str | None
    position: str | None
    epoch: int
    rows_done: int
    rows_changed: int
    rows_skipped: int
    done: bool
