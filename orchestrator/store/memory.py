"""The store without a server, held to the same laws: for the engine's own tests and for whoever embeds it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from orchestrator.errors import Fenced, Held, LeaseTaken, RolloutError
from orchestrator.model.outcome import Progress
from orchestrator.model.state import Event, Holder, Record, Request, State
from orchestrator.ports import Clock
from orchestrator.store import codec
from orchestrator.store.place import LeaseTimes


class _Held(Struct):
    """A lease row: who has it, and when that one last gave a sign of life."""

    holder: Holder
    alive_at: float


class _Room(Struct):
    """All that is stored of one rollout, as text where the real store has text."""

    epoch: int = 0
    record: str = ""
    events: list[str] = field(default_factory=list)
    progress: tuple[int, str, datetime] | None = None
    request: Request | None = None
    held: _Held | None = None


class MemoryStore:
    """Implements ``ports.Store``; shared by threads, it is one server for several actors."""

    def __init__(self, clock: Clock, *, times: LeaseTimes | None = None) -> None:
        self._clock = clock
        self._times = times or LeaseTimes()
        self._rooms: dict[str, _Room] = {}
        self._high = 0
        self._lock = threading.RLock()

    def install(self) -> None:
        """Nothing is needed."""

    def close(self) -> None:
        """Nothing is open."""

    def load(self, id: str) -> Record | None:
        with self._lock:
            room = self._rooms.get(id)
            return replace(codec.decode_record(room.record), epoch=room.epoch) if room and room.record else None

    def rollouts(self) -> Sequence[Record]:
        with self._lock:
            found = (self.load(id) for id in sorted(self._rooms))
            return tuple(record for record in found if record is not None)

    def create(self, record: Record, event: Event) -> Record:
        with self._lock:
            room = self._room(record.id)
            if room.epoch not in (0, record.epoch) or 0 < record.epoch <= self._high:
                raise _fenced(record.id, record.epoch, room.epoch or None)
            for other in self.rollouts():
                if other.id == record.id or (other.table == record.table and other.state is not State.FINISHED):
                    raise Held(
                        f"rollout {other.id} ({other.state.value}) is open on table {other.table}",
                        "one open rollout on a table",
                        f"finish {other.id}, or roll it back and purge it",
                    )
            room.epoch = record.epoch
            _store(room, record, event)
            return record

    def save(self, record: Record, event: Event) -> Record:
        with self._lock:
            stored = self.load(record.id)
            if stored is None or stored.epoch != record.epoch:
                raise _fenced(record.id, record.epoch, stored.epoch if stored else None)
            if stored.revision != record.revision - 1:
                raise RolloutError(
                    f"{record.id} is stored with revision {stored.revision}, and {record.revision} was to follow it",
                    f"revision {stored.revision + 1}",
                    "this is a bug of rollout; nothing was changed, please report it",
                )
            _store(self._room(record.id), record, event)
            return record

    def history(self, id: str) -> Sequence[Event]:
        with self._lock:
            return tuple(codec.decode_event(text) for text in self._room(id).events)

    def progress(self, id: str, epoch: int, progress: Progress) -> None:
        with self._lock:
            room = self._room(id)
            if room.record and room.epoch == epoch:
                room.progress = (epoch, codec.encode_progress(progress), self._clock.now())

    def read_progress(self, id: str) -> tuple[Progress, datetime] | None:
        with self._lock:
            stored = self._room(id).progress
            return (codec.decode_progress(stored[1]), stored[2]) if stored else None

    def ask(self, id: str, request: Request | None) -> None:
        with self._lock:
            self._room(id).request = request

    def answered(self, id: str, request: Request) -> None:
        with self._lock:
            if self._room(id).request == request:
                self._room(id).request = None

    def asked(self, id: str) -> Request | None:
        with self._lock:
            return self._room(id).request

    def holder(self, id: str) -> Holder | None:
        with self._lock:
            held = self._room(id).held
            return held.holder if held is not None and not self._is_dead(held) else None

    @contextlib.contextmanager
    def lease(self, id: str, who: str, reason: str = "") -> Iterator[MemoryLease]:
        with self._lock:
            room = self._room(id)
            held = room.held
            if held is not None and held.holder.epoch == room.epoch and not self._is_dead(held):
                holder = held.holder
                since = holder.since.strftime("%Y-%m-%d %H:%M:%S UTC")
                raise LeaseTaken(
                    f"{id} is being worked on by {holder.who} on {holder.host} (process {holder.pid}), since {since}",
                    "one actor at a time",
                    "rollout status shows what it does; rollout pause asks it to stop",
                )
            epoch = self.bump_epoch(id)
            holder = Holder(who, socket.gethostname(), os.getpid(), self._clock.now(), 0, epoch)
            room.held = _Held(holder, self._clock.monotonic())
        try:
            yield MemoryLease(self, id, epoch)
        finally:
            self._let_go(id, epoch)

    def bump_epoch(self, id: str) -> int:
        with self._lock:
            room = self._room(id)
            room.epoch = max(room.epoch, self._high) + 1
            return room.epoch

    def purge(self, id: str, epoch: int) -> None:
        with self._lock:
            room = self._room(id)
            if room.epoch not in (0, epoch):
                raise _fenced(id, epoch, room.epoch)
            self._high = max(self._high, room.epoch)
            del self._rooms[id]

    def sign_of_life(self, id: str, epoch: int) -> bool:
        """Whether that lease still holds; if so, its holder is alive now."""
        with self._lock:
            room = self._room(id)
            if room.held is None or room.held.holder.epoch != epoch or room.epoch != epoch or self._is_dead(room.held):
                return False
            room.held.alive_at = self._clock.monotonic()
            return True

    def _let_go(self, id: str, epoch: int) -> None:
        with self._lock:
            room = self._rooms.get(id)
            if room is not None and room.held is not None and room.held.holder.epoch == epoch:
                room.held = None

    def _is_dead(self, held: _Held) -> bool:
        return self._clock.monotonic() - held.alive_at > self._times.silence_s

    def _room(self, id: str) -> _Room:
        return self._rooms.setdefault(id, _Room())


class MemoryLease:
    """Implements ``ports.Lease``."""

    def __init__(self, store: MemoryStore, id: str, epoch: int) -> None:
        self._store = store
        self._id = id
        self._epoch = epoch

    @property
    def epoch(self) -> int:
        return self._epoch

    def alive(self) -> None:
        if not self._store.sign_of_life(self._id, self._epoch):
            raise Fenced(
                f"the lease of {self._id} (epoch {self._epoch}) was lost",
                "a lease that is ours; whatever was about to be written has not been written",
                "rollout status shows who acts now; then type the same command again",
            )

    def confirm(self) -> None:
        self.alive()


def _store(room: _Room, record: Record, event: Event) -> None:
    room.record = codec.encode_record(record)
    room.events.append(codec.encode_event(replace(event, revision=record.revision, state=record.state.value)))


def _fenced(id: str, epoch: int, stands_at: int | None) -> Fenced:
    stands = "gone" if stands_at is None else f"at epoch {stands_at}"
    return Fenced(
        f"{id} is {stands} in the store, and we act under epoch {epoch}; nothing was written",
        "a lease that is still ours",
        "rollout status shows who acts now; then type the same command again",
    )
