"""Runs one statement that needs an exclusive metadata lock, so that no statement of the application waits for it longer
than the stall budget, whoever holds the table.

It looks first: while somebody is known to hold the family, it waits without trying, and that costs the application
nothing. Then it tries under a watcher (``flight``), which takes the statement back before the budget is used up, and
tries again after a pause that grows. All of it is bounded by ``max_wait``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import closing

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.errors import Ambiguous, CannotSay
from orchestrator.model.contract import TableName
from orchestrator.model.facts import Holder
from orchestrator.model.outcome import Outcome, Progress, Result, SignalKind
from orchestrator.model.window import Window
from orchestrator.mysql.errno import DEADLOCK, INTERRUPTED, LOCK_WAIT_TIMEOUT, Cure, ServerError
from orchestrator.mysql.flight import Flight, Landing, Patience
from orchestrator.mysql.locks import blindness, find_tagged
from orchestrator.mysql.quiet import Quiet, ReplicaLook, Terms, stopping
from orchestrator.mysql.quote import literal
from orchestrator.mysql.session import Row, Session
from orchestrator.mysql.site import Site
from orchestrator.mysql.told import told
from orchestrator.ports import Beat, Clock

__all__ = ["AGAIN", "Build", "Exclusive", "Guard", "ReplicaLook", "take_back"]
AGAIN = frozenset({LOCK_WAIT_TIMEOUT, INTERRUPTED, DEADLOCK})
_NOT_THE_STATEMENT = frozenset({Cure.TOPOLOGY, Cure.RECONNECT, Cure.WAIT})
# Asked for at this share of the budget, so that the look, the KILL and the wake-up fit into the rest.
_ASK_AT = 0.6
_LAST_ASK_AT = 0.85
_BEAT_EVERY_S = 0.25
_SHORT_S = 120.0
_LONG_S = 7 * 86_400.0
_TAKEN_BACK_WITHIN_S = 60.0
_DOCTOR = "rollout doctor shows the exact GRANT"
_NEXT = {1419: "as an administrator: SET PERSIST log_bin_trust_function_creators = 1; then the same command again"}


class Build(Struct, frozen=True):
    """A statement that works long between its first lock and its last. Nobody can pause that last step: it may be
    PENDING for ``final_lock_budget_s``; a build that is lost there is built again, ``tries`` times in all at most."""

    final_lock_budget_s: float
    tries: int


class Exclusive(Struct, frozen=True):
    """One statement, the tag in it by which it is found again, the tables whose locks meet its own, and the session
    variables (``pins``) that it needs for itself. ``window``: the hours for which it waits; None, as on the way back,
    waits for none."""

    statement: str
    tag: str
    family: tuple[TableName, ...]
    pins: tuple[tuple[str, str | int], ...] = ()
    build: Build | None = None
    window: Window | None = None

    @property
    def statements(self) -> tuple[str, ...]:
        """What is sent, in its order."""
        pins = (("lock_wait_timeout", self.lock_wait_timeout_s), *self.pins)
        return (*(f"SET SESSION {variable} = {_value(value)}" for variable, value in pins), self.statement)

    @property
    def lock_wait_timeout_s(self) -> int:
        """The server's own bound, which holds also when we are dead. Whole seconds, never more than needed."""
        return max(1, math.ceil(self.build.final_lock_budget_s)) if self.build is not None else 1


class _Tally(Struct):
    """What the tries came to."""

    began_at: float
    tries: int = 0
    lost_builds: int = 0
    longest_pending_s: float = 0.0
    build_s: float = 0.0

    def add(self, landing: Landing) -> None:
        self.tries += 1
        self.longest_pending_s = max(self.longest_pending_s, landing.longest_pending_s)
        self.build_s += landing.build_s

    def figures(self, now: float) -> dict[str, float]:
        return {
            "tries": float(self.tries),
            "lost_builds": float(self.lost_builds),
            "longest_pending_s": round(self.longest_pending_s, 3),
            "build_s": round(self.build_s, 3),
            "seconds": round(now - self.began_at, 3),
        }


class Guard:
    """Opens its own sessions for each run and closes them. ``replicas`` shows who holds the family there."""

    def __init__(
        self, site: Site, replicas: ReplicaLook | None = None, jitter: Callable[[], float] = random.random
    ) -> None:
        self._site = site
        self._replicas = replicas
        self._jitter = jitter

    def run(self, work: Exclusive, beat: Beat) -> Outcome:
        """DONE; HELD (a blocker that does not go, a server that shows no locks); PAUSED or BACK when a beat says so.

        What is not DONE did not take effect. Raises ServerError when the server refuses the statement for good;
        Ambiguous when the connection was lost in flight and the statement is off the server by now; CannotSay when it
        is still there; PrivilegeMissing, ConfigurationError, ServerUnreachable, Fenced.
        """
        timeout_s = _LONG_S if work.build is not None else _SHORT_S
        with (
            closing(self._site.connect("watch", 10.0)) as watch,
            closing(self._site.connect("ddl", timeout_s, reopens=False)) as session,
        ):
            try:
                if why := blindness(watch):
                    return _blind(why)
                for variable, value in (("lock_wait_timeout", work.lock_wait_timeout_s), *work.pins):
                    session.pin(variable, value)
                return self._until_it_lands(work, session, watch, beat)
            except ServerError as error:
                if error.is_privilege or error.cure in _NOT_THE_STATEMENT:
                    raise told(error, f"while {work.tag} was to run", _NEXT.get(error.number, _DOCTOR)) from error
                raise

    def read(self, statement: str, beat: Beat) -> list[Row] | Outcome:
        """The rows of one long tagged SELECT, or what a beat asked for meanwhile. Raises as ``run`` does."""
        connect, doing = self._site.connect, "while the rows were read"
        with closing(connect("watch", 10.0)) as watch, closing(connect("prove", _LONG_S)) as session:
            clock = self._site.clock
            try:
                flight = Flight(statement, session, watch, Patience(math.inf), clock)
            except ServerError as error:
                raise told(error, doing, _DOCTOR) from error
            asked = self._accompany(flight, beat, _Tally(clock.monotonic()))
            landing = flight.landing()
            if landing.error is None:
                return flight.rows
            if asked is not None and landing.error.number == INTERRUPTED:
                return asked
            raise told(landing.error, doing, _DOCTOR) from landing.error

    def _until_it_lands(self, work: Exclusive, session: Session, watch: Session, beat: Beat) -> Outcome:
        clock, limits = self._site.clock, self._site.runbook.limits
        terms = Terms(limits.max_wait_s, limits.kill, work.window)
        quiet = Quiet(watch, work.family, self._replicas, clock, terms)
        return _with_killed(self._tried(work, session, quiet, watch, beat), quiet.killed)

    def _tried(self, work: Exclusive, session: Session, quiet: Quiet, watch: Session, beat: Beat) -> Outcome:
        clock = self._site.clock
        tally = _Tally(clock.monotonic())
        while True:
            stopped = quiet.await_it(beat)
            if stopped is not None:
                return replace(stopped, figures=tally.figures(clock.monotonic()))
            # No epoch fences DDL. So it is said on a session that was there when the lease was last seen to be ours;
            # whoever takes over ends the sessions that he finds.
            session.ensure()
            beat(Progress(unit="", note="about to ask for the lock", elapsed_s=clock.monotonic() - tally.began_at))
            session.heed_role()
            flight = Flight(work.statement, session, watch, self._patience(work), clock)
            asked = self._accompany(flight, beat, tally)
            landing = flight.landing()
            tally.add(landing)
            figures = tally.figures(clock.monotonic())
            if landing.error is None:
                return Outcome(Result.DONE, _done_note(tally), figures=figures)
            if landing.lost:
                self._after_loss(work, beat)
            if not self._may_try_again(landing, work, tally):
                raise landing.error
            if asked is not None:
                return replace(asked, figures=figures)
            if work.build is not None and tally.lost_builds >= work.build.tries:
                return replace(_builds_lost(tally, quiet.last_blocker), figures=figures)
            quiet.back_off(landing.build_s, self._jitter())

    def _patience(self, work: Exclusive) -> Patience:
        last_s = work.build.final_lock_budget_s * _LAST_ASK_AT if work.build is not None else None
        return Patience(self._site.runbook.limits.stall_budget_s * _ASK_AT, last_s)

    def _accompany(self, flight: Flight, beat: Beat, tally: _Tally) -> Outcome | None:
        """Beat until it has landed. What a beat asked for, or None. Never leaves it in flight behind an exception."""
        asked: Outcome | None = None
        try:
            while not flight.wait(_BEAT_EVERY_S):
                done, total = flight.work
                note = "building" if flight.building else "waiting for the server"
                elapsed_s = self._site.clock.monotonic() - tally.began_at
                # A server that does not tell how far a build is: then it is as far as it has taken.
                done, unit = (done, "pages") if total else (round(elapsed_s), "s")
                signal = beat(Progress(done=done, total=total, unit=unit, note=note, elapsed_s=elapsed_s))
                if signal.kind not in (SignalKind.GO, SignalKind.HOLD) and asked is None:
                    asked = stopping(signal)
                    flight.take_back()
        except BaseException:
            flight.take_back()
            flight.wait(_TAKEN_BACK_WITHIN_S)
            raise
        return asked

    def _may_try_again(self, landing: Landing, work: Exclusive, tally: _Tally) -> bool:
        assert landing.error is not None
        if work.build is not None and landing.at_last_step:
            tally.lost_builds += 1
        return landing.error.number in AGAIN

    def _after_loss(self, work: Exclusive, beat: Beat) -> None:
        """Always raises: the end was not heard, so the server must be asked for the shape."""
        with closing(self._site.connect("recover", 10.0)) as session:
            if not take_back(session, work.tag, self._site.clock, beat):
                raise CannotSay(
                    f"the connection was lost and {work.tag} still runs on the server",
                    "a statement that ends when it is killed",
                    "look at performance_schema.processlist for it, end it, then the same command again",
                )
        raise Ambiguous(f"the connection was lost while {work.tag} ran")


def _value(value: str | int) -> str:
    return str(value) if isinstance(value, int) else literal(value)


def _blind(why: str) -> Outcome:
    return Outcome(
        Result.HELD,
        f"metadata locks cannot be seen: {why}",
        "performance_schema on, with its metadata-lock instrument: no exclusive lock is asked for blindly",
        "start the server with performance_schema=ON, or UPDATE performance_schema.setup_instruments"
        " SET ENABLED = 'YES' WHERE NAME = 'wait/lock/metadata/sql/mdl'; then the same command again",
    )


def _with_killed(outcome: Outcome, killed: Sequence[Holder]) -> Outcome:
    """Everybody who was ended is in the history, whatever became of the statement."""
    if not killed:
        return outcome
    rows = tuple(("killed", str(h.process_id), f"{h.user}@{h.host}", f"{h.age_s:.0f} s", h.statement) for h in killed)
    note = f"{outcome.note}; killed as the runbook allows: {'; '.join(str(h) for h in killed)}"
    figures = outcome.figures | {"killed_sessions": float(len(killed))}
    return replace(outcome, note=note, figures=figures, evidence=(*outcome.evidence, *rows))


def _done_note(tally: _Tally) -> str:
    if tally.tries == 1:
        return "took effect at the first try"
    return f"took effect at try {tally.tries}; no try waited longer than {tally.longest_pending_s * 1000:.0f} ms"


def _builds_lost(tally: _Tally, blocker: str) -> Outcome:
    behind = f"; last in its way: {blocker}" if blocker else ""
    return Outcome(
        Result.HELD,
        f"the index was built {tally.lost_builds} times ({tally.build_s:.0f} s), and lost at its last lock{behind}",
        "a moment without transactions on the family that are longer than final_lock_budget",
        "try in a quieter hour, or raise phases.ddl.final_lock_budget",
    )


def take_back(session: Session, tag: str, clock: Clock, beat: Beat) -> bool:
    """End every statement on the server that carries ``tag``, and wait until it is gone, whatever ``beat`` answers.
    False when one does not go.

    A client that was killed leaves its ALTER running, or waiting and stalling the application. Raises ServerError,
    Fenced.
    """
    began = clock.monotonic()
    while running := find_tagged(session, tag):
        waited_s = clock.monotonic() - began
        if waited_s > _TAKEN_BACK_WITHIN_S:
            return False
        beat(Progress(unit="", note=f"waits until {tag} has left the server", elapsed_s=waited_s))
        for statement in running:
            try:
                session.execute(f"KILL QUERY {statement.process_id}")
            except ServerError as error:
                if error.is_privilege:
                    raise
        clock.sleep(0.05)
    return True
