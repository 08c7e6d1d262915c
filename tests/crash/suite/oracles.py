"""What must hold after each death, and what must hold at the end of a rollout; each finding is one sentence."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from orchestrator.drivers.ddl.ghost.place import place
from orchestrator.drivers.reads.boards import board_of
from orchestrator.errors import RolloutError
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.shape_diff import compare_shape
from orchestrator.model.state import FINISH, Record, State
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import mirror
from orchestrator.mysql.sql.state import KEYED_TABLES
from orchestrator.store.mysql import MysqlStore
from tests.crash.suite.moves import tells
from tests.support.command import Ground
from tests.support.servers import connect, sql, wait_caught_up, wait_for
from tests.support.shapes import live_shape
from tests.support.state import settings_of

_SCRATCH = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME LIKE '\\_rollout\\_%%'"
_OURS = (
    "SELECT ID FROM performance_schema.processlist"
    " WHERE INFO LIKE '%%/* rollout:%%' AND ID <> CONNECTION_ID() AND COMMAND <> 'Sleep'"
)
# Sessions of commands, whatever they do; argument: the name of our own process's.
_SESSIONS = (
    "SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs WHERE ATTR_NAME = 'program_name'"
    " AND ATTR_VALUE LIKE 'rollout %%' AND ATTR_VALUE NOT LIKE %s"
)
# Copies, logs and old tables of gh-ost, and scratch tables: no application has a table with such a name.
_TABLES = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME LIKE '\\_%%'"
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
    """Law 11, as the application sees it: the flag row on the server's own clock, or a flagd file, and the triggers, or
    that it is asked to write both columns."""
    if not here.events():
        return []
    row = here.sql("SELECT IF(expires_at > UTC_TIMESTAMP(6), read_percent, 0), double_writes FROM _rollout.flag")
    percent, both = row[0] if row else (0, 0)
    board = board_of(here.runbook, SystemClock())
    if board is not None:
        percent = max(percent, board.seen()[1])
    finishing = here.sql("SELECT phase FROM _rollout.rollout")[0][0] == FINISH
    ours = {mirror.trigger_name(here.runbook.id, event) for event in ("update", "insert")} & {*here.triggers()}
    if percent and not (len(ours) == 2 or both) and not finishing:
        return [f"readers at {percent} % and of the mirror there is {sorted(ours)}"]
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


def tells_what_came(here: Ground, record: Record | None, told: tuple[str, ...]) -> list[str]:
    """Findings when the history tells something else than what came through, in that order."""
    with closing(MysqlStore(settings_of(here.pair.primary), SystemClock())) as store:
        history = tells(store.history(here.runbook.id)) if record is not None else ()
    return [] if history == told else [f"what came through is {told}, and the history tells {history}"]


def left_behind(here: Ground) -> list[str]:
    """Findings when a rollout is closed, whoever writes: finished, rolled back all the way, or purged."""
    found = [f"a trigger is left: {name}" for name in here.triggers()]
    found += [f"a scratch schema is left: {name}" for (name,) in here.sql(_SCRATCH)]
    found += [f"a table is left: {name}" for (name,) in here.sql(_TABLES, here.runbook.table.schema)]
    if here.events() and here.sql("SELECT 1 FROM _rollout.flag WHERE double_writes"):
        found.append("the applications are still asked to write both columns")
    wait_for(lambda: not here.sql(_OURS), 30, "no statement of a dead command runs on")
    wait_for(lambda: not _named_locks(here), 30, "no named lock of a dead command is held")
    wait_for(lambda: not here.sql(_SESSIONS, f"% {os.getpid()}@%"), 30, "no session of a command is open")
    return found + _of_gh_ost(here)


def nothing_is_kept(here: Ground) -> list[str]:
    """Findings in the state, and where applications ask, after a purge."""
    id = here.runbook.id
    keyed = [t for t in KEYED_TABLES if here.sql(f"SELECT 1 FROM _rollout.{t} WHERE rollout = %s", id)]
    keyed += ["rollout"] if here.sql("SELECT 1 FROM _rollout.rollout WHERE id = %s", id) else []
    found = [f"after its purge there are rows in {', '.join(keyed)}"] if keyed else []
    reader = here.runbook.phases.reader
    files = [*Path(reader.argument).parent.glob(f"*{Path(reader.argument).name}*")] if reader.kind == "flagd" else []
    return found + [f"after its purge there is {file.name}" for file in files]


def at_the_end(here: Ground, record: Record | None, *, found_there: bool = False) -> list[str]:
    """Findings when a rollout is closed and nobody writes; None: it was purged, and its shape may be either.
    ``found_there``: the columns are of a rollout before, which was purged, so this one does not take them away."""
    found = left_behind(here)
    if record is None:
        return found + _replica_differs(here)
    with closing(Session(settings_of(here.pair.primary), role="oracle")) as session:
        shape = live_shape(session, here.runbook.table, here.runbook.contract.key)
    diff = compare_shape(here.runbook.contract, shape)
    gone = record.state is State.ROLLED_BACK and not record.done
    if gone and not found_there and diff.columns_equal and here.runbook.phases.rollback_ddl is RollbackDdl.DROP:
        found.append(f"columns that were dropped are there: {[c.name for c in diff.columns_equal]}")
    if not gone and not diff.complete:
        found.append("the shape is not the contract's")
    return found + _replica_differs(here)


def _named_locks(here: Ground) -> Sequence[str]:
    return [name for (name,) in here.sql(_LOCKS) if re.search("rollout", str(name))]


def _of_gh_ost(here: Ground) -> list[str]:
    server = here.pair.primary
    folder = place(here.runbook.id, f"{server.host}:{server.port}", here.runbook.table).folder
    found = [f"files of gh-ost are left: {[f.name for f in folder.iterdir()]}"] if folder.exists() else []
    for called in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.fsencode(folder) in called.read_bytes():
                found.append(f"a process of gh-ost is left: {called.parent.name}")
    return found


def _replica_differs(here: Ground) -> list[str]:
    wait_caught_up(here.pair)
    sums = [sql(s, f"CHECKSUM TABLE {here.table}")[0][1] for s in (here.pair.primary, here.pair.replica)]
    return [] if sums[0] == sums[1] else ["the replica holds other rows than the primary"]
