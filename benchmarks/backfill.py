"""The backfill's speed against a plain loop on the same table, and its memory as the table grows."""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.figures import Figure, interleaved
from orchestrator.drivers.rows import FillDriver
from orchestrator.model.contract import Column, Contract, Expression, Mapping, TableName, ValueMap
from orchestrator.model.outcome import GO, Progress, Result, Signal
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import Fill
from orchestrator.model.types import parse_type
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.sandbox.pair import start_pair
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import OPERATOR
from orchestrator.settings import Secret, ServerSettings
from orchestrator.store.install import install

ROWS = 40_000
BATCH_ROWS = 1_000
_TABLE = TableName("bench", "orders")
_ROLLOUT = "bench"
_STATES = (("new", "pending"), ("work", "running"), ("done", "succeeded"), ("err", "failed"))
_COLUMNS = (
    "id BIGINT NOT NULL PRIMARY KEY, status VARCHAR(20) NOT NULL, note VARCHAR(200) NOT NULL, timeout_s INT NOT NULL,"
    " made_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),"
    " changed_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),"
    " state VARCHAR(32) NULL, timeout_ms BIGINT NULL"
)
_INDEXES = ", KEY by_status (status, made_at), KEY by_state (state, made_at)"
# What somebody would write by hand.
_PLAIN = (
    "UPDATE bench.orders SET state = CASE status WHEN 'new' THEN 'pending' WHEN 'work' THEN 'running'"
    " WHEN 'done' THEN 'succeeded' WHEN 'err' THEN 'failed' END, timeout_ms = timeout_s * 1000,"
    " changed_at = changed_at WHERE id > %s AND id <= %s AND state IS NULL"
)


def backfill() -> Sequence[Figure]:
    """Rows a second with one worker ÷ a plain loop (find the end of the batch, UPDATE, COMMIT) at equal batch size."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            settings = _settings(pair.primary)
            with closing(Session(settings, role="bench", timeout_s=600.0)) as session:
                _make(session, settings, ROWS, _INDEXES)
                ours, plain = interleaved([lambda: _ours(session, settings), lambda: _plain_loop(session)])
        finally:
            pair.remove()
    note = f"{ROWS} rows, batches of {BATCH_ROWS}, two secondary indexes"
    return (Figure("backfill", ours, "rows/s", plain, goal=0.85, higher=True, note=note),)


def memory() -> Sequence[Figure]:
    """Peak memory of a backfill of a million rows ÷ of a hundred thousand; one run each, in processes of their own."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            few, many = (_peak_bytes(pair.primary, rows) for rows in (100_000, 1_000_000))
        finally:
            pair.remove()
    return (Figure("memory", many, "bytes", few, goal=1.1, note="1,000,000 ÷ 100,000 rows, one run each"),)


class _Beat:
    """Nobody watches."""

    epoch = 1

    def __call__(self, progress: Progress) -> Signal:
        return GO


def _settings(server: Server) -> ServerSettings:
    return ServerSettings(host=server.host, port=server.port, user=OPERATOR.user, password=Secret(OPERATOR.password))


def _make(session: Session, settings: ServerSettings, rows: int, indexes: str) -> None:
    install(settings)
    session.execute("SET SESSION cte_max_recursion_depth = 10000000")
    session.execute("CREATE DATABASE IF NOT EXISTS bench")
    session.execute("DROP TABLE IF EXISTS bench.orders")
    session.execute(f"CREATE TABLE bench.orders ({_COLUMNS}{indexes})")
    session.execute(
        "INSERT INTO bench.orders (id, status, note, timeout_s)"
        " WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < %s)"
        " SELECT i * 7, ELT(1 + i %% 4, 'new', 'work', 'done', 'err'), REPEAT('x', 100), i %% 90 FROM n",
        (rows,),
    )
    session.execute("DELETE FROM _rollout.rollout")
    session.execute(
        "INSERT INTO _rollout.rollout (id, server_uuid, state, phase, revision, epoch, record, updated_at)"
        " VALUES (%s, @@server_uuid, 'running', 'backfill', 1, 1, '{}', UTC_TIMESTAMP(6))",
        (_ROLLOUT,),
    )
    session.execute("DELETE FROM _rollout.position")


def _empty(session: Session) -> None:
    session.execute("UPDATE bench.orders SET state = NULL, timeout_ms = NULL, changed_at = changed_at")
    session.execute("DELETE FROM _rollout.position")


def _ours(session: Session, settings: ServerSettings) -> float:
    _empty(session)
    began = time.perf_counter()
    written = _fill(settings, BATCH_ROWS, target_time_s=60.0)
    return written / (time.perf_counter() - began)


def _plain_loop(session: Session) -> float:
    """Three round trips a batch."""
    _empty(session)
    session.pin("autocommit", 0)
    began, at, written = time.perf_counter(), 0, 0
    while True:
        row = session.one(
            "SELECT MAX(id), COUNT(*) FROM (SELECT id FROM bench.orders WHERE id > %s ORDER BY id LIMIT %s) AS d",
            (at, BATCH_ROWS),
        )
        if row is None or not row[1]:
            break
        written += session.execute(_PLAIN, (at, row[0]))
        session.execute("COMMIT")
        at = row[0]
    took_s = time.perf_counter() - began
    session.pin("autocommit", 1)
    return written / took_s


def _fill(settings: ServerSettings, most_rows: int, target_time_s: float) -> int:
    """The backfill itself; how many rows it wrote."""
    contract = Contract(
        table=_TABLE,
        columns=(Column("state", parse_type("varchar(32)")), Column("timeout_ms", parse_type("bigint"))),
        mappings=(
            Mapping("state", "status", ValueMap(_STATES), ValueMap(tuple((new, old) for old, new in _STATES))),
            Mapping("timeout_ms", "timeout_s", Expression("timeout_s * 1000"), Expression("timeout_ms DIV 1000")),
        ),
    )
    site = Site(settings, Runbook(id=_ROLLOUT, contract=contract, digest="", text="", path=""), SystemClock())
    step = Fill(table=_TABLE, walk=1, pass_name="backfill", target_time_s=target_time_s, max_batch_rows=most_rows)
    outcome = FillDriver(site, random.random).apply(step, _Beat())
    if outcome.result is not Result.DONE:
        raise RuntimeError(outcome.note)
    return int(outcome.figures["rows_changed"])


def _peak_bytes(server: Server, rows: int) -> float:
    settings = _settings(server)
    with closing(Session(settings, role="bench", timeout_s=600.0)) as session:
        _make(session, settings, rows, "")
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.backfill", str(server.port)], check=True, capture_output=True, text=True
    )
    told = json.loads(ended.stdout)
    if told["rows"] != rows:
        raise RuntimeError(f"{told['rows']} of {rows} rows were written")
    return float(told["peak_bytes"])


def _child() -> None:
    settings = ServerSettings(port=int(sys.argv[1]), user=OPERATOR.user, password=Secret(OPERATOR.password))
    rows = _fill(settings, 5_000, target_time_s=0.08)
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sys.stdout.write(json.dumps({"rows": rows, "peak_bytes": peak_bytes}))


if __name__ == "__main__":
    _child()
