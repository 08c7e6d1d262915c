"""Steps in which time passes under watch: a soak, replicas catching up, old transactions ending, statements falling
quiet."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from orchestrator.errors import ServerUnreachable
from orchestrator.model.contract import TableName
from orchestrator.model.facts import Need
from orchestrator.model.outcome import Outcome, Progress, Result, Seen, SignalKind, goes_on, stopped_by
from orchestrator.model.step import CatchUp, Drain, Quiet, Soak, WaitStep
from orchestrator.mysql.digests import (
    MAKE_ROOM,
    MORE_TEXT,
    Said,
    keeps_digests,
    names_column,
    one_sided,
    reads,
    said_since,
    server_now,
    stores,
)
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.patience import ask_again
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql import evidence
from orchestrator.mysql.told import refuse_unread
from orchestrator.ports import Beat, Observer

_TICK_S = 0.25
_LOOK_S = 1.0


class WaitDriver:
    """Driver of WaitStep. Writes nothing; a wait that was interrupted is waited for again."""

    def __init__(self, site: Site, observer: Observer) -> None:
        self._site = site
        self._clock = site.clock
        self._observer = observer

    def describe(self, step: WaitStep) -> Sequence[str]:
        match step:
            case Soak():
                return (f"-- {step.seconds:g} s under watch",)
            case CatchUp():
                return ("-- until every replica has what the primary has now",)
            case Drain():
                return (
                    f"-- {step.poll_s:g} s, then until no transaction is open that began before",
                    evidence.TRANSACTIONS_OLDER,
                )
            case Quiet():
                if not _asks(step):
                    return ("-- no evidence is asked for: waived",)
                return (
                    f"-- {step.seconds:g} s without a statement that names {_subject(step)}",
                    evidence.digests_since(2),
                )

    def apply(self, step: WaitStep, beat: Beat) -> Outcome:
        try:
            match step:
                case Soak():
                    return self._soak(step, beat)
                case CatchUp():
                    return self._catch_up(step, beat)
                case Drain():
                    with contextlib.closing(self._site.connect("drain")) as session:
                        return self._drain(step, beat, session)
                case Quiet():
                    if not _asks(step):
                        return Outcome(Result.DONE, f"nobody is asked whether {_subject(step)} are still named: waived")
                    with contextlib.closing(self._site.connect("quiet")) as session:
                        return self._quiet(step, beat, session)
        except (ServerError, ServerUnreachable) as error:
            refuse_unread(self._site, error, f"waiting ({step.kind})")
            return Outcome(Result.HELD, f"cannot be seen: {error}", "a server that shows transactions and statements")

    def observe(self, step: WaitStep, beat: Beat) -> Seen:
        return Seen.ABSENT

    def abandon(self, step: WaitStep, beat: Beat) -> Outcome:
        return Outcome(Result.DONE, "nothing is half done")

    def _soak(self, step: Soak, beat: Beat) -> Outcome:
        """Only time in which every check passes counts."""
        passed_s, last = 0.0, self._clock.monotonic()
        while passed_s < step.seconds:
            signal = beat(Progress(round(passed_s), round(step.seconds), "s", 1.0, "soak"))
            if not goes_on(signal):
                return stopped_by(signal)
            self._clock.sleep(min(_TICK_S, step.seconds - passed_s))
            now = self._clock.monotonic()
            passed_s, last = (passed_s + now - last if signal.kind is SignalKind.GO else passed_s), now
        return Outcome(Result.DONE, f"{step.seconds:g} s under watch", figures={"seconds": step.seconds})

    def _catch_up(self, step: CatchUp, beat: Beat) -> Outcome:
        """A replica that shows a heartbeat written after we began has everything that was committed before."""
        began = self._clock.monotonic()

        def behind() -> list[str]:
            reading = self._observer.look(frozenset({Need.REPLICAS})).replicas
            if reading is None or reading.value is None:
                return [f"replicas cannot be seen: {reading.unseen if reading else 'nobody looked'}"]
            since_s = self._clock.monotonic() - began
            delayed = self._site.runbook.replicas.delayed
            return [
                f"{r.name} is {'unreachable' if r.lag_s is None else f'{r.lag_s:.1f} s behind'}"
                for r in reading.value
                if r.name not in delayed and not r.caught_up and (r.lag_s is None or r.lag_s >= since_s)
            ]

        return self._until(beat, behind, "replicas catch up", step.seconds) or Outcome(
            Result.DONE, "replicas have what the primary had"
        )

    def _drain(self, step: Drain, beat: Beat, session: Session) -> Outcome:
        waited = self._pass(beat, step.poll_s, "one poll of the applications")
        if waited is not None:
            return waited
        began = self._clock.monotonic()

        def still_open() -> list[str]:
            age_s = self._clock.monotonic() - began
            try:
                return [_transaction(row) for row in ask_again(session, evidence.TRANSACTIONS_OLDER, (age_s,))]
            except ServerError as error:
                if error.cure is not Cure.RETRY:
                    raise
                return [f"transactions cannot be seen in this moment ({error.number})"]

        limit_s = self._site.runbook.limits.max_wait_s
        return self._until(beat, still_open, "transactions begun before end", limit_s) or Outcome(
            Result.DONE, "no transaction begun before the flag was moved is open"
        )

    def _quiet(self, step: Quiet, beat: Beat, session: Session) -> Outcome:
        if not keeps_digests(session):
            return Outcome(
                Result.HELD,
                "the server keeps no statement digests, so nobody can say who still names the columns",
                "performance_schema with the consumer statements_digest",
                "enable it, or vouch for it yourself (--old-application-gone --flag-retired)",
            )
        began = self._clock.monotonic()
        since = server_now(session)
        last_seen, flag = None, TableName(self._site.settings.state_schema, "flag")
        while True:
            now = server_now(session)
            quiet_s = round((now - since).total_seconds())
            note = f"quiet: {last_seen or 'nothing seen'}"
            signal = beat(Progress(max(0, quiet_s), round(step.seconds), "s", 1.0, note))
            if not goes_on(signal):
                return stopped_by(signal)
            for said in said_since(session, since, (step.table.name, flag.name)):
                if _counts(step, flag, said):
                    since, last_seen = max(since, said.last), said
            if (now - since).total_seconds() >= step.seconds:
                note = f"{step.seconds:g} s without a sampled statement that names {_subject(step)}"
                return Outcome(Result.DONE, note, figures={"quiet_s": step.seconds})
            if self._clock.monotonic() - began > step.seconds + self._site.runbook.limits.max_wait_s:
                return _still_named(step, last_seen, since)
            self._clock.sleep(_LOOK_S)

    def _pass(self, beat: Beat, seconds: float, why: str) -> Outcome | None:
        until = self._clock.monotonic() + seconds
        while True:
            signal = beat(Progress(note=why))
            if not goes_on(signal):
                return stopped_by(signal)
            left_s = until - self._clock.monotonic()
            if left_s <= 0:
                return None
            self._clock.sleep(min(_TICK_S, left_s))

    def _until(self, beat: Beat, open_: Callable[[], list[str]], why: str, limit_s: float) -> Outcome | None:
        """Beat until nothing is open; None then, else how it ended."""
        began = self._clock.monotonic()
        while found := open_():
            signal = beat(Progress(note=f"{why}: {found[0]}"))
            if not goes_on(signal):
                return stopped_by(signal)
            if self._clock.monotonic() - began > limit_s:
                return Outcome(Result.HELD, "; ".join(found[:5]), why, "end them, then the same command again")
            self._clock.sleep(_TICK_S)
        return None


def _asks(step: Quiet) -> bool:
    """Whether anybody is asked; for no time at all every statement is quiet."""
    return not step.waived and step.seconds > 0


def _still_named(step: Quiet, said: Said | None, at: datetime) -> Outcome:
    subject, way = _subject(step), "stop whoever says it"
    if said is not None and said.text is None:
        seen, way = f"nobody can say who names {subject}: {said}", MAKE_ROOM
    elif said is not None and said.cut:
        seen, way = f"a statement may name {subject} behind what the server keeps: {said}", f"{way}, or {MORE_TEXT}"
    else:
        seen = f"a statement still names {subject}: {said or 'nothing seen'}"
    return Outcome(
        Result.HELD,
        seen,
        f"{step.seconds:g} s without one",
        f"{way}, then the same command again",
        evidence=((str(said), str(at)),),
    )


def _counts(step: Quiet, flag: TableName, said: Said) -> bool:
    """Whether the statement is one that the wait is for; one without a digest may be, and one that was cut. (The flag
    is asked by a short one.)"""
    if said.text is None:
        return True
    if step.flag and not said.ours and said.on(flag):
        return True
    if not step.columns or (step.writes_only and not said.writes):
        return False
    if not said.on(step.table):
        return said.hides_a_table(written=step.writes_only)
    if step.doubled:
        return _beside_its_partner(step, said)
    return names_column(said.text, step.columns) is not None or _hides_a_column(step, said)


def _hides_a_column(step: Quiet, said: Said) -> bool:
    """Whether it may name one behind the cut."""
    if not step.writes_only:
        return said.cut
    return any(part.cut for part in stores(said.text or "", cut=said.cut))


def _beside_its_partner(step: Quiet, said: Said) -> bool:
    """Whether it names a column otherwise than applications do that write both columns of a pair at once."""
    missed = one_sided(said, step.doubled)
    alone = any(stored in ("", *step.columns) for stored, _ in missed)
    return alone or (not step.writes_only and (said.cut or bool(reads(said.text or "", step.columns))))


def _subject(step: Quiet) -> str:
    flag = " or the flag" if step.flag else ""
    return f"{', '.join(step.columns) or 'the table'}{flag}"


def _transaction(row: Sequence[Any]) -> str:
    if not row[0]:
        return f"a prepared XA transaction without a session, {row[1]:.0f} s old (XA RECOVER shows it)"
    return f"session {row[0]} has a transaction open for {row[1]:.0f} s{f', now in: {row[2]}' if row[2] else ''}"
