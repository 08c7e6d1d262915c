"""What must hold after each death, and what must hold at the end of a rollout; each finding is one sentence."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from orchestrator.errors import RolloutError
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.shape_diff import compare_shape
from orchestrator.model.state import FINISH, Record, State
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import mirror
from orchestrator.store.mysql import MysqlStore
from tests.support.command import Ground
from tests.support.servers import connect, sql, wait_caught_up, wait_for
from tests.support.shapes import live_shape
from tests.support.state import settings_of

_SCRATCH = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE '\\_rollout\\_%%'"
_OURS = (
    "SELECT ID FROM performance_schema.processlist"
    " WHERE INFO LIKE '%%/* rollout:%%' AND ID <> CONNECTION_ID() AND COMMAND <> 'Sleep'"
)
_LOCKS = (
    "SELECT OBJECT_NAME FROM performance_schema.metadata_locks WHERE OBJECT_TYPE = 'USER LEVEL LOCK'"
    " AND LOCK_STATUS = 'GRANTED'"
)


@dataclass
class Attended(Ground):
    """A ground whose server does not die, looked at over one session: opening one for each look took a third of a
    life."""

    session: Connection[Cursor]

    def sql(self, text: str, *args: Any) -> list[tuple[Any, ...]]:
        with self.session.cursor() as cursor:
            cursor.execute(text, args or None)
            return list(cursor.fetchall())


@contextmanager
def attended(here: Ground) -> Iterator[Attended]:
    with closing(connect(here.pair.primary)) as session:
        yield Attended(here.pair, here.runbook, here.shape, here.terminal, session)


def old_values(here: Ground) -> str:
    """A digest of every old column of every row."""
    return hashlib.sha256(repr(here.old_rows()).encode()).hexdigest()


def after_a_death(here: Ground, untouched: str | None) -> list[str]:
    """Findings right after a command died. ``untouched``: the digest of old values, when nobody else writes."""
    found = _state_readable(here)
    if untouched is not None and old_values(here) != untouched:
        found.append("an old column changed")
    return found + readers_have_their_mirror(here)


def readers_have_their_mirror(here: Ground) -> list[str]:
    """Law 11, as the application sees it: the flag row on the server's own clock, and the triggers."""
    if not here.events():
        return []
    flags = here.sql("SELECT read_percent FROM _rollout.flag WHERE expires_at > UTC_TIMESTAMP(6) AND read_percent > 0")
    finishing = here.sql("SELECT phase FROM _rollout.rollout")[0][0] == FINISH
    ours = {mirror.trigger_name(here.runbook.id, event) for event in ("update", "insert")} & {*here.triggers()}
    if flags and len(ours) != 2 and not finishing:
        return [f"readers at {flags[0][0]} % and of the mirror there is {sorted(ours)}"]
    return []


def _state_readable(here: Ground) -> list[str]:
    with closing(MysqlStore(settings_of(here.pair.primary), SystemClock())) as store:
        try:
            record = store.load(here.runbook.id)
            events = store.history(here.runbook.id) if record is not None else ()
        except RolloutError as error:
            return [f"the state cannot be read: {error.seen}"]
    if record is None:
        return []
    revisions = [e.revision for e in events]
    if revisions != list(range(1, record.revision + 1)):
        return [f"the history tells {revisions}, and the record is at {record.revision}"]
    return []


def at_the_end(here: Ground, record: Record | None) -> list[str]:
    """Findings when a rollout is closed: finished, or rolled back all the way; None: purged after its finish."""
    found = [f"a trigger is left: {name}" for name in here.triggers()]
    found += [f"a scratch schema is left: {name}" for (name,) in here.sql(_SCRATCH)]
    wait_for(lambda: not here.sql(_OURS), 30, "no statement of a dead command runs on")
    wait_for(lambda: not _named_locks(here), 30, "no named lock of a dead command is held")
    with closing(Session(settings_of(here.pair.primary), role="oracle")) as session:
        shape = live_shape(session, here.runbook.table, here.runbook.contract.key)
    diff = compare_shape(here.runbook.contract, shape)
    gone = record is not None and record.state is State.ROLLED_BACK and not record.done
    if gone and diff.columns_equal and here.runbook.phases.rollback_ddl is RollbackDdl.DROP:
        found.append(f"columns that were dropped are there: {[c.name for c in diff.columns_equal]}")
    if not gone and not diff.complete:
        found.append("the shape is not the contract's")
    return found + _replica_differs(here)


def _named_locks(here: Ground) -> Sequence[str]:
    return [name for (name,) in here.sql(_LOCKS) if re.search("rollout", str(name))]


def _replica_differs(here: Ground) -> list[str]:
    wait_caught_up(here.pair)
    sums = [sql(s, f"CHECKSUM TABLE {here.table}")[0][1] for s in (here.pair.primary, here.pair.replica)]
    return [] if sums[0] == sums[1] else ["the replica holds other rows than the primary"]
