"""A lease that is held: a keeper renews it in a thread of its own, and the main loop asks whether it is still ours."""

from __future__ import annotations

import contextlib
import threading

from orchestrator.errors import Displaced, Fenced, RolloutError, ServerUnreachable
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import lease as sql
from orchestrator.mysql.sql.state import COMMIT, START
from orchestrator.mysql.told import NOT_INSTALLED, packet, rows, told_of_state
from orchestrator.store.place import Place

_CONFIRM_S = 1.0
# No such schema, table or column: whoever dropped or altered the state did not wait for us.
_STATE_GONE = NOT_INSTALLED | {1054}


class HeldLease:
    """A lease of ours. ``alive`` is the main loop's sign of life; everything else happens in the keeper thread."""

    def __init__(self, session: Session, place: Place, epoch: int) -> None:
        self._session = session
        self._place = place
        self._epoch = epoch
        self._lost = ""
        self._displaced: Displaced | None = None
        self._alive_at = self._renewed_at = place.clock.monotonic()
        self._broken = False
        self._looked = threading.Condition()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="rollout lease", daemon=True)

    @property
    def epoch(self) -> int:
        return self._epoch

    def alive(self) -> None:
        """A sign of life of the main loop. Raises Fenced when the lease was lost, or could not be renewed for so long
        that somebody may have taken it.

        After a freeze, or while the keeper has no connection, it waits until the keeper has looked again: whoever wakes
        late must not begin what no epoch can fence.
        """
        times, now = self._place.times, self._place.clock.monotonic()
        if now - self._alive_at > times.silence_s:
            self._lose(_silent(now - self._alive_at))
        self._alive_at = now
        with self._looked:
            while not self._lost and (self._broken or now - self._renewed_at > times.idle_s / 2):
                now = self._place.clock.monotonic()
                if now - self._renewed_at > times.silence_s:
                    self._lost = f"it could not be renewed for {now - self._renewed_at:.0f} s"
                self._looked.wait(times.heartbeat_s)
        self._alive_at = self._place.clock.monotonic()
        self._refuse_when_lost()

    def confirm(self) -> None:
        """As in ``ports.Lease``: at most a second; raises Fenced. Who takes over ends the sessions of a holder that
        stands still, and the keeper then finds another epoch."""
        asked = self._place.clock.monotonic()
        with self._looked:
            while not self._lost and (self._broken or self._renewed_at < asked):
                left_s = asked + _CONFIRM_S - self._place.clock.monotonic()
                if left_s <= 0:
                    return
                self._looked.wait(min(left_s, self._place.times.heartbeat_s))
        self._refuse_when_lost()

    def _refuse_when_lost(self) -> None:
        if self._displaced is not None:
            raise self._displaced
        if self._lost:
            raise Fenced(
                f"the lease of {self._place.id} (epoch {self._epoch}) was lost: {self._lost}",
                "a lease that is ours; whatever was about to be written has not been written",
                "rollout status shows who acts now; then type the same command again",
            )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let go: the thread ends, the row is cleared unless the lease was lost, the session is closed. Never raises,
        never waits long."""
        self._ended.set()
        self._thread.join(self._place.times.answer_s + 1.0)
        if self._thread.is_alive():
            self._session.close()

    def _keep(self) -> None:
        times, clock = self._place.times, self._place.clock
        next_renewal = 0.0
        while not self._lost and not self._ended.wait(times.heartbeat_s):
            now = clock.monotonic()
            if now - self._alive_at > times.silence_s:
                self._lose(_silent(now - self._alive_at))
                break
            renew = now >= next_renewal
            try:
                self._beat(renew)
            except (ServerError, RolloutError) as error:
                if self._displaced_by(error):
                    break
                # The server may be back in a moment; ``alive`` counts how long we could not renew.
                self._broken = True
                continue
            next_renewal = now + times.renew_s if renew else next_renewal
        self._let_go()

    def _beat(self, renew: bool) -> None:
        place = self._place
        statements = (
            START,
            *((sql.renew(place.schema, place.id, self._epoch),) if renew else ()),
            sql.beat(place.schema, place.id, self._epoch),
            COMMIT,
            sql.look(place.schema, place.id, place.lock),
        )
        began = place.clock.monotonic()
        epoch, locked = packet(self._session, statements)[-1][0]
        if epoch is None or int(epoch) != self._epoch:
            self._lose(f"its epoch is {epoch} now" if epoch is not None else "its row is gone")
            return
        if not locked:
            # A new connection lacks the lock of the one before. Whoever took it in between raises the epoch next.
            rows(self._session, sql.take_lock(place.lock))
        with self._looked:
            self._broken, self._renewed_at = False, began
            self._looked.notify_all()

    def _displaced_by(self, error: ServerError | RolloutError) -> bool:
        """Whether waiting mends nothing: a demoted server, another one, a state or a right that is gone."""
        if isinstance(error, ServerError):
            if not (error.cure is Cure.TOPOLOGY or error.is_privilege or error.number in _STATE_GONE):
                return False
            error = told_of_state(self._session, error, f"keeping the lease of {self._place.id}")
        if isinstance(error, ServerUnreachable):
            return False
        self._displaced = Displaced(error)
        self._lose(error.seen)
        return True

    def _lose(self, why: str) -> None:
        with self._looked:
            self._lost = self._lost or why
            self._looked.notify_all()

    def _let_go(self) -> None:
        place = self._place
        with contextlib.suppress(ServerError, RolloutError):  # the connection's end frees the lock in any case
            # Who was silent may yet send what he was about to send: the row goes on saying who he is, so that whoever
            # comes next ends his sessions.
            if self._ended.is_set():
                packet(self._session, (START, sql.clear(place.schema, place.id, self._epoch), COMMIT))
            rows(self._session, sql.let_go(place.lock))
        self._session.close()


def _silent(seconds: float) -> str:
    return f"this process gave no sign of life for {seconds:.0f} s"
