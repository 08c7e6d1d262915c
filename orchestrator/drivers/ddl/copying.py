"""A change of the table by a tool that fills a copy and swaps it in, under our beats, whatever tool it is.

The tool's word is never the last: after its end the shape of the table says whether the change took effect. What it
left is told apart by exact names, our mark and the comment of a stand-in; the old table is data and is dropped only
when the runbook says so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import closing

from msgspec.structs import replace

from orchestrator.drivers.ddl.cutover import CutOver
from orchestrator.drivers.ddl.leftovers import Leftovers
from orchestrator.drivers.ddl.marked import Copying, mark_of, put_mark
from orchestrator.drivers.ddl.standing import changed_since, copy_standing, under_former_name
from orchestrator.errors import RolloutError
from orchestrator.model.contract import TableName
from orchestrator.model.copying import CopyChange, CopyStatus
from orchestrator.model.facts import Shape
from orchestrator.model.outcome import Outcome, Progress, Result, Seen, SignalKind, goes_on
from orchestrator.model.rate import RecentRate
from orchestrator.model.step import GhostAlter, step_key
from orchestrator.mysql import copied
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.guard import Guard
from orchestrator.mysql.look.discovery import find_replicas
from orchestrator.mysql.quiet import ReplicaLook, stopping
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.alter import copy_clauses
from orchestrator.mysql.sql.duplicates import count_duplicates
from orchestrator.mysql.told import told
from orchestrator.ports import Beat, CopyRun, CopyTool

_BEAT_EVERY_S = 0.25
_OTHERWISE = "mend it, or choose phases.ddl.engine: native; then the same command again"


class CopyDriver:
    """Driver of GhostAlter. ``replicas`` shows who holds the table there; None when there are none."""

    def __init__(self, site: Site, tool: CopyTool, replicas: ReplicaLook | None = None) -> None:
        self._site = site
        self._tool = tool
        self._replicas = replicas
        self._guard = Guard(site, replicas)

    def describe(self, step: GhostAlter) -> Sequence[str]:
        with closing(self._site.connect("look")) as session:
            try:
                lead = f"-- {self._tool.name}: {step.why}{_documents(read_shape(session, step.table))}"
                return (lead, *self._tool.command(self._change(session, step)))
            except ServerError as error:
                raise told(error, "while the command line was made") from error
            except ValueError as wrong:
                return (f"-- {self._tool.name} cannot be told {wrong}",)

    def apply(self, step: GhostAlter, beat: Beat) -> Outcome:
        with closing(self._site.connect("copy")) as session:
            try:
                return self._apply(session, step, beat)
            except ServerError as error:
                raise told(error, f"while {self._tool.name} worked on {step.table}", "rollout doctor") from error

    def observe(self, step: GhostAlter, beat: Beat) -> Seen:
        """Ends what still runs of ours on this machine and what the server still runs for it; then the table says it.
        A change that took effect is tidied up behind."""
        return self._found(step, beat, drop_old=self._drops_old)

    def _found(self, step: GhostAlter, beat: Beat, *, drop_old: bool) -> Seen:
        with closing(self._site.connect("look")) as session:
            try:
                left = self._leftovers(session, step, beat)
                if not left.settle():
                    return Seen.UNKNOWN
                found = copy_standing(step, read_shape(session, step.table))
                done = found.seen is Seen.PRESENT or (_only_rebuilds(step) and left.swapped())
                if done:
                    left.tidy(drop_old=drop_old and self._old_is_as_before(session, step, left))
                    return Seen.PRESENT
                return Seen.PARTIAL if left.ours() else found.seen
            except ServerError as error:
                raise told(error, f"while looking for what became of {step_key(step)}") from error

    def abandon(self, step: GhostAlter, beat: Beat) -> Outcome:
        """The copy, its log and checkpoints, sockets and files go. A swap that took effect stays, and the old table."""
        seen = self._found(step, beat, drop_old=False)
        if seen is Seen.UNKNOWN:
            return Outcome(Result.UNKNOWN, f"nobody can say what became of {step_key(step)}")
        with closing(self._site.connect("look")) as session:
            try:
                gone = self._leftovers(session, step, beat).tidy(drop_old=False)
            except ServerError as error:
                raise told(error, f"while {step_key(step)} was cleared") from error
        if seen is Seen.PRESENT:
            return Outcome(Result.DONE, f"{step_key(step)} took effect and stays{f'; {gone}' if gone else ''}")
        return Outcome(Result.DONE, f"{step_key(step)} left nothing behind{f' ({gone})' if gone else ''}")

    def _apply(self, session: Session, step: GhostAlter, beat: Beat) -> Outcome:
        shape = read_shape(session, step.table)
        found = copy_standing(step, shape)
        if found.seen is Seen.PRESENT:
            return Outcome(Result.DONE, "was there already")
        if shape is None or found.left is None:
            return Outcome(Result.FAILED, found.problem, "a table that the step fits", "make the runbook fit the table")
        try:
            change = self._change(session, found.left)
        except ValueError as wrong:
            seen = f"{self._tool.name} cannot be told {wrong}"
            return Outcome(Result.FAILED, seen, "clauses that mean one thing only", _OTHERWISE)
        if refused := self._refused(session, found.left, shape, beat):
            return refused
        mark = mark_of(change, shape)
        left = self._leftovers(session, step, beat)
        judged = left.judge(mark, may_resume=change.gtid)
        if isinstance(judged, Outcome):
            return judged
        change, names = replace(change, resume=judged), self._tool.tables(step.table)
        return self._run(step, Copying(session, change, shape, mark, names, left.taken_over), beat)

    def _run(self, step: GhostAlter, copying: Copying, beat: Beat) -> Outcome:
        """The run from its start to its end, and what the table shows then. Nothing of ours runs afterwards."""
        session, clock = copying.session, self._site.clock
        began = clock.monotonic()
        run = self._tool.start(copying.change)
        try:
            stopped = self._accompany(copying, run, beat)
        except ServerError:
            run.end()
            self._clear_quietly(step, beat)
            raise
        finally:
            run.end()
        left = self._leftovers(session, step, beat)
        if not left.settle():
            return Outcome(Result.UNKNOWN, f"a statement of {self._tool.name} does not end on the server")
        figures = {"seconds": round(clock.monotonic() - began, 3), **stopped.figures}
        after = copy_standing(step, read_shape(session, step.table))
        if after.seen is Seen.PRESENT or (_only_rebuilds(step) and left.swapped()):
            return self._swapped(copying, left, figures)
        left.tidy(drop_old=False)
        return replace(stopped, figures=figures)

    def _swapped(self, copying: Copying, left: Leftovers, figures: dict[str, float]) -> Outcome:
        """What became of the old table. DDL of somebody's that came between our last look and the swap is in it alone:
        then it stays, whatever the runbook says."""
        old = read_shape(copying.session, copying.old)
        if reasons := changed_since(copying.shape, old) if old is not None else ():
            left.tidy(drop_old=False)
            return Outcome(
                Result.FAILED,
                f"the table was swapped, and lacks what somebody changed at the last moment: {'; '.join(reasons)}",
                f"{copying.old} as {copying.change.table} was before the copy",
                f"make that change again on {copying.change.table}, fetch what was written into it from {copying.old}"
                " (kept), drop that; then the same command again",
                figures=figures,
            )
        kept = left.tidy(drop_old=self._drops_old)
        resumed = copying.change.resume
        how = "went on from a checkpoint, and the table was swapped" if resumed else "the table was swapped"
        also = [x for x in (kept, _told(copying.taken_over)) if x]
        return Outcome(Result.DONE, "; ".join([how, *also]), figures=figures)

    @property
    def _drops_old(self) -> bool:
        return self._site.runbook.phases.gh_ost.drop_old_table

    def _old_is_as_before(self, session: Session, step: GhostAlter, left: Leftovers) -> bool:
        """Whether the mark that is left says that the old table is still the one of which the copy was begun."""
        if not (mark := left.mark()):
            return False
        where = self._where(session, step)
        shape = read_shape(session, TableName(step.table.schema, self._tool.tables(step.table).old))
        if shape is None or (missing := copy_standing(step, shape).left) is None:
            return False
        change = replace(where, alter=copy_clauses(missing))
        return mark == mark_of(change, under_former_name(shape, step.table))

    def _clear_quietly(self, step: GhostAlter, beat: Beat) -> None:
        """A server that is gone keeps what it has until the next command, which knows it by its mark."""
        with contextlib.suppress(ServerError, RolloutError):
            self.abandon(step, beat)

    def _accompany(self, copying: Copying, run: CopyRun, beat: Beat) -> Outcome:
        """Beat until it ends, or has to be ended. What is told is why, in case that the table shows no change."""
        clock, limits = self._site.clock, self._site.runbook.limits
        swap = CutOver(self._site, run, copying, self._replicas)
        marked, waits_since, throttled_s, rate = False, None, 0.0, RecentRate()
        began = last = clock.monotonic()
        while True:
            if end := run.ended():
                return Outcome(
                    Result.FAILED,
                    f"{self._tool.name} ended with {end.code}, the table is as it was: {end.words}",
                    "a swap that the table shows",
                    "mend what it says, then the same command again",
                    figures=swap.figures(),
                )
            if trouble := run.trouble():
                return Outcome(
                    Result.FAILED,
                    f"{trouble}; it was ended, the table is as it was",
                    f"a {self._tool.name} that works and answers",
                    "look at the server and its replicas, then the same command again",
                    figures=swap.figures(),
                )
            status = run.status()
            marked = marked or (status is not None and put_mark(copying))
            now = clock.monotonic()
            throttled_s, last = (throttled_s + now - last if waits_since is not None else throttled_s), now
            signal = beat(_progress(status, now - began, throttled_s, rate, copying.taken_over))
            if not goes_on(signal):
                return replace(stopping(signal), figures=swap.figures())
            run.wait(signal.kind is SignalKind.HOLD)
            waits = status is not None and bool(status.throttled_by)
            waits_since = (waits_since or now) if waits or signal.kind is SignalKind.HOLD else None
            if waits and status is not None and waits_since is not None and now - waits_since > limits.max_wait_s:
                seen = f"{self._tool.name} has waited for {now - waits_since:.0f} s: {status.throttled_by}"
                return Outcome(Result.HELD, seen, "replicas that keep up", "mend that, then the same command again")
            if status is not None and status.ready and marked and signal.kind is SignalKind.GO:
                if (stopped := swap.give(beat)) is not None:
                    return stopped
                continue
            clock.sleep(_BEAT_EVERY_S)

    def _refused(self, session: Session, step: GhostAlter, shape: Shape, beat: Beat) -> Outcome | None:
        """What no copy may be made of, found before anything is."""
        if reasons := list(copied.refusals(session, shape)):
            seen = f"{step.table} cannot have {self._tool.name}: {'; '.join(reasons)}"
            return Outcome(Result.FAILED, seen, "a table and sessions of which a copy loses nothing", _OTHERWISE)
        for index in step.indexes:
            if not index.unique or any(shape.column(c) is None for c in index.columns):
                continue
            counted = self._guard.read(count_duplicates(step.table, index, (), self._site.tag(step_key(step))), beat)
            if isinstance(counted, Outcome):
                return counted
            if groups := int(counted[0][0]):
                seen = f"{groups} values are there more than once: the unique index {index.name} would lose their rows"
                return Outcome(Result.FAILED, seen, "no duplicates", "mend these rows, then the same command again")
        return None

    def _leftovers(self, session: Session, step: GhostAlter, beat: Beat) -> Leftovers:
        return Leftovers(self._site, self._tool, session, self._where(session, step), beat)

    def _change(self, session: Session, step: GhostAlter) -> CopyChange:
        """Raises ServerError; ValueError when the clauses cannot be told to such a tool."""
        return replace(self._where(session, step), alter=copy_clauses(step))

    def _where(self, session: Session, step: GhostAlter) -> CopyChange:
        settings, runbook = self._site.settings, self._site.runbook
        way = copied.read_way(session)
        late = set(runbook.replicas.delayed)
        addresses = [a for a in find_replicas(session, runbook.replicas) if a.hosts and a.name not in late]
        return CopyChange(
            rollout=runbook.id,
            table=step.table,
            alter="",
            host="127.0.0.1" if settings.socket else settings.host,
            port=way.port if settings.socket else settings.port,
            server_version=way.version,
            replicas=tuple(f"{a.hosts[0]}:{a.port}" for a in addresses),
            gtid=way.gtid,
            encrypted=way.encrypted,
            chunk_rows=runbook.phases.gh_ost.chunk_rows,
            max_lag_s=runbook.limits.replication_lag_s,
            threads_running=runbook.limits.threads_running,
        )


def _documents(shape: Shape | None) -> str:
    """What such tools do to JSON on its way through the binary log; "" where there is none."""
    names = [c.name for c in shape.columns if c.type.base == "json"] if shape is not None else []
    if not names:
        return ""
    return (
        f"; documents in {', '.join(names)} that are written meanwhile may come out in another form:"
        " a DECIMAL in them as a string, a DATE with a time"
    )


def _only_rebuilds(step: GhostAlter) -> bool:
    return not (step.columns or step.changes or step.indexes)


def _told(taken_over: str) -> str:
    return f"took over from a run that died: {taken_over}" if taken_over else ""


def _progress(
    status: CopyStatus | None, elapsed_s: float, throttled_s: float, rate: RecentRate, taken_over: str
) -> Progress:
    if status is None:
        return Progress(note=_told(taken_over) or "starting", elapsed_s=elapsed_s)
    return Progress(
        done=status.copied_rows,
        total=max(status.total_rows, 0),
        rate_per_s=rate.per_s(elapsed_s, status.copied_rows),
        note=status.note,
        throttled_s=round(throttled_s, 3),
        throttled_by=status.throttled_by,
        elapsed_s=elapsed_s,
        estimated=True,
    )
