"""One statement in flight: it runs in a thread on its own session while another session watches its metadata locks.

A statement that waits for an exclusive lock stops everybody who comes after it. So nobody waits here for the server's
own time-out: the watcher takes the statement back (``KILL QUERY``) as soon as it was PENDING for as long as it may be.
"""

from __future__ import annotations

import threading

from msgspec import Struct

from orchestrator.errors import RolloutError
from orchestrator.mysql.errno import SERVER_LOST, Cure, ServerError
from orchestrator.mysql.session import Row, Session
from orchestrator.ports import Clock

_POLL_S = 0.015
# While it builds nobody waits for it; its last step is seen soon enough, and the server has the time for the build.
_BUILDING_POLL_S = 0.1
_LOOKS_IN_LAST = 10
_GONE_AFTER_S = 3.0
_KILL_AGAIN_S = 0.1
# The state names of an online build's main part; the locks before and after it have names of their own.
_BUILDING = ("altering table", "alter table")
_LOOK = (
    "SELECT t.PROCESSLIST_STATE, (SELECT COUNT(*) FROM performance_schema.metadata_locks m"
    " WHERE m.OWNER_THREAD_ID = t.THREAD_ID AND m.LOCK_STATUS = 'PENDING'), sg.WORK_COMPLETED, sg.WORK_ESTIMATED"
    " FROM performance_schema.threads t"
    " LEFT JOIN performance_schema.events_stages_current sg ON sg.THREAD_ID = t.THREAD_ID"
    " WHERE t.PROCESSLIST_ID = %s"
)


class Patience(Struct, frozen=True):
    """How long the statement may be PENDING before it is taken back: at first, and, for a build, at its last step."""

    first_s: float
    last_s: float | None = None


class Landing(Struct, frozen=True):
    """How it ended. ``error`` None: the server says that it took effect. ``lost``: nobody heard the end.

    ``longest_pending_s`` is an upper bound, from the last look that saw nothing pending. ``build_s`` is the time
    between the first lock and the last step. ``by_us``: the watcher asked for the end.
    """

    error: ServerError | None
    lost: bool
    by_us: bool
    at_last_step: bool
    longest_pending_s: float
    build_s: float


class Flight:
    """Started at once, watched until it ends. Only this object touches the two sessions meanwhile."""

    def __init__(self, statement: str, session: Session, watch: Session, patience: Patience, clock: Clock) -> None:
        self._statement = statement
        self._session = session
        self._watch = watch
        self._patience = patience
        self._clock = clock
        # Asked of the server, because the session may just have been opened again.
        self.process_id = int(session.value("SELECT CONNECTION_ID()"))
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._error: ServerError | RolloutError | None = None
        self._unheard = False
        self._take_back = False
        self._by_us = False
        self._killed_at = float("-inf")
        self._clear_at = self._seen_at = self._ended_at = clock.monotonic()
        self._pending = False
        self._building_since: float | None = None
        self._built_at: float | None = None
        self._longest_pending_s = 0.0
        self.work: tuple[int, int] = (0, 0)
        self.rows: list[Row] = []
        self._watcher = threading.Thread(target=self._watch_until_end, name="rollout-watch", daemon=True)
        self._sender = threading.Thread(target=self._send, name="rollout-ddl", daemon=True)
        self._watcher.start()
        self._sender.start()

    @property
    def building(self) -> bool:
        return self._building_since is not None

    def take_back(self) -> None:
        """Ask for its end. It may still turn out that it took effect first."""
        self._take_back = True

    def wait(self, seconds: float) -> bool:
        """True when it has ended within ``seconds``."""
        return self._ended.wait(seconds)

    def landing(self) -> Landing:
        """Only after its end. Raises what is not the server's answer (it could not be sent at all)."""
        self._watcher.join()
        if isinstance(self._error, RolloutError):
            raise self._error
        if self._pending:
            self._longest_pending_s = max(self._longest_pending_s, self._ended_at - self._clear_at)
        built_at = self._built_at or self._ended_at
        build_s = built_at - self._building_since if self._building_since is not None else 0.0
        lost = self._unheard or (self._error is not None and self._error.cure is Cure.RECONNECT)
        return Landing(
            error=self._error,
            lost=lost,
            by_us=self._by_us,
            at_last_step=self._built_at is not None,
            longest_pending_s=self._longest_pending_s,
            build_s=build_s,
        )

    def _send(self) -> None:
        error: ServerError | RolloutError | None = None
        try:
            self.rows = self._session.query(self._statement)
        except (ServerError, RolloutError) as seen:
            error = seen
        self._end(error)

    def _end(self, error: ServerError | RolloutError | None, *, unheard: bool = False) -> None:
        with self._lock:
            if not self._ended.is_set():
                self._ended_at = self._clock.monotonic()
                self._error, self._unheard = error, unheard
                self._ended.set()

    def _watch_until_end(self) -> None:
        while not self._ended.wait(self._poll_s()):
            try:
                self._look()
            except (ServerError, RolloutError):
                # The session opens itself again at the next look; until then the server's own bound holds.
                continue

    def _poll_s(self) -> float:
        if not self.building or self._pending or self._patience.last_s is None:
            return _POLL_S
        return max(_POLL_S, min(_BUILDING_POLL_S, self._patience.last_s / _LOOKS_IN_LAST))

    def _look(self) -> None:
        row = self._watch.one(_LOOK, (self.process_id,))
        now = self._clock.monotonic()
        if row is None:
            self._nobody_there(now)
            return
        self._seen_at = now
        state, pending, done, total = row
        self.work = (int(done or 0), int(total or 0))
        if pending or self._pending:
            # A wait that began or ended between two looks counts in full.
            self._longest_pending_s = max(self._longest_pending_s, now - self._clear_at)
        self._pending = bool(pending)
        if not pending:
            self._clear_at = now
            if self._building_since is None and str(state or "").startswith(_BUILDING):
                self._building_since = now
        elif self.building and self._built_at is None:
            self._built_at = now
        if self._take_back or (pending and now - self._clear_at >= self._limit_s()):
            self._kill(now)

    def _limit_s(self) -> float:
        if self.building and self._patience.last_s is not None:
            return self._patience.last_s
        return self._patience.first_s

    def _kill(self, now: float) -> None:
        if now - self._killed_at >= _KILL_AGAIN_S:
            self._killed_at = now
            self._by_us = True
            self._watch.execute(f"KILL QUERY {self.process_id}")

    def _nobody_there(self, now: float) -> None:
        """The server does not know the session any more, and its client heard nothing: the end was swallowed."""
        if now - self._seen_at < _GONE_AFTER_S:
            return
        self._end(ServerError(SERVER_LOST, "the server has no such session any more, and gave no answer"), unheard=True)
