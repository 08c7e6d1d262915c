"""The mirror as the applications' own double writes: a flag asks them for it, and a proof shows that they do.

Nothing of ours stands in the database but one row. So nothing of ours can fail a statement, and nothing of ours helps
a writer that does not obey: what the proof did not see, the comparisons of whole tables find.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from msgspec.structs import replace

from orchestrator.errors import ServerUnreachable
from orchestrator.model.outcome import Outcome, Progress, Result, Seen, Signal, SignalKind, goes_on, stopped_by
from orchestrator.model.step import Compare, FlagMirrorStep, ProveDoubleWrites, RaiseDoubleWrites
from orchestrator.mysql.digests import MAKE_ROOM, Said, keeps_digests, one_sided, said_since, server_now
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.evidence import digests_since
from orchestrator.mysql.sql.flag import describe_double_writes
from orchestrator.mysql.told import refuse_unread
from orchestrator.ports import Beat, Driver, Flags

_TICK_S = 0.25
_LOOK_S = 1.0
_MOST_NAMED = 3


class FlagMirrorDriver:
    """Driver of RaiseDoubleWrites, and of RemoveMirror where a flag is the mirror. Writes only the flag row.

    Whether the mirror may come down at all (meter, drain, quiet) is asked before; here it only goes.
    """

    def __init__(self, site: Site, flags: Flags) -> None:
        self._site = site
        self._flags = flags

    def describe(self, step: FlagMirrorStep) -> Sequence[str]:
        raised = isinstance(step, RaiseDoubleWrites)
        return describe_double_writes(self._site.runbook.id, raised, self._site.settings.state_schema)

    def apply(self, step: FlagMirrorStep, beat: Beat) -> Outcome:
        signal = beat(Progress())
        if not goes_on(signal):
            return stopped_by(signal)
        if self.observe(step, beat) is Seen.PRESENT:
            return Outcome(Result.DONE, "was there already")
        if isinstance(step, RaiseDoubleWrites):
            self._flags.raise_double_writes(beat.epoch)
            return Outcome(Result.DONE, "double_writes is raised: the applications write both columns")
        self._flags.lower_double_writes(beat.epoch)
        return Outcome(Result.DONE, "double_writes is lowered: the applications write one column")

    def observe(self, step: FlagMirrorStep, beat: Beat) -> Seen:
        raised = self._flags.read().double_writes
        return Seen.PRESENT if raised is isinstance(step, RaiseDoubleWrites) else Seen.ABSENT

    def abandon(self, step: FlagMirrorStep, beat: Beat) -> Outcome:
        """A flag that was raised without being recorded goes down; one that was being lowered is left as it is."""
        if isinstance(step, RaiseDoubleWrites):
            self._flags.lower_double_writes(None)
            return Outcome(Result.DONE, "double_writes is lowered")
        return Outcome(Result.DONE, "nothing is half done")


class DoubleWriteProof:
    """Driver of ProveDoubleWrites. ``rows`` compares rows that changed of late. Writes nothing."""

    def __init__(self, site: Site, rows: Driver[Compare]) -> None:
        self._site = site
        self._clock = site.clock
        self._rows = rows

    def describe(self, step: ProveDoubleWrites) -> Sequence[str]:
        pairs = ", ".join(f"{old} and {new}" for old, new in step.pairs)
        return (
            f"-- {step.seconds:g} s in which every sampled statement that stores one of {pairs} stores the other one",
            digests_since(1),
            "-- and in which rows that changed correspond",
            *self._rows.describe(_moved(step)),
        )

    def apply(self, step: ProveDoubleWrites, beat: Beat) -> Outcome:
        """DONE when it is proven; FAILED when rows that changed do not correspond; HELD when a statement is seen that
        stores one column without its partner, for as long as ``max_wait``."""
        try:
            with closing(self._site.connect("proof")) as session:
                return self._proven(step, beat, session)
        except (ServerError, ServerUnreachable) as error:
            refuse_unread(self._site, error, "proving double writes")
            return Outcome(Result.HELD, f"cannot be seen: {error}", "a server that shows its statements")

    def observe(self, step: ProveDoubleWrites, beat: Beat) -> Seen:
        return Seen.ABSENT

    def abandon(self, step: ProveDoubleWrites, beat: Beat) -> Outcome:
        return Outcome(Result.DONE, "nothing is half done")

    def _proven(self, step: ProveDoubleWrites, beat: Beat, session: Session) -> Outcome:
        """Only time counts in which every check passes and no statement was seen that writes one side."""
        if not keeps_digests(session):
            return _blind()
        began, since = self._clock.monotonic(), server_now(session)
        proven = _Proven(step.seconds, began)
        while True:
            signal = beat(proven.progress())
            if not goes_on(signal):
                return stopped_by(signal)
            rows = self._rows.apply(_moved(step), beat)
            found = _one_sided(said_since(session, since, (step.table.name,)), step)
            if rows.result is not Result.DONE:
                return _with_statements(rows, found, step)
            proven.rows += int(rows.figures.get("rows_compared", 0))
            proven.passed(self._clock.monotonic(), rows.figures.get("throttled_s", 0.0), signal, found)
            if found:
                since = max(said.last for said in found)
            elif proven.passed_s >= step.seconds:
                return _done(step, proven)
            if self._clock.monotonic() - began > step.seconds + self._site.runbook.limits.max_wait_s:
                return _named(proven.found, step) if proven.found else _unproven(proven, step)
            self._clock.sleep(min(_LOOK_S, max(_TICK_S, step.seconds - proven.passed_s)))


class _Proven:
    """How long, and over how many rows, the proof has held by now; ``found``: what broke it last."""

    def __init__(self, wanted_s: float, now: float) -> None:
        self._wanted_s = wanted_s
        self._last = now
        self.passed_s = 0.0
        self.rows = 0
        self.found: list[Said] = []

    def passed(self, now: float, waited_s: float, signal: Signal, found: list[Said]) -> None:
        """``waited_s``: how much of the time since the last look checks held."""
        if found:
            self.passed_s = 0.0
        elif signal.kind is SignalKind.GO:
            self.passed_s += max(0.0, now - self._last - waited_s)
        self._last = now
        self.found = found or self.found

    def progress(self) -> Progress:
        note = f"double writes: {self.found[0]}" if self.found and not self.passed_s else "double writes"
        return Progress(round(self.passed_s), round(self._wanted_s), "s", 1.0, note)


def _moved(step: ProveDoubleWrites) -> Compare:
    return Compare(
        table=step.table,
        walk=step.walk,
        purpose="moved",
        relation=step.relation,
        target_time_s=step.target_time_s,
    )


def _one_sided(said: Sequence[Said], step: ProveDoubleWrites) -> list[Said]:
    """Statements that store one column of a pair and not the other, or of which nobody can say that."""
    there = (s for s in said if s.on(step.table) or s.hides_a_table(written=True))
    return [s for s in there if not s.ours and s.writes and one_sided(s, step.pairs)]


def _told(said: Said, step: ProveDoubleWrites) -> str:
    missed = ", ".join(f"{a} without {b}" if a else "what, nobody can tell" for a, b in one_sided(said, step.pairs))
    return f"{said} stores {missed} (last seen {said.last:%H:%M:%S} UTC, {said.count} times in all)"


def _statements(found: Sequence[Said], step: ProveDoubleWrites) -> str:
    return "; ".join(_told(said, step) for said in found[:_MOST_NAMED])


def _with_statements(rows: Outcome, found: Sequence[Said], step: ProveDoubleWrites) -> Outcome:
    if rows.result not in (Result.FAILED, Result.BACK) or not found:
        return rows
    return replace(rows, note=f"{rows.note}; {_statements(found, step)}")


def _unproven(proven: _Proven, step: ProveDoubleWrites) -> Outcome:
    return Outcome(
        Result.HELD,
        f"checks held: {proven.passed_s:.0f} s of {step.seconds:g} s are proven",
        "every check passes for the whole time",
        "rollout check, then the same command again",
    )


def _named(found: Sequence[Said], step: ProveDoubleWrites) -> Outcome:
    blind = any(said.text is None for said in found)
    return Outcome(
        Result.HELD,
        f"a writer does not obey double_writes: {_statements(found, step)}",
        f"{step.seconds:g} s in which every sampled statement that stores one column of a pair stores its partner too",
        f"{MAKE_ROOM if blind else 'give that writer the release that writes both'}, then the same command again",
        evidence=tuple((str(said), str(said.last), str(said.count)) for said in found[:50]),
    )


def _done(step: ProveDoubleWrites, proven: _Proven) -> Outcome:
    note = (
        f"{step.seconds:g} s in which no sampled statement wrote one side alone, and {proven.rows} looks at rows that "
    )
    note += "changed of late found them to correspond"
    return Outcome(Result.DONE, note, figures={"seconds": step.seconds, "rows_looked_at": float(proven.rows)})


def _blind() -> Outcome:
    return Outcome(
        Result.HELD,
        "the server keeps no statement digests, so nobody can say who writes one column alone",
        "performance_schema with the consumer statements_digest",
        "enable it, then the same command again; or driver: triggers, which needs nobody to obey",
    )
