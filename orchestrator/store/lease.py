"""The lease: who may act on a rollout now, and the thread that keeps it while the main loop gives signs of life.

Whether a holder lives is never judged by a server's clock: its named lock dies with its connection, and its counter is
watched on our own monotonic clock. A holder that wakes too late is fenced by the epoch, not by anything that it sees.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC

from msgspec import Struct

from orchestrator.errors import Fenced, LeaseTaken, RolloutError
from orchestrator.model.state import Holder
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.session import Row, Session
from orchestrator.mysql.sql import lease as sql
from orchestrator.mysql.told import packet, rows, told_of_state
from orchestrator.ports import Clock

_CONFIRM_S = 1.0


class LeaseTimes(Struct, frozen=True):
    """Seconds. ``silence_s``: how long the main loop may be silent. ``dead_s``: how long a counter must stand still
    when the named lock does not say that its holder is gone. ``idle_s``: after which the server frees the lock of a
    frozen holder. ``answer_s``: how long the keeper waits for one answer. Not options: tests shorten them."""

    heartbeat_s: float = 0.25
    renew_s: float = 1.0
    silence_s: float = 30.0
    dead_s: float = 45.0
    idle_s: int = 20
    answer_s: float = 10.0


class Place(Struct, frozen=True):
    """Where a lease lives: the state schema, the rollout, and how to get a session."""

    schema: str
    id: str
    connect: Callable[[str, float], Session]
    clock: Clock
    times: LeaseTimes

    @property
    def lock(self) -> str:
        return sql.lock_name(self.schema, self.id)


class _Watched(Struct):
    """What a contender has seen of a holder that has the named lock."""

    since: float
    stand: tuple[int, int] | None = None


def read_holder(session: Session, schema: str, id: str) -> Holder | None:
    """Who holds the lease: None when the named lock is free, whatever the row says. Raises ServerError."""
    if rows(session, sql.lock_owner(sql.lock_name(schema, id)))[0][0] is None:
        return None
    return _row(session, schema, id)


def raise_epoch(session: Session, schema: str, id: str) -> int:
    """One more than every epoch before, in every row that fences; the lease is not taken. Raises ServerError."""
    return int(packet(session, (*sql.raise_epoch(schema, id), *sql.bumped()))[-1][0][0])


def _row(session: Session, schema: str, id: str) -> Holder | None:
    return _holder(rows(session, sql.read(schema, id)))


def _holder(found: Sequence[Row]) -> Holder | None:
    if not found or found[0][0] is None:
        return None
    owner, host, pid, since, counter, epoch, _ = found[0]
    return Holder(owner, host, int(pid), since.replace(tzinfo=UTC), int(counter), int(epoch))


@contextlib.contextmanager
def hold(place: Place, who: str, reason: str) -> Iterator[HeldLease]:
    """Take the lease, keep it while the context is open, and leave nothing behind. Raises LeaseTaken."""
    session = place.connect("lease", place.times.answer_s)
    try:
        epoch = _take(session, place, (who, socket.gethostname(), os.getpid(), reason))
    except BaseException:
        session.close()
        raise
    held = HeldLease(session, place, epoch)
    held.start()
    try:
        yield held
    finally:
        held.stop()


def _take(session: Session, place: Place, who: tuple[str, str, int, str]) -> int:
    """The new epoch. A connection that breaks on the way makes all of it start again: the named lock went with it."""
    watched = _Watched(place.clock.monotonic())
    broken = 0
    while True:
        try:
            session.pin("wait_timeout", place.times.idle_s)
            if epoch := _try(session, place, who, watched):
                return epoch
        except ServerError as error:
            broken += 1
            again = error.cure in (Cure.RETRY, Cure.RECONNECT) and broken <= 5
            if not again:
                raise told_of_state(session, error, f"taking the lease of {place.id}") from error
        place.clock.sleep(place.times.heartbeat_s)


def _try(session: Session, place: Place, who: tuple[str, str, int, str], watched: _Watched) -> int:
    """The new epoch, or 0 when it must be tried again. Raises LeaseTaken for a holder whose counter moves."""
    free = rows(session, sql.take_lock(place.lock))[0][0] == 1
    if free:
        before = _row(session, place.schema, place.id)
        epoch = _raise(session, place, who, None)
        _cut_off(session, before, None)
        return epoch
    found = rows(session, sql.read(place.schema, place.id))
    stand = (int(found[0][4]), int(found[0][5])) if found else None
    if stand is not None and watched.stand is not None and stand[0] != watched.stand[0]:
        raise _taken(session, place, found[0][6])
    if stand != watched.stand:
        watched.stand, watched.since = stand, place.clock.monotonic()
    if place.clock.monotonic() - watched.since < place.times.dead_s:
        return 0
    # First the fence, then the lock: while commits hang (binary log full) killing a session could end the server, and
    # then the fence cannot be raised either.
    owner = rows(session, sql.lock_owner(place.lock))[0][0]
    silent = _holder(found)
    epoch = _raise(session, place, who, stand[1] if stand else None)
    if epoch:
        _cut_off(session, silent, int(owner) if owner is not None else None)
    return epoch


def _cut_off(session: Session, silent: Holder | None, lock_owner: int | None) -> None:
    """End the sessions of a holder that was taken for dead. The fence holds without it for all but DDL: what a sleeper
    was about to send when it froze would be sent on a session that is still there when it wakes."""
    connections = [lock_owner] if lock_owner is not None else []
    with contextlib.suppress(ServerError):
        if silent is not None and (silent.pid, silent.host) != (os.getpid(), socket.gethostname()):
            connections += [int(row[0]) for row in rows(session, sql.idle_sessions(silent.pid, silent.host))]
    for connection in dict.fromkeys(connections):
        with contextlib.suppress(ServerError):  # gone already, or not ours to kill
            rows(session, sql.kill(connection))


def _raise(session: Session, place: Place, who: tuple[str, str, int, str], expected: int | None) -> int:
    statements = (*sql.raise_epoch(place.schema, place.id, expected), *sql.own(place.schema, place.id, who))
    return int(packet(session, statements)[-1][0][0])


def _taken(session: Session, place: Place, reason: str | None) -> LeaseTaken:
    holder = _row(session, place.schema, place.id)
    who = "somebody"
    if holder is not None:
        since = holder.since.strftime("%Y-%m-%d %H:%M:%S UTC")
        who = f"{holder.who} on {holder.host} (process {holder.pid}), since {since}"
    why = f", doing {reason}" if reason else ""
    return LeaseTaken(
        f"{place.id} is being worked on by {who}{why}",
        "one actor at a time",
        "rollout status shows what it does; rollout pause asks it to stop",
    )


class HeldLease:
    """A lease of ours. ``alive`` is the main loop's sign of life; everything else happens in the keeper thread."""

    def __init__(self, session: Session, place: Place, epoch: int) -> None:
        self._session = session
        self._place = place
        self._epoch = epoch
        self._lost = ""
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
        if self._lost:
            raise Fenced(
                f"the lease of {self._place.id} (epoch {self._epoch}) was lost: {self._lost}",
                "a lease that is ours; whatever was about to be written has not been written",
                "rollout status shows who acts now; then type the same command again",
            )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let go: the thread ends, the row is cleared, the session is closed. Never raises, never waits long."""
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
            except (ServerError, RolloutError):
                # The server may be back in a moment; ``alive`` counts how long we could not renew.
                self._broken = True
                continue
            next_renewal = now + times.renew_s if renew else next_renewal
        self._let_go()

    def _beat(self, renew: bool) -> None:
        place = self._place
        statements = (
            *((sql.renew(place.schema, place.id, self._epoch),) if renew else ()),
            sql.beat(place.schema, place.id),
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

    def _lose(self, why: str) -> None:
        with self._looked:
            self._lost = self._lost or why
            self._looked.notify_all()

    def _let_go(self) -> None:
        place = self._place
        with contextlib.suppress(ServerError, RolloutError):  # the connection's end frees the lock in any case
            rows(self._session, sql.clear(place.schema, place.id, self._epoch))
            rows(self._session, sql.let_go(place.lock))
        self._session.close()


def _silent(seconds: float) -> str:
    return f"this process gave no sign of life for {seconds:.0f} s"
