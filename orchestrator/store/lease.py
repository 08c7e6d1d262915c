"""The lease: who may act on a rollout now, and how it is taken, also from a holder that died or stands still.

Whether a holder lives is never judged by a server's clock: its named lock dies with its connection, and its counter is
watched on our own monotonic clock. A holder that wakes too late is fenced by the epoch, not by anything that it sees.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Sequence
from datetime import UTC

from msgspec import Struct

from orchestrator.errors import LeaseTaken
from orchestrator.model.state import Holder
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.session import Row, Session
from orchestrator.mysql.sql import lease as sql
from orchestrator.mysql.told import packet, rows, told_of_state
from orchestrator.store.keeping import HeldLease
from orchestrator.store.place import Place


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
