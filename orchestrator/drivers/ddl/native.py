"""MySQL's own online DDL: one statement for each step, its algorithm named, under the guard."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from orchestrator.drivers.ddl.standing import standing
from orchestrator.drivers.ddl.unique import DUPLICATE, Duplicates
from orchestrator.model.keys import show_key
from orchestrator.model.outcome import Outcome, Result, Seen
from orchestrator.model.step import (
    AddIndex,
    CountDuplicates,
    DroppingStep,
    ExclusiveDdlStep,
    NativeDdlStep,
    ProveForeignKey,
    RenameColumn,
    step_key,
)
from orchestrator.mysql.carry import Carrier, Judged
from orchestrator.mysql.errno import NO_ROOM, ServerError
from orchestrator.mysql.guard import Build, Exclusive, Guard, ReplicaLook
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.alter import alter, count_orphans, pins, sample_orphans
from orchestrator.mysql.told import told
from orchestrator.ports import Beat

_NOT_THIS_WAY = frozenset({1845, 1846, 1221, 4157})
_ROW_VERSIONS_USED_UP = 4092
_ONLINE_LOG_FULL = 1799


class NativeDdlDriver:
    """Driver of every NativeDdlStep. ``replicas`` shows who holds the family there; None when there are none."""

    def __init__(self, site: Site, replicas: ReplicaLook | None = None) -> None:
        self._site = site
        self._guard = Guard(site, replicas)
        self._carrier = Carrier(site, replicas)
        self._duplicates = Duplicates(site, self._guard)

    def describe(self, step: NativeDdlStep) -> Sequence[str]:
        if isinstance(step, ProveForeignKey):
            return (count_orphans(step.table, step.foreign_key, self._tag(step)),)
        if isinstance(step, CountDuplicates):
            return (self._duplicates.describe(step, self._tag(step)),)
        return self._work(step).statements

    def apply(self, step: NativeDdlStep, beat: Beat) -> Outcome:
        if isinstance(step, ProveForeignKey):
            return self._prove(step, beat)
        if isinstance(step, CountDuplicates):
            return self._duplicates.count(step, self._tag(step), beat)
        if isinstance(step, AddIndex) and step.index.unique and self.observe(step, beat) is Seen.ABSENT:
            unique = step
            return self._duplicates.build(unique, self._tag(step), beat, lambda: self._carried(unique, beat))
        return self._carried(step, beat)

    def _carried(self, step: ExclusiveDdlStep, beat: Beat) -> Outcome:
        return self._carrier.apply(self._tag(step), lambda s: self._judge(s, step), refused, beat)

    def observe(self, step: NativeDdlStep, beat: Beat) -> Seen:
        """A proof or a count leaves nothing on the server, so it is never found done."""
        if isinstance(step, ProveForeignKey | CountDuplicates):
            return self._carrier.observe(self._tag(step), lambda _: Judged(Seen.ABSENT), beat)
        wanted = step
        return self._carrier.observe(self._tag(step), lambda s: self._judge(s, wanted), beat)

    def abandon(self, step: NativeDdlStep, beat: Beat) -> Outcome:
        """Takes back what still runs. What took effect stays: the old application does not see it."""
        seen = self.observe(step, beat)
        match seen:
            case Seen.UNKNOWN:
                return Outcome(Result.UNKNOWN, f"nobody can say what became of {step_key(step)}")
            case Seen.ABSENT:
                return Outcome(Result.DONE, f"{step_key(step)} left nothing behind")
            case Seen.PARTIAL | Seen.PRESENT:
                return Outcome(Result.DONE, f"{step_key(step)} took effect and stays ({seen.value})")

    def _judge(self, session: Session, step: ExclusiveDdlStep) -> Judged:
        found = standing(step, read_shape(session, step.table))
        work = self._work(found.left) if found.left is not None and not found.problem else None
        return Judged(found.seen, work, found.problem, "make the runbook fit the table, or the table the runbook")

    def _work(self, step: ExclusiveDdlStep) -> Exclusive:
        tag = self._tag(step)
        settings = self._site.runbook.phases
        build = None
        if isinstance(step, AddIndex):
            build = Build(step.final_lock_budget_s, step.tries)
        elif step.way.rebuilds:
            build = Build(settings.final_lock_budget_s, settings.index_tries)
        # The way back does not wait for hours.
        back = isinstance(step, DroppingStep) or (isinstance(step, RenameColumn) and step.back)
        window = None if back else settings.window
        return Exclusive(alter(step, tag), tag, step.family, pins(step), build, window)

    def _tag(self, step: NativeDdlStep) -> str:
        return self._site.tag(step_key(step))

    def _prove(self, step: ProveForeignKey, beat: Beat) -> Outcome:
        """DONE when every child has its parent; FAILED with their number and some keys when not."""
        counted = self._guard.read(count_orphans(step.table, step.foreign_key, self._tag(step)), beat)
        if isinstance(counted, Outcome):
            return counted
        orphans = int(counted[0][0])
        if orphans == 0:
            return Outcome(
                Result.DONE, f"every row of {step.foreign_key.name} has its parent", figures={"orphan_rows": 0.0}
            )
        sample = self._sample(step, beat)
        if isinstance(sample, Outcome):
            return sample
        return Outcome(
            Result.FAILED,
            f"{orphans} rows of {step.table} name a row of {step.foreign_key.references} that is not there"
            f" ({step.foreign_key.name}); the first: {', '.join(row[0] for row in sample)}",
            "no child without its parent",
            "mend or clear these rows, then the same command again",
            figures={"orphan_rows": float(orphans)},
            evidence=sample,
        )

    def _sample(self, step: ProveForeignKey, beat: Beat) -> tuple[tuple[str, ...], ...] | Outcome:
        """(key, missing parent) of some orphans, or what a beat asked for meanwhile."""
        try:
            with closing(self._site.connect("prove")) as session:
                shape = read_shape(session, step.table)
        except ServerError as error:
            raise told(error, "while rows without a parent were looked up") from error
        key = shape.key if shape is not None else ()
        rows = self._guard.read(sample_orphans(step.table, step.foreign_key, key, self._tag(step)), beat)
        if isinstance(rows, Outcome):
            return rows
        return tuple((show_key(row[: len(key)]), show_key(row[len(key) :])) for row in rows)


def refused(error: ServerError) -> Outcome:
    """The server will not do it; it never falls back to something dearer by itself."""
    seen = f"the server says {error.number} {error.text}"
    if error.number == DUPLICATE:
        return Outcome(
            Result.FAILED,
            f"the unique index cannot be built: {seen}",
            "rows that differ in the index's columns (NULLs apart, as its collation compares)",
            "mend the rows, then the same command again",
            evidence=((str(DUPLICATE), error.text),),
        )
    if error.number == _ONLINE_LOG_FULL:
        return Outcome(
            Result.HELD,
            f"the application wrote more during the build than its log of changes may hold; the build is lost: {seen}",
            "an hour with fewer writes, or a longer log",
            "raise innodb_online_alter_log_max_size (SET PERSIST, in bytes), or wait for a quieter hour, or say why in"
            " allow_rebuild and take engine: gh-ost; then the same command again",
        )
    if error.number in NO_ROOM:
        return Outcome(
            Result.FAILED,
            f"the server has no room for it, and took it back: {seen}",
            "room for the index or the new rows, and for what is sorted meanwhile",
            "free space where the server keeps its data and its temporary files (datadir, innodb_tmpdir, tmpdir);"
            " then the same command again",
        )
    if error.number in _NOT_THIS_WAY:
        return Outcome(
            Result.FAILED,
            seen,
            "a change that the server makes with the algorithm that was named",
            "write the change in another form; a copy of the table is never chosen by itself",
        )
    if error.number == _ROW_VERSIONS_USED_UP:
        return Outcome(
            Result.FAILED,
            seen,
            "a table with row versions left",
            "rebuild it in a quiet hour (ALTER TABLE … FORCE), then the same command again",
        )
    return Outcome(
        Result.FAILED, seen, "a statement that the server takes", "mend what it says, then the same command again"
    )
