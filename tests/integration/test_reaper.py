"""Why the contract of AiJob maps processing to running: a reaper beside the old application's workers, both ways.

The reaper is the new application's: it sends jobs that are locked and give no sign of life back to pending. An old
worker gives none while it runs a job. Everything that is said to the table here, the runbook declares.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.model.contract import ValueMap
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.session import Session
from orchestrator.sandbox.seed import create_tables
from orchestrator.sandbox.server import Server
from tests.support.servers import connect, script, sql
from tests.support.shapes import live_shape
from tests.support.state import settings_of
from tests.support.traffic import Prepared, expand, moved, raise_mirror

BUSY, LATE = 3, 2
WAITING = 3
DEAD = "job-of-a-dead-worker"
PATIENCE_S = 30.0


def mapped_to(runbook: Runbook, state: str) -> Runbook:
    """The runbook with processing → ``state``."""
    first, *others = runbook.contract.mappings
    forward = first.forward
    assert isinstance(forward, ValueMap)
    values = tuple((old, state if old == "processing" else new) for old, new in forward.values)
    mapping = replace(first, forward=replace(forward, values=values))
    return replace(runbook, contract=replace(runbook.contract, mappings=(mapping, *others)))


def declared(texts: tuple[str, ...], *words: str) -> str:
    """The one declared statement with these words, its parameters as the driver wants them."""
    (found,) = [t for t in texts if all(w in t for w in words)]
    return found.replace("?", "%s")


@contextmanager
def jobs(primary: Server, schema: str, state: str) -> Iterator[Runbook]:
    """The table under the mirror: jobs that wait, and one whose new worker locked it and died."""
    runbook = mapped_to(moved("aijob", schema), state)
    with closing(Session(settings_of(primary), role="test")) as session:
        create_tables(session, runbook)
        at = Prepared(settings_of(primary), runbook, live_shape(session, runbook.table), session)
        expand(at)
        raise_mirror(at)
    waiting = ", ".join(f"('job-{n}', 'u', NOW(3) - INTERVAL {9 - n} MINUTE)" for n in range(BUSY + WAITING))
    script(
        primary,
        "INSERT INTO `User` (id, email) VALUES ('u', 'u@example.test');"
        f"INSERT INTO AiAnalysisJob (id, userId, createdAt) VALUES {waiting};"
        f"INSERT INTO AiAnalysisJob (id, userId, lifecycleStatus) VALUES ('{DEAD}', 'u', 'locked')",
        schema,
    )
    yield runbook


@dataclass
class Floor:
    """Where the workers meet. Nobody waits for time: only for each other."""

    server: Server
    schema: str
    runbook: Runbook
    started: list[str] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)
    all_run: threading.Barrier = field(default_factory=lambda: threading.Barrier(BUSY + 1, timeout=PATIENCE_S))
    swept: threading.Barrier = field(default_factory=lambda: threading.Barrier(LATE + 1, timeout=PATIENCE_S))
    taken: threading.Barrier = field(default_factory=lambda: threading.Barrier(BUSY + LATE, timeout=PATIENCE_S))

    def _claim(self, session: Any) -> str | None:
        """An old worker takes the oldest job that waits, and begins to run it."""
        old = self.runbook.contract.old_statements
        with self.turn, session.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute(declared(old, "FOR UPDATE SKIP LOCKED"))
            row = cursor.fetchone()
            if row is not None:
                cursor.execute(declared(old, "SET status = 'processing'"), (row[0],))
                self.started.append(row[0])
            cursor.execute("COMMIT")
        return None if row is None else str(row[0])

    def _complete(self, session: Any, job: str) -> None:
        with session.cursor() as cursor:
            done = declared(self.runbook.contract.old_statements, "SET status = 'completed'", "resultJson")
            cursor.execute(done, ("{}", job))

    def busy(self) -> None:
        """Runs one job from before the reaper comes until after the others have taken what it left."""
        with closing(connect(self.server, database=self.schema)) as session:
            job = self._claim(session)
            assert job is not None
            self.all_run.wait()
            self.taken.wait()
            self._complete(session, job)

    def late(self) -> None:
        """Comes when the reaper has gone, and takes jobs until none waits."""
        with closing(connect(self.server, database=self.schema)) as session:
            self.swept.wait()
            mine = []
            while (job := self._claim(session)) is not None:
                mine.append(job)
            self.taken.wait()
            for job in mine:
                self._complete(session, job)

    def reap(self) -> int:
        """One pass of the reaper, an hour later by its own clock. How many jobs it sent back."""
        with closing(connect(self.server, database=self.schema)) as session, session.cursor() as cursor:
            self.all_run.wait()
            cursor.execute("SET timestamp = UNIX_TIMESTAMP() + 3600")
            back = declared(self.runbook.contract.new_statements, "SET lifecycleStatus = 'pending'", "'locked'")
            swept = int(cursor.execute(back, (60,)))
            self.swept.wait()
        return swept


def played(primary: Server, schema: str, state: str) -> tuple[int, Counter[str], list[Any]]:
    """How many jobs the reaper sent back, how often each was begun, and what the table holds at the end."""
    with jobs(primary, schema, state) as runbook:
        floor = Floor(primary, schema, runbook)
        with ThreadPoolExecutor(BUSY + LATE + 1) as people:
            work = [people.submit(floor.busy) for _ in range(BUSY)] + [people.submit(floor.late) for _ in range(LATE)]
            reaper = people.submit(floor.reap)
            for each in work:
                each.result()
    ended = sql(primary, f"SELECT DISTINCT status, lifecycleStatus FROM {schema}.AiAnalysisJob")
    return reaper.result(), Counter(floor.started), ended


@pytest.mark.parametrize(("state", "runs"), [("running", 1), ("locked", 2)])
def test_no_job_runs_twice_because_processing_is_running_and_not_locked(
    primary: Server, schema: str, state: str, runs: int
) -> None:
    swept, begun, ended = played(primary, schema, state)
    at_work = {f"job-{n}": runs for n in range(BUSY)}
    others = {f"job-{n}": 1 for n in range(BUSY, BUSY + WAITING)} | {DEAD: 1}
    assert begun == at_work | others
    assert swept == 1 + (BUSY if runs == 2 else 0)
    assert ended == [("completed", "succeeded")]
