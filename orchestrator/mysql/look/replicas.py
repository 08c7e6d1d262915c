"""All replicas at once, each by a session of its own, so that a dead one never makes a beat wait.

A replica that was seen once stays on the list: the primary forgets one that is gone, and gone is not healthy.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from orchestrator.errors import RolloutError
from orchestrator.model.contract import TableName
from orchestrator.model.facts import ReplicaFacts
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.look.discovery import Address, find_replicas
from orchestrator.mysql.look.replica import Asked, Source, read_replica, read_source
from orchestrator.mysql.look.unseen import Account, Unseen, unseen_because
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.settings import OneServer

TIMEOUT_S = 2.0
PATIENCE_S = 2.5
# A healthy look takes some 20 ms; one that failed the last time gets no more than a chance to be well again.
PATIENCE_WHEN_FAILED_S = 0.15
_MOST_AT_ONCE = 16
_NO_ADDRESS = (
    "runs without report_host, and no dump thread shows where it is: name it under replicas: list"
    " (a reader of changes that is no replica: likewise, without it)"
)


class _Watch(Struct):
    """One replica: its session when there is one, and its last look; ``late``: that was begun for an earlier question,
    and is still under way."""

    address: Address
    session: Session | None = None
    pending: Future[ReplicaFacts] | None = None
    since: float = 0.0
    late: bool = False
    failed: bool = False


class Replicas(Struct):
    """Keeps sessions with all replicas. Not for two threads at once; ``close`` ends all sessions."""

    site: Site
    _watched: dict[str, _Watch] = field(default_factory=dict)
    _pool: ThreadPoolExecutor | None = None
    _beats_since: datetime | None = None

    def look(self, primary: Session, account: Account, tables: tuple[TableName, ...] = ()) -> tuple[ReplicaFacts, ...]:
        """Facts of every replica; with ``tables`` also who holds metadata locks on them there.

        Waits ``PATIENCE_S`` at most, and hardly at all for replicas that gave no answer the last time.
        Raises ServerError when the primary cannot be asked which replicas there are.
        """
        for address in find_replicas(primary, self.site.runbook.replicas):
            self._watched.setdefault(address.uuid or address.name, _Watch(address))
        if not self._watched:
            return ()
        asked = Asked(self.site.settings.state_schema, self.site.runbook.id, tables)
        source = read_source(primary, asked, self.site.clock, self._beats_since)
        self._beats_since = source.beats_since
        for watch in self._watched.values():
            self._start(watch, source, asked, account)
        for failed, patience_s in ((False, PATIENCE_S), (True, PATIENCE_WHEN_FAILED_S)):
            begun = [w.pending for w in self._watched.values() if w.pending and not w.late and w.failed is failed]
            wait(begun, timeout=patience_s)
        return tuple(self._result(watch) for watch in self._watched.values())

    def close(self) -> None:
        """Close every session; a look that is under way ends by itself within its timeout."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None
        for watch in self._watched.values():
            if watch.session is not None:
                watch.session.close()
        self._watched.clear()

    def _start(self, watch: _Watch, source: Source, asked: Asked, account: Account) -> None:
        """Begin a look, unless one is under way. What came when nobody waited for it any more is not believed, as it
        tells of an earlier moment; but who answers again is waited for again, however far it is."""
        if watch.pending is not None:
            watch.late = not watch.pending.done()
            if watch.late:
                return
            watch.failed = not watch.pending.result().reachable
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="replica")
        watch.since = self.site.clock.monotonic()
        watch.pending = self._pool.submit(_look_at, watch, self.site, source, asked, account)

    def _result(self, watch: _Watch) -> ReplicaFacts:
        if watch.pending is not None and watch.pending.done() and not watch.late:
            facts = watch.pending.result()
        else:
            waited_s = self.site.clock.monotonic() - watch.since
            facts = ReplicaFacts(watch.address.name, reachable=False, problem=f"no answer for {waited_s:.1f} s")
        watch.failed = not facts.reachable
        return facts


def _look_at(watch: _Watch, site: Site, source: Source, asked: Asked, account: Account) -> ReplicaFacts:
    """Runs in a thread of its own. Whatever goes wrong is said in the facts; nothing is raised but bugs."""
    label = watch.address.name
    try:
        if watch.session is None:
            watch.session = reach(watch.address, site)
        return read_replica(watch.session, label, source, asked, site.clock)
    except Unseen as unseen:
        return ReplicaFacts(label, reachable=False, problem=f"{unseen.reason} {unseen.grant}".strip())
    except ServerError as error:
        told = unseen_because(error, account)
        _drop(watch)
        where = f" (on that replica: {told.grant})" if told.grant else ""
        return ReplicaFacts(label, reachable=False, problem=f"{told.reason}{where}")
    except RolloutError as error:
        _drop(watch)
        return ReplicaFacts(label, reachable=False, problem=error.seen)


def reach(address: Address, site: Site) -> Session:
    """A session with the server that the primary means, and with no other when it is opened again. Raises Unseen,
    ServerUnreachable."""
    if not address.hosts:
        raise Unseen(_NO_ADDRESS)
    last: RolloutError | None = None
    for host in address.hosts:
        settings = replace(site.settings, host=host, port=address.port, socket="", one=OneServer())
        try:
            session = Session(settings, role="replica", timeout_s=TIMEOUT_S)
        except RolloutError as error:
            last = error
            continue
        if not address.uuid or session.value("SELECT @@server_uuid") == address.uuid:
            return session
        session.close()
    if last is not None:
        raise last
    raise Unseen(f"another server answers at {', '.join(address.hosts)} port {address.port}")


def _drop(watch: _Watch) -> None:
    if watch.session is not None:
        with contextlib.suppress(OSError):
            watch.session.close()
        watch.session = None
