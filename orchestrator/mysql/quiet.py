"""Waits, without costing anybody anything, for a moment in which nobody is known to hold a family of tables."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from orchestrator.model.blockers import KillPolicy
from orchestrator.model.contract import TableName
from orchestrator.model.facts import BlockerKind, Holder, Reading, ReplicaFacts
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Signal, SignalKind
from orchestrator.model.window import Window
from orchestrator.mysql.locks import read_holders
from orchestrator.mysql.session import Session
from orchestrator.ports import Beat, Clock

# Shows who holds the family on each replica, or why that cannot be seen; None when there is no replica to look at.
ReplicaLook = Callable[[], Reading[tuple[ReplicaFacts, ...]] | None]
_LOOK_EVERY_S = 0.05
_BEAT_EVERY_S = 0.5
_REPLICAS_EVERY_S = 1.0
_BACK_OFF_S = 0.25
_GREATEST_BACK_OFF_S = 2.0
_MAY_BE_SHORT = frozenset({BlockerKind.TRANSACTION, BlockerKind.STATEMENT})
# A transaction younger than this is one of many short ones. The measure grows with the wait: on a table that always has
# one of half a second somebody must try at last, and one that is as old as the wait is never taken for short.
_SHORT_S = 0.05
_SHORT_SHARE = 0.1
_GREATEST_SHORT_S = 1.0


class Terms(Struct, frozen=True):
    """How long is waited in all, whom the wait may end, and the hours in which it may end at all."""

    max_wait_s: float
    kill: KillPolicy = field(default_factory=KillPolicy)
    window: Window | None = None


class Quiet:
    """The wait before each try of one statement. All its tries share the bound ``max_wait_s``; builds do not count.

    ``killed``: the sessions that were ended, as the runbook allows, in their order.
    """

    def __init__(
        self,
        session: Session,
        family: tuple[TableName, ...],
        replicas: ReplicaLook | None,
        clock: Clock,
        terms: Terms,
    ) -> None:
        self._session = session
        self._family = family
        self._replicas = replicas
        self._clock = clock
        self._terms = terms
        self.killed: list[Holder] = []
        self._began_at = self._not_before = clock.monotonic()
        self._beat_at = self._replicas_at = float("-inf")
        self._signal = GO
        self._back_offs = 0
        self._first_seen: dict[tuple[int | None, str, str], float] = {}
        self._new = False
        self._blocker: Holder | None = None
        self._blocked_by = ""

    def await_it(self, beat: Beat) -> Outcome | None:
        """None in a quiet moment. Else HELD with the blocker's name, or what a beat asked for. Beats at least once.

        Raises ServerError when the locks cannot be read.
        """
        self._beat_at = float("-inf")
        looked_again = False
        while True:
            signal = self._listen(beat)
            if signal.kind not in (SignalKind.GO, SignalKind.HOLD):
                return stopping(signal)
            closed_s = self._closed_s()
            self._new = False
            free = not closed_s and self._is_free()
            if free and self._new and not looked_again:
                # Whoever is there for the first time may go at once or stay: the next look tells, and costs nobody.
                free, looked_again, self._replicas_at = False, True, float("-inf")
            if free and signal.kind is SignalKind.GO and self._clock.monotonic() >= self._not_before:
                return None
            # A window that opens only after the bound is not waited for: the operator comes back then.
            if self.waited_s + closed_s >= self._terms.max_wait_s:
                return self._held(signal)
            self._clock.sleep(_LOOK_EVERY_S)

    def still(self) -> bool:
        """Whether nobody is known to hold the family on the primary now. Raises ServerError."""
        return not self._primary_blocked()

    def restart(self) -> None:
        """The bound counts from now."""
        self._began_at = self._clock.monotonic()

    def back_off(self, build_s: float, jitter: float) -> None:
        """A try failed: wait longer before the next one, with ``jitter`` in 0…1. ``build_s`` was work, not waiting."""
        pause_s = min(_GREATEST_BACK_OFF_S, _BACK_OFF_S * 2.0**self._back_offs)
        self._back_offs += 1
        self._began_at += build_s
        self._not_before = self._clock.monotonic() + pause_s * (0.5 + jitter)

    @property
    def waited_s(self) -> float:
        return self._clock.monotonic() - self._began_at

    @property
    def last_blocker(self) -> str:
        """Who was in the way last; empty when nobody was ever seen."""
        return self._blocked_by

    def _closed_s(self) -> float:
        """Seconds until the window opens; 0 in it, or without one."""
        window = self._terms.window
        closed_s = window.opens_in_s(self._clock.now()) if window is not None else 0.0
        if closed_s:
            self._blocker, self._blocked_by = None, f"the window {window} opens in {closed_s / 60:.0f} min"
        return closed_s

    def _listen(self, beat: Beat) -> Signal:
        now = self._clock.monotonic()
        if now - self._beat_at >= _BEAT_EVERY_S:
            note = f"waits without trying: {self._blocked_by}" if self._blocked_by else "waits for a quiet moment"
            waited_s = round(self.waited_s, 3)
            self._signal = beat(
                Progress(unit="", note=note, throttled_s=waited_s, throttled_by="metadata-locks", elapsed_s=waited_s)
            )
            self._beat_at = self._clock.monotonic()
        return self._signal

    def _is_free(self) -> bool:
        """The primary first, because it is cheap; then the replicas, and the primary again, because they took time."""
        if self._primary_blocked():
            return False
        if self._replicas is None:
            return True
        if self._clock.monotonic() - self._replicas_at < _REPLICAS_EVERY_S:
            return False
        blocked = self._replicas_blocked()
        self._replicas_at = self._clock.monotonic()
        return not blocked and not self._primary_blocked()

    def _primary_blocked(self) -> bool:
        holders = read_holders(self._session, self._family, frozenset())
        blockers = [h for h in holders if self._blocks(h, "")]
        for holder in blockers:
            if self._terms.kill.allows(holder) and all(k.process_id != holder.process_id for k in self.killed):
                self._session.execute(f"KILL {holder.process_id}")
                self.killed.append(holder)
        return self._note(next(iter(blockers), None), "")

    def _replicas_blocked(self) -> bool:
        """A replica that cannot be seen blocks: its readers would stop its applier for as long as they like."""
        reading = self._replicas() if self._replicas is not None else None
        if reading is None:
            return False
        if not reading.seen:
            self._blocked_by = f"the replicas cannot be seen: {reading.unseen}"
            return True
        for replica in reading.value or ():
            if not replica.reachable:
                self._blocked_by = f"{replica.name} cannot be seen: {replica.problem}"
                return True
            if self._note(next((h for h in replica.holders if self._blocks(h, replica.name)), None), replica.name):
                return True
        return False

    def _note(self, blocker: Holder | None, where: str) -> bool:
        if blocker is not None:
            self._blocker = blocker
            self._blocked_by = f"{blocker}, on {where}" if where else str(blocker)
        return blocker is not None

    def _blocks(self, holder: Holder, where: str) -> bool:
        if holder.waiting and holder.kind is not BlockerKind.DDL:
            return False
        if holder.kind not in _MAY_BE_SHORT:
            return True
        # Some clocks of the server count whole seconds: what we saw ourselves counts as well.
        now = self._clock.monotonic()
        first_seen = self._first_seen.setdefault((holder.process_id, holder.table, where), now)
        self._new = self._new or first_seen == now
        if holder.age_s < now - first_seen and (holder.exact or not holder.idle):
            # The same session with another statement or transaction: a new, short one.
            self._first_seen[(holder.process_id, holder.table, where)] = first_seen = now
        short_s = min(_GREATEST_SHORT_S, max(_SHORT_S, _SHORT_SHARE * self.waited_s))
        return max(holder.age_s, now - first_seen) >= short_s

    def _held(self, signal: Signal) -> Outcome:
        blocked = self._blocked_by or signal.reason or "every try met somebody who had not been seen before"
        return Outcome(
            Result.HELD,
            f"{blocked} (waited {self.waited_s:.0f} s)",
            expected=f"a moment in which nobody holds {self._family[0]} or a table of its foreign-key family",
            next=_cure(self._blocker),
        )


def stopping(signal: Signal) -> Outcome:
    """What a beat that ends the work asks for, as the outcome of a step that did not take effect."""
    match signal.kind:
        case SignalKind.BACK:
            return Outcome(Result.BACK, signal.reason)
        case SignalKind.STOP:
            return Outcome(Result.HELD, signal.reason)
        case _:
            return Outcome(Result.PAUSED, signal.reason)


def _cure(blocker: Holder | None) -> str:
    again = "then the same command again"
    if blocker is None:
        return f"rollout check shows who holds the table; {again}"
    if blocker.kind is BlockerKind.PREPARED_XA:
        return f"XA RECOVER CONVERT XID shows it, XA COMMIT or XA ROLLBACK ends it; {again}"
    look = f"SELECT * FROM performance_schema.threads WHERE PROCESSLIST_ID = {blocker.process_id}"
    return f"look at it ({look}), let it end or KILL {blocker.process_id}; {again}"
