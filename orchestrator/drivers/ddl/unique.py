"""A unique index: its duplicates are counted before anything else and again before it is built, and a 1062 at the end
of an online build is believed only when the rows show it.

InnoDB applies what the application writes meanwhile from a log, and compares states that were never there together
(bugs 76895, 98600): a duplicate that no row has. That one is tried again; a real one is shown with its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from msgspec.structs import replace

from orchestrator.model.contract import Index
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.step import AddIndex, CountDuplicates
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.guard import Guard
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.duplicates import count_duplicates, sample_duplicates
from orchestrator.mysql.told import told
from orchestrator.ports import Beat

DUPLICATE = 1062
_TRANSIENT_TRIES = 3


class Duplicates:
    """Counts and shows. Reads only."""

    def __init__(self, site: Site, guard: Guard) -> None:
        self._site = site
        self._guard = guard

    def describe(self, step: CountDuplicates, tag: str) -> str:
        return count_duplicates(step.table, step.index, step.absent, tag)

    def count(self, step: CountDuplicates, tag: str, beat: Beat) -> Outcome:
        """DONE when no two rows are alike; FAILED with groups and keys; what a beat asked for meanwhile."""
        counted = self._guard.read(self.describe(step, tag), beat)
        if isinstance(counted, Outcome):
            return counted
        groups, rows = (int(n) for n in counted[0])
        figures = {"duplicate_groups": float(groups), "duplicate_rows": float(rows)}
        if groups == 0:
            return Outcome(
                Result.DONE, f"no two rows are alike in {step.index.name}; {_rule(step.index)}", figures=figures
            )
        sample = self._sample(step, tag, beat)
        if isinstance(sample, Outcome):
            return sample
        shown = "; ".join(f"{n} rows with ({value}), keys {low} … {high}" for n, value, low, high in sample)
        return Outcome(
            Result.FAILED,
            f"{rows} rows of {step.table} are duplicates in {step.index.name}, in {groups} groups: {shown}",
            f"no two rows that are alike as its columns' collations compare; {_rule(step.index)}",
            "mend the rows, then the same command again",
            figures=figures,
            evidence=sample,
        )

    def build(self, step: AddIndex, tag: str, beat: Beat, built: Callable[[], Outcome]) -> Outcome:
        """Count, build, and after a 1062 count again: tried anew, a few times, while no row shows it."""
        count = CountDuplicates(table=step.table, index=step.index)
        outcome = Outcome(Result.FAILED)
        for lost in range(_TRANSIENT_TRIES):
            counted = self.count(count, tag, beat)
            if counted.result is not Result.DONE:
                return counted
            outcome = built()
            if not is_duplicate(outcome):
                return replace(outcome, note=f"{outcome.note}; {_transient(lost)}") if lost else outcome
        counted = self.count(count, tag, beat)
        if counted.result is not Result.DONE:
            return counted
        return Outcome(
            Result.HELD,
            f"{step.index.name} was lost {_TRANSIENT_TRIES} times to a transient duplicate in the online log: "
            f"{outcome.note}; no row has it",
            "a moment without rows that take and give up one value",
            "no row must be mended: the same command again in a quieter hour",
            figures=outcome.figures,
        )

    def _sample(self, step: CountDuplicates, tag: str, beat: Beat) -> tuple[tuple[str, ...], ...] | Outcome:
        try:
            with closing(self._site.connect("count")) as session:
                shape = read_shape(session, step.table)
        except ServerError as error:
            raise told(error, "while duplicate rows were looked up") from error
        key = shape.key if shape is not None else ()
        rows = self._guard.read(sample_duplicates(step.table, step.index, step.absent, key, tag), beat)
        if isinstance(rows, Outcome):
            return rows
        return tuple((str(n), _text(value), _text(low), _text(high)) for n, value, low, high in rows)


def is_duplicate(outcome: Outcome) -> bool:
    """Whether the server refused the build with 1062."""
    return bool(outcome.evidence) and outcome.evidence[0][0] == str(DUPLICATE)


def _transient(lost: int) -> str:
    return f"{lost} builds were lost to a transient duplicate in the online log, which no row has"


def _rule(index: Index) -> str:
    names = ", ".join(p.expression or p.column for p in index.parts)
    return f"a row with NULL in any of ({names}) is nobody's duplicate"


def _text(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
