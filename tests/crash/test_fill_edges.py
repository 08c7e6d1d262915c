"""Whatever dies at whatever edge of a batch, each row is written once: ``v = v + 1`` shows 1 in every row."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import cycle

import pymysql
import pytest

from orchestrator.drivers.rows.passes import FillPass
from orchestrator.model.contract import TableName
from orchestrator.mysql.keyset import BatchSize
from orchestrator.mysql.persistence import Backoff
from orchestrator.mysql.sql.positions import PassName
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from tests.support.edges import EDGES, Edge, EdgySession, die, killed_child
from tests.support.keys import KINDS
from tests.support.rows import ROLLOUT, VISIT, ToldBeat, begin_rollout, fill_pass, reader_of, work_over
from tests.support.servers import connect, script, sql, wait_caught_up
from tests.support.state import settings_of

pytestmark = [pytest.mark.crash, pytest.mark.integration]
TABLE = TableName("walked", "t")
# Longer than a restart of the server takes.
PATIENT = Backoff(random.random, first_s=0.1, most_s=1.0, tries=60)


@pytest.fixture(scope="module")
def walked(primary: Server) -> Iterator[Server]:
    script(primary, "DROP DATABASE IF EXISTS walked; CREATE DATABASE walked DEFAULT CHARACTER SET utf8mb4")
    begin_rollout(primary)
    yield primary
    script(primary, "DROP DATABASE IF EXISTS walked; DROP DATABASE IF EXISTS _rollout")


def made(server: Server, name: str, table: str = "walked.t") -> int:
    sql(server, "DELETE FROM _rollout.position")
    return KINDS[name].make(server, table, KINDS[name].wrapped[-5:])


def counted(server: Server, table: str = "walked.t") -> tuple[int, int, int]:
    """Rows, and how often the least and the most written of them was written."""
    return sql(server, f"SELECT COUNT(*), MIN(v), MAX(v) FROM {table}")[0]  # type: ignore[return-value]  # of numbers


@pytest.mark.parametrize("name", KINDS)
def test_a_client_that_is_killed_at_every_edge_of_a_batch_writes_each_row_once(walked: Server, name: str) -> None:
    """Case B122."""
    rows = made(walked, name)
    met: list[Edge] = []
    for edge in cycle(EDGES):

        def work(edge: Edge = edge) -> None:
            with closing(EdgySession(settings_of(walked), die, (edge,))) as session:
                fill_pass(session, TABLE, ToldBeat(), rows=1).run()

        if not killed_child(work):
            break
        met.append(edge)
        assert len(met) < 6 * rows, "the pass does not end"
    assert counted(walked) == (rows, 1, 1)
    # Not by whom: a dead client's transaction may still be ending on the server when its successor comes by.
    assert sql(walked, "SELECT rows_done, done FROM _rollout.position") == [(rows, 1)]
    assert set(met) == set(EDGES)


@pytest.mark.parametrize("name", KINDS)
def test_a_session_that_is_killed_at_every_edge_of_a_batch_writes_each_row_once(walked: Server, name: str) -> None:
    rows = made(walked, name)
    met: list[Edge] = []
    with closing(connect(walked)) as killer, killer.cursor() as cursor:

        def kill(edge: Edge) -> None:
            met.append(edge)
            with suppress(pymysql.err.MySQLError):
                cursor.execute(f"KILL {session.connection_id}")

        with closing(EdgySession(settings_of(walked), kill)) as session:
            position = fill_pass(session, TABLE, ToldBeat(), rows=1).run()
    assert counted(walked) == (rows, 1, 1)
    assert (position.rows_done, position.rows_changed, position.done) == (rows, rows, True)
    assert set(met) == set(EDGES)


class Gate:
    """Where all passes meet at an edge while the server is killed under them."""

    def __init__(self, passes: int) -> None:
        self.arrived = threading.Barrier(passes + 1)
        self.dead = threading.Barrier(passes + 1)
        self.left = threading.local()

    def __call__(self, edge: Edge) -> None:
        """Each pass stops here once for each edge; what is sent is on its way while the server dies."""
        met: set[Edge] = self.left.__dict__.setdefault("met", set())
        if edge in met:
            return
        met.add(edge)
        self.arrived.wait(60)
        if edge is not Edge.SENT:
            self.dead.wait(60)


@pytest.mark.timeout(240)
def test_a_server_that_is_killed_at_every_edge_of_a_batch_writes_each_row_once(walked: Server, pair: Pair) -> None:
    rows = {name: made(walked, name, f"walked.`{name}`") for name in KINDS}
    gate, failed = Gate(len(KINDS)), []

    def fill(name: str) -> None:
        try:
            with closing(EdgySession(settings_of(walked), gate)) as session:
                reader = reader_of(session, TableName("walked", name), VISIT.counted)
                work = work_over(reader, ToldBeat(), backoff=PATIENT)
                FillPass(work, PassName("_rollout", ROLLOUT, 1, name), BatchSize(1000.0, 1, 1)).run()
        except Exception as error:  # whatever it is, the test must say it and not hang
            failed.append((name, error))
            gate.arrived.abort()
            gate.dead.abort()

    threads = [threading.Thread(target=fill, args=(name,)) for name in KINDS]
    for thread in threads:
        thread.start()
    for edge in EDGES:
        gate.arrived.wait(60)
        walked.kill9()
        if edge is not Edge.SENT:
            gate.dead.wait(60)
        walked.start()
        walked.wait_ready()
    for thread in threads:
        thread.join()
    assert not failed
    assert {name: counted(walked, f"walked.`{name}`") for name in KINDS} == {n: (r, 1, 1) for n, r in rows.items()}
    assert sql(walked, "SELECT COUNT(*) FROM _rollout.position WHERE done AND rows_done = rows_changed") == [
        (len(KINDS),)
    ]
    wait_caught_up(pair)
