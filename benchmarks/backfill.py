"""The backfill's speed against a plain loop on the same table, and what becomes of it as the table grows."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal

from benchmarks.figures import Figure, interleaved, peak_bytes
from orchestrator.drivers.rows import FillDriver
from orchestrator.model.contract import Column, Contract, Expression, Mapping, TableName, ValueMap
from orchestrator.model.outcome import GO, Progress, Result, Signal
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import Fill
from orchestrator.model.types import parse_type
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.ports import Beat as BeatPort
from orchestrator.sandbox.pair import start_pair
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import OPERATOR
from orchestrator.settings import Secret, ServerSettings
from orchestrator.store.install import install

ROWS = 100_000
FEW_ROWS, MANY_ROWS = 100_000, 2_000_000
BATCH_ROWS = 1_000
TABLE = TableName("bench", "orders")
OWN_CPU = "the tool's own, the server's not"
_ROLLOUT = "bench"
_STATES = (("new", "pending"), ("work", "running"), ("done", "succeeded"), ("err", "failed"))
_COLUMNS = (
    "id BIGINT NOT NULL PRIMARY KEY, status VARCHAR(20) NOT NULL, note VARCHAR(200) NOT NULL, timeout_s INT NOT NULL,"
    " made_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),"
    " changed_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),"
    " state VARCHAR(32) NULL, timeout_ms BIGINT NULL"
)
INDEXES = ", KEY by_status (status, made_at), KEY by_state (state, made_at)"
# What somebody would write by hand.
_PLAIN = (
    "UPDATE bench.orders SET state = CASE status WHEN 'new' THEN 'pending' WHEN 'work' THEN 'running'"
    " WHEN 'done' THEN 'succeeded' WHEN 'err' THEN 'failed' END, timeout_ms = timeout_s * 1000,"
    " changed_at = changed_at WHERE id > %s AND id <= %s AND state IS NULL"
)


def backfill() -> Sequence[Figure]:
    """Rows a second with one worker ÷ a plain loop (find the end of the batch, UPDATE, COMMIT) at equal batch size; and
    the tool's own CPU, which is this process's."""
    cpu_s: list[float] = []

    def counted() -> float:
        before = time.process_time()
        taken = ours(session, settings)
        cpu_s.append(time.process_time() - before)
        return taken

    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            settings = settings_of(pair.primary)
            with closing(Session(settings, role="bench", timeout_s=600.0)) as session:
                make(session, settings, ROWS, INDEXES)
                ours_rate, plain_rate = interleaved([counted, lambda: plain(session)])
        finally:
            pair.remove()
    note = f"{ROWS} rows, batches of {BATCH_ROWS}, two secondary indexes"
    return (
        Figure("backfill", ours_rate, "rows/s", plain_rate, goal=0.95, higher=True, note=note),
        Figure("backfill_cpu", statistics.median(cpu_s) / ROWS * 1e6, "s per million rows", note=OWN_CPU),
    )


def growth() -> Sequence[Figure]:
    """Two million rows ÷ a hundred thousand: rows/s, peak memory, and the tool's own CPU; one run each, in processes of
    their own."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            few, many = (_grown(pair.primary, rows) for rows in (FEW_ROWS, MANY_ROWS))
        finally:
            pair.remove()
    note = f"{MANY_ROWS:,} ÷ {FEW_ROWS:,} rows, one run each"
    cpu_s = many["cpu_s"] / many["rows"] * 1e6
    return (
        Figure("memory", many["peak_bytes"], "bytes", few["peak_bytes"], goal=1.05, note=note),
        Figure("backfill_decay", many["rows_per_s"], "rows/s", few["rows_per_s"], goal=0.9, higher=True, note=note),
        Figure("backfill_growth_cpu", cpu_s, "s per million rows", note=OWN_CPU),
    )


class Beat:
    """Nobody watches."""

    epoch = 1

    def __call__(self, progress: Progress) -> Signal:
        return GO


def settings_of(server: Server) -> ServerSettings:
    return ServerSettings(host=server.host, port=server.port, user=OPERATOR.user, password=Secret(OPERATOR.password))


def make(session: Session, settings: ServerSettings, rows: int, indexes: str) -> None:
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


def empty(session: Session) -> None:
    session.execute("UPDATE bench.orders SET state = NULL, timeout_ms = NULL, changed_at = changed_at")
    session.execute("DELETE FROM _rollout.position")


def ours(session: Session, settings: ServerSettings) -> float:
    empty(session)
    return rate(lambda: filled(settings, BATCH_ROWS, target_time_s=60.0))


def plain(session: Session) -> float:
    empty(session)
    return rate(lambda: plain_loop(session))


def rate(work: Callable[[], int]) -> float:
    """Rows a second of what gives the number of its rows."""
    began = time.perf_counter()
    rows = work()
    return rows / (time.perf_counter() - began)


def plain_loop(session: Session, batch_rows: int = BATCH_ROWS, lo: int = 0, hi: int = 2**62) -> int:
    """Three round trips a batch, as it is written by hand; how many rows it wrote."""
    session.pin("autocommit", 0)
    at, written = lo, 0
    while True:
        row = session.one(
            "SELECT MAX(id), COUNT(*) FROM (SELECT id FROM bench.orders WHERE id > %s AND id <= %s ORDER BY id"
            " LIMIT %s) AS d",
            (at, hi, batch_rows),
        )
        if row is None or not row[1]:
            break
        written += session.execute(_PLAIN, (at, row[0]))
        session.execute("COMMIT")
        at = row[0]
    session.pin("autocommit", 1)
    return written


def filled(
    settings: ServerSettings,
    most_rows: int,
    target_time_s: float,
    workers: int = 1,
    beat: BeatPort | None = None,
    pass_name: Literal["backfill", "sweep"] = "backfill",
) -> int:
    """The backfill itself, of rows that are all unfilled, or the sweep; how many there were."""
    step = Fill(
        table=TABLE,
        walk=1,
        pass_name=pass_name,
        target_time_s=target_time_s,
        max_batch_rows=most_rows,
        workers=workers,
    )
    outcome = FillDriver(site(settings), random.random).apply(step, beat or Beat())
    if outcome.result is not Result.DONE:
        raise RuntimeError(outcome.note)
    return int(outcome.figures["rows_done"])


def site(settings: ServerSettings) -> Site:
    contract = Contract(
        table=TABLE,
        columns=(Column("state", parse_type("varchar(32)")), Column("timeout_ms", parse_type("bigint"))),
        mappings=(
            Mapping("state", "status", ValueMap(_STATES), ValueMap(tuple((new, old) for old, new in _STATES))),
            Mapping("timeout_ms", "timeout_s", Expression("timeout_s * 1000"), Expression("timeout_ms DIV 1000")),
        ),
    )
    return Site(settings, Runbook(id=_ROLLOUT, contract=contract, digest="", text="", path=""), SystemClock())


def _grown(server: Server, rows: int) -> dict[str, float]:
    settings = settings_of(server)
    with closing(Session(settings, role="bench", timeout_s=1800.0)) as session:
        make(session, settings, rows, "")
    argv = [sys.executable, "-m", "benchmarks.backfill", str(server.port)]
    told = json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)
    if told["rows"] != rows:
        raise RuntimeError(f"{told['rows']} of {rows} rows were filled")
    return {name: float(value) for name, value in told.items()}


def _child() -> None:
    settings = ServerSettings(port=int(sys.argv[1]), user=OPERATOR.user, password=Secret(OPERATOR.password))
    cpu_s, began = time.process_time(), time.perf_counter()
    rows = filled(settings, 5_000, target_time_s=0.08)
    told = {
        "rows": rows,
        "rows_per_s": rows / (time.perf_counter() - began),
        "cpu_s": time.process_time() - cpu_s,
        "peak_bytes": peak_bytes(),
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    _child()
