"""Every seam of the house, as Protocols. Rooms know each other only through these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, TypeVar

from orchestrator.model.contract import TableName
from orchestrator.model.copying import CopyChange, CopyEnd, CopyStatus, CopyTables
from orchestrator.model.facts import Facts, FlagFacts, Need
from orchestrator.model.outcome import Outcome, Progress, Seen, Signal
from orchestrator.model.runbook import GateSpec, Limits, Runbook
from orchestrator.model.state import Event, Holder, Record, Request
from orchestrator.model.step import Step, StepClass
from orchestrator.model.verdict import Problem, Verdict

StepT = TypeVar("StepT", contravariant=True)


class Beat(Protocol):
    """The one place where long work listens. Call it at least once a second.

    It keeps the lease alive, saves progress, reads requests, judges the checks that are due, and answers. Raises
    ``errors.Fenced`` when the lease was lost: the caller lets that pass and writes nothing more.
    """

    @property
    def epoch(self) -> int: ...

    def __call__(self, progress: Progress) -> Signal: ...


KeepGoing = Callable[[Progress], bool]  # Asked by a scan at least once a second; False ends it. May raise Fenced.


class Phase(Protocol):
    """Pure planner of one stage.

    ``entry_needs`` are looked at once when the phase is entered or planned, for ``problems``; ``needs`` before each
    step.
    """

    @property
    def name(self) -> str: ...

    @property
    def entry_needs(self) -> frozenset[Need]: ...

    @property
    def needs(self) -> frozenset[Need]: ...

    def problems(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Problem]:
        """What no waiting mends; facts that cannot be seen are no problem here (checks hold on them)."""
        ...

    def steps(self, runbook: Runbook, facts: Facts, record: Record) -> Sequence[Step]:
        """Only what is still missing, in order. Raises Held when a fact that the plan hangs on could not be seen."""
        ...


class Check(Protocol):
    """Pure judgement over facts. ``before`` and ``during``: classes of steps before and on whose beats it is due."""

    @property
    def name(self) -> str: ...

    @property
    def needs(self) -> frozenset[Need]: ...

    @property
    def before(self) -> frozenset[StepClass]: ...

    @property
    def during(self) -> frozenset[StepClass]: ...

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict: ...


class Driver(Protocol[StepT]):
    """Effects of one kind of step. Raises only ``errors.RolloutError``; what can be told is an Outcome."""

    def describe(self, step: StepT) -> Sequence[str]:
        """Exactly the statements that would run, one string each, comment tag included. Reads at most; writes
        nothing."""

    def apply(self, step: StepT, beat: Beat) -> Outcome: ...

    def observe(self, step: StepT, beat: Beat) -> Seen:
        """What the server shows of the step. Waits for, or takes back, a statement of ours that is still running; only
        work that may be left undone takes heed of the answers to ``beat``."""

    def abandon(self, step: StepT, beat: Beat) -> Outcome:
        """Clear what a half-done step left, so that nothing but what the state names remains. It goes on whatever
        ``beat`` answers; a lease that was lost (Fenced) ends it before anything is changed that no epoch fences."""


class CopyRun(Protocol):
    """One run of a tool that fills a copy of a table. It never cuts over by itself. Nothing here raises."""

    def status(self) -> CopyStatus | None:
        """The newest that it told; None while it has told nothing."""

    def trouble(self) -> str:
        """Why it must be ended although it runs (silent, deaf, its files gone); "" when all is well."""

    def ended(self) -> CopyEnd | None: ...

    def wait(self, wait: bool) -> None:
        """Stand still, or go on. May be said again at any time."""

    def cut_over(self) -> bool:
        """Allow exactly one attempt. False: it is not in the state to take it."""

    def attempts(self) -> int:
        """How many attempts at the cut-over have begun."""

    def takes_up(self, after_s: float) -> float | None:
        """When, on the clock and later than ``after_s``, it will take up the changes that wait for it: in a cut-over
        the table's users wait until then. Looks once; asked some times in a second it knows it best. None: it has not
        been seen yet, or it takes them up at any time."""

    def end(self) -> None:
        """The program and all that it started are gone afterwards. What it left on the server is not touched."""


class CopyTool(Protocol):
    """A tool that changes a table by filling a copy (gh-ost; Spirit or pt-online-schema-change would be another)."""

    @property
    def name(self) -> str: ...

    def tables(self, table: TableName) -> CopyTables: ...

    def run_lock(self, table: TableName) -> str:
        """The named lock that a running tool holds on the server; "" when it takes none."""

    def command(self, change: CopyChange) -> Sequence[str]:
        """The exact command line, secrets hidden. Raises ConfigurationError when there is no program to run."""

    def start(self, change: CopyChange) -> CopyRun:
        """Raises ConfigurationError; nothing runs then."""

    def began(self, change: CopyChange) -> str:
        """What this machine has of an unfinished run of ours on that table, for a person; "" when there is none."""

    def settle(self, change: CopyChange) -> None:
        """End what runs of ours on that table on this machine. Nothing to do is fine."""

    def clear(self, change: CopyChange) -> None:
        """As ``settle``, and its files are gone."""


class Observer(Protocol):
    """The only reader of servers. Never writes. Never raises for what cannot be seen (only Fenced, which ``keep_going``
    may raise): such a reading says so, also of a scan of the whole table that ``keep_going`` ended."""

    def look(self, needs: frozenset[Need], keep_going: KeepGoing = ...) -> Facts: ...


class Store(Protocol):
    """Where the state lives. Every write has a client-side time-out; none blocks the way back."""

    def load(self, id: str) -> Record | None:
        """The record, or None. Reads only; works before the store was installed. Raises ConfigurationError for a
        newer store."""
        ...

    def rollouts(self) -> Sequence[Record]: ...

    def install(self) -> None:
        """Create or migrate the store's own tables."""
        ...

    def create(self, record: Record, event: Event) -> Record:
        """Begin a rollout. Raises Held when another open rollout is on the same table."""
        ...

    def save(self, record: Record, event: Event) -> Record:
        """Store ``record`` (already moved; its revision is one more than what is stored) and append ``event``.

        One transaction, fenced by ``record.epoch``, compare-and-set on the revision. Raises Fenced; raises CannotSay
        when the server gave no answer and asking again gives none.
        """
        ...

    def history(self, id: str) -> Sequence[Event]: ...

    def progress(self, id: str, epoch: int, progress: Progress) -> None:
        """Best effort: the last figures of running work, for ``status`` and metrics."""
        ...

    def read_progress(self, id: str) -> tuple[Progress, datetime] | None: ...

    def ask(self, id: str, request: Request | None) -> None:
        """Leave a request for the running command; None clears it."""
        ...

    def answered(self, id: str, request: Request) -> None:
        """Clear that request; one that was left after it stays."""
        ...

    def asked(self, id: str) -> Request | None: ...

    def holder(self, id: str) -> Holder | None:
        """Who holds the lease now, or None."""
        ...

    def lease(self, id: str, who: str, reason: str = "") -> AbstractContextManager[Lease]:
        """Take the lease or raise LeaseTaken. Raises the fence of every fenced row (record, positions, flag)."""
        ...

    def bump_epoch(self, id: str) -> int:
        """Fence whoever holds the lease, without taking it: the way back does not wait for a lease."""
        ...

    def purge(self, id: str, epoch: int) -> None:
        """Nothing of the rollout is left. Fenced by the lease's epoch: raises Fenced, and removes nothing, when another
        one stands. One that is gone already is fine: an answer that was lost must not be an error."""
        ...


class Lease(Protocol):
    """Held while its context is open, renewed by a thread of its own as long as ``alive`` is called."""

    @property
    def epoch(self) -> int: ...

    def alive(self) -> None:
        """A sign of life of the main loop. Raises Fenced when the lease was lost."""

    def confirm(self) -> None:
        """For a command whose session was lost: raises Fenced when within a second it shows that the lease was lost.
        Returns when it is ours, or when nobody can say."""


class Flags(Protocol):
    """The flags that applications obey. Every write is fenced by an epoch, except ``lower`` with none.

    ``ttl_s`` None: they do not expire, also when nobody watches any more."""

    @property
    def said(self) -> str:
        """What a program of the user's said to the last write; "" where there is none."""

    def read(self) -> FlagFacts: ...

    def beside(self, new_writes: bool, percent: int) -> Sequence[str]:
        """What is written besides the row to show that, for a plan; nothing where applications ask the row."""

    def open(self, epoch: int, ttl_s: float | None) -> None:
        """Create the row when it is missing; new_writes on, 0 %, expiring in ``ttl_s``."""

    def set_percent(self, epoch: int, percent: int, ttl_s: float | None) -> None: ...

    def renew(self, epoch: int, percent: int, ttl_s: float | None) -> bool:
        """False: the row is not ours any more, shows another percent, or has expired. Never revives an expired flag."""

    def keep(self, epoch: int, percent: int) -> bool: ...

    def lower(self, epoch: int | None) -> None:
        """Readers to 0 %, new writes closed. ``epoch`` None: from another terminal, without the lease; then the row of
        a rollout that is finished stays as it is."""

    def raise_double_writes(self, epoch: int) -> None:
        """Ask applications to write both columns of each pair; it never expires. Makes a row that is missing."""

    def lower_double_writes(self, epoch: int | None) -> None:
        """Applications write one column again. ``epoch`` None: to clear up."""

    def clear(self, epoch: int) -> None:
        """What lies outside of the state is gone, unless a later epoch wrote it. Raises Held when it is not."""


# A sample that was begun: a number, the reason why there is none, or None while it is under way.
Sampling = Callable[[], float | str | None]


class GateRunner(Protocol):
    """Takes samples of gates beside whoever waits for them: a full pass, or a slow command, must not stop a watch.
    ``rows_seen``: of the passes of our own gates together; it moves while one is under way."""

    def begin(self, gate: GateSpec) -> Sampling: ...

    @property
    def rows_seen(self) -> int: ...


class Listener(Protocol):
    """Journal, log, metrics, notification: told of every event, after it was saved. Must not raise."""

    def event(self, record: Record, event: Event) -> None: ...


class Watcher(Protocol):
    """Whoever shows progress to a person."""

    def progress(self, record: Record, step: Step, progress: Progress, signal: Signal) -> None: ...

    def waiting(self, record: Record, verdicts: Sequence[Verdict], waited_s: float) -> None: ...


class Clock(Protocol):
    def monotonic(self) -> float: ...

    def now(self) -> datetime: ...

    def sleep(self, seconds: float) -> None: ...
