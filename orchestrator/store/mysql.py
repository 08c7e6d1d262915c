"""The state in the target server itself: it fails over with the data, and whoever has the data has the state.

Every write is one packet, so a process that freezes leaves nothing open, and carries a token, so that a write whose
answer was lost can be found by asking. Nothing here ever kills a session to get its way.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from orchestrator.errors import CannotSay, Fenced, Held, RolloutError, ServerUnreachable
from orchestrator.journal import last_line
from orchestrator.model.outcome import Progress
from orchestrator.model.state import Ask, Event, Holder, Record, Request
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.session import Row, Session
from orchestrator.mysql.sql import state as sql
from orchestrator.mysql.told import NOT_INSTALLED, packet, rows, told_of_state
from orchestrator.ports import Clock, Lease
from orchestrator.settings import ServerSettings
from orchestrator.store import codec, lease, place
from orchestrator.store.install import install, refuse_newer
from orchestrator.store.settle import POLL_S, TRIES, Settling

_PROGRESS_ANSWER_S = 2.0
_PROGRESS_PAUSE_S = 10.0
_DUPLICATE = 1062


class MysqlStore:
    """Implements ``ports.Store``; may be called from several threads. ``timeout_s``: after how long a write without an
    answer is given up (half of it for the answer, half for asking whether it arrived)."""

    def __init__(
        self,
        settings: ServerSettings,
        clock: Clock,
        *,
        times: place.LeaseTimes | None = None,
        timeout_s: float = 10.0,
        journal_path: Path | None = None,
    ) -> None:
        self._settings = settings
        self._schema = settings.state_schema
        self._clock = clock
        self._times = times or place.LeaseTimes()
        self._timeout_s = timeout_s
        self._journal = journal_path
        self._sessions: dict[str, Session] = {}
        self._locks = {"store": threading.RLock(), "progress": threading.RLock()}
        self._version_seen = False
        self._no_progress_until = 0.0

    def close(self) -> None:
        """Close every session of the store; the next call opens a new one."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def install(self) -> None:
        """Create or migrate the state schema. Raises PrivilegeMissing (with the GRANT), ConfigurationError, Held."""
        install(self._settings)

    def load(self, id: str) -> Record | None:
        found = self._read(sql.load(self._schema, id))
        return _record(found[0]) if found else None

    def rollouts(self) -> Sequence[Record]:
        return tuple(_record(row) for row in self._read(sql.load_all(self._schema)))

    def history(self, id: str) -> Sequence[Event]:
        return tuple(codec.decode_event(row[0]) for row in self._read(sql.history(self._schema, id)))

    def create(self, record: Record, event: Event) -> Record:
        event = replace(event, revision=record.revision, state=record.state.value)
        try:
            created = self._settle(record, event, sql.create(self._schema, record, codec.encode_record(record)))
        except ServerError as error:
            if error.number != _DUPLICATE:
                raise self._told(error, f"beginning {record.id}") from error
            raise self._in_the_way(record) from error
        if not created:
            raise _fenced(record.id, record.epoch, "at another epoch")
        return record

    def save(self, record: Record, event: Event) -> Record:
        event = replace(event, revision=record.revision, state=record.state.value)
        try:
            saved = self._settle(record, event, sql.update(self._schema, record, codec.encode_record(record)))
        except ServerError as error:
            raise self._told(error, f"storing revision {record.revision} of {record.id}") from error
        if not saved:
            raise self._not_saved(record)
        return record

    def progress(self, id: str, epoch: int, progress: Progress) -> None:
        """Best effort: a server that does not take it is left alone for a while, and nobody is told."""
        if self._clock.monotonic() < self._no_progress_until:
            return
        statement = sql.write_progress(self._schema, id, epoch, codec.encode_progress(progress))
        try:
            with self._locks["progress"]:
                packet(self._session("progress", _PROGRESS_ANSWER_S), (sql.START, statement, sql.COMMIT))
        except (ServerError, ServerUnreachable):
            self._no_progress_until = self._clock.monotonic() + _PROGRESS_PAUSE_S

    def read_progress(self, id: str) -> tuple[Progress, datetime] | None:
        found = self._read(sql.read_progress(self._schema, id))
        return (codec.decode_progress(found[0][0]), found[0][1].replace(tzinfo=UTC)) if found else None

    def ask(self, id: str, request: Request | None) -> None:
        doing = f"leaving a request for {id}" if request else f"clearing the request to {id}"
        self._repeat((sql.START, sql.ask(self._schema, id, request), sql.COMMIT), doing)

    def answered(self, id: str, request: Request) -> None:
        statement = sql.answered(self._schema, id, request)
        self._repeat((sql.START, statement, sql.COMMIT), f"clearing a request to {id}")

    def asked(self, id: str) -> Request | None:
        found = self._read(sql.asked(self._schema, id))
        if not found:
            return None
        ask, who, at, reason = found[0]
        return Request(Ask(ask), who, at.replace(tzinfo=UTC), reason)

    def holder(self, id: str) -> Holder | None:
        try:
            with self._locks["store"]:
                return lease.read_holder(self._main(), self._schema, id)
        except ServerError as error:
            if error.number in NOT_INSTALLED:
                return None
            raise self._told(error, f"reading the lease of {id}", writes=False) from error

    def lease(self, id: str, who: str, reason: str = "") -> AbstractContextManager[Lease]:
        return lease.hold(place.Place(self._schema, id, self._connect, self._clock, self._times), who, reason)

    def bump_epoch(self, id: str) -> int:
        for left in reversed(range(TRIES)):
            try:
                with self._locks["store"]:
                    return lease.raise_epoch(self._main(), self._schema, id)
            except ServerError as error:
                if not left or error.cure not in (Cure.RETRY, Cure.RECONNECT):
                    raise self._told(error, f"fencing whoever holds {id}") from error
        raise AssertionError("the last try returns or raises")

    def purge(self, id: str, epoch: int) -> None:
        ((gone,),) = self._repeat(sql.purge(self._schema, id, epoch), f"purging {id}")
        if not gone:
            raise _fenced(id, epoch, "somebody else's")

    def _read(self, statement: sql.Statement) -> list[Row]:
        """Rows of a read; none when the store was never installed. A broken session is tried once more."""
        for last in (False, True):
            try:
                with self._locks["store"]:
                    session = self._main()
                    if not self._version_seen:
                        refuse_newer(session, self._schema)
                        self._version_seen = True
                    return rows(session, statement)
            except ServerError as error:
                if error.number in NOT_INSTALLED:
                    return []
                if last or error.cure is not Cure.RECONNECT:
                    raise self._told(error, "reading the state", writes=False) from error
        return []

    def _repeat(self, statements: tuple[sql.Statement, ...], doing: str) -> list[Row]:
        """Send statements that may be sent twice, until the server takes them or says why not. The last one's rows."""
        for left in reversed(range(TRIES)):
            try:
                with self._locks["store"]:
                    return packet(self._main(), statements)[-1]
            except ServerError as error:
                if not left or error.cure not in (Cure.RETRY, Cure.RECONNECT):
                    raise self._told(error, doing) from error
                self._clock.sleep(POLL_S)
        raise AssertionError("the last try returns or raises")

    def _settle(self, record: Record, event: Event, write: tuple[sql.Statement, ...]) -> bool:
        """Whether the write and its event took effect. Raises ServerError when refused, CannotSay when nobody knows."""
        token = secrets.token_hex(16)
        body = codec.encode_event(event)
        statements = (
            *(sql.START, *write, sql.append(self._schema, record, event, body, token)),
            *(sql.COMMIT, sql.ANSWER_OK),
        )
        with self._locks["store"]:
            settling = Settling(self._main, self._schema, self._clock, self._timeout_s / 2)
            settled = settling.settle(record.id, token, statements)
        if settled is None:
            raise self._cannot_say(record, event, body)
        return settled

    def _not_saved(self, record: Record) -> RolloutError:
        found = self._read(sql.stand(self._schema, record.id))
        if not found:
            return _fenced(record.id, record.epoch, "gone")
        revision, epoch = (int(n) for n in found[0])
        if epoch != record.epoch:
            return _fenced(record.id, record.epoch, f"at epoch {epoch}")
        return RolloutError(
            f"{record.id} is stored with revision {revision}, and revision {record.revision} was to follow it",
            f"revision {revision + 1}",
            "this is a bug of rollout; nothing was changed, please report it",
        )

    def _in_the_way(self, record: Record) -> RolloutError:
        found = self._read(sql.open_on(self._schema, record.table))
        other, state = found[0] if found else (record.id, "stored already")
        return Held(
            f"rollout {other} ({state}) is open on table {record.table}",
            "one open rollout on a table",
            f"finish {other}, or roll it back and purge it",
        )

    def _cannot_say(self, record: Record, event: Event, body: str) -> CannotSay:
        line = f"{record.id} revision {record.revision} epoch {record.epoch} {event.kind.value}: {body}"
        where = last_line(line, self._journal)
        return CannotSay(
            f"the server did not say whether revision {record.revision} of {record.id} was stored (journal: {where})",
            f"an answer within {self._timeout_s:.0f} s",
            "look at the server's disks (a full binary log makes commits wait); kill no session; then: rollout status",
        )

    def _told(self, error: ServerError, doing: str, *, writes: bool = True) -> RolloutError:
        return told_of_state(self._main(), error, doing, writes=writes)

    def _main(self) -> Session:
        return self._session("store", self._timeout_s / 2)

    def _session(self, role: str, timeout_s: float) -> Session:
        if role not in self._sessions:
            self._sessions[role] = self._connect(role, timeout_s)
        return self._sessions[role]

    def _connect(self, role: str, timeout_s: float) -> Session:
        return Session(self._settings, role=role, timeout_s=timeout_s, roams=True)


def _record(row: Row) -> Record:
    revision, epoch, text = row
    return replace(codec.decode_record(text), revision=int(revision), epoch=int(epoch))


def _fenced(id: str, epoch: int, stands: str) -> Fenced:
    return Fenced(
        f"{id} is {stands} in the store, and we act under epoch {epoch}; nothing was written",
        "a lease that is still ours",
        "rollout status shows who acts now; then type the same command again",
    )
