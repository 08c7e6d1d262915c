"""Verify and checksum against one raw statement that asks the same of the whole table at once."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.corruption import KEYS, SCHEMA, contract, seed
from benchmarks.figures import Figure, interleaved
from orchestrator.drivers.rows import CompareDriver
from orchestrator.model.contract import TableName
from orchestrator.model.facts import Shape
from orchestrator.model.outcome import GO, Progress, Result, Signal
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import Compare
from orchestrator.mysql.checksum import checksum, side
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.questions import drift_question, verify_question
from orchestrator.mysql.relation import load_relation
from orchestrator.mysql.scan import patience
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.bounds import Span, key_space
from orchestrator.mysql.sql.checksum import span_digest
from orchestrator.sandbox.pair import start_pair
from orchestrator.sandbox.template import OPERATOR
from orchestrator.settings import Secret, ServerSettings

ROWS = 100_000
_TABLE = TableName(SCHEMA, "orders")
_INT = next(kind for kind in KEYS if kind.name == "int")


class _Beat:
    """Nobody watches."""

    epoch = 0

    def __call__(self, progress: Progress) -> Signal:
        return GO


def verify() -> Sequence[Figure]:
    """Seconds of a whole verify, and of a checksum, ÷ one statement over the table without a key range."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            settings = ServerSettings(
                host=pair.primary.host,
                port=pair.primary.port,
                user=OPERATOR.user,
                password=Secret(OPERATOR.password),
            )
            with closing(Session(settings, role="bench", timeout_s=600.0)) as session:
                return measured(session, ROWS)
        finally:
            pair.remove()


def measured(session: Session, rows: int) -> Sequence[Figure]:
    """The same on a server that runs; the schema is gone afterwards."""
    shape = _make(session, rows)
    cpu_s: list[float] = []

    def counted() -> float:
        before = time.process_time()
        taken = _verified(session, rows)
        cpu_s.append(time.process_time() - before)
        return taken

    try:
        relation = load_relation(session, contract(_TABLE), shape)
        wrong = drift_question(relation, "old-is-truth").wrong
        fine = verify_question(relation, "old-is-truth", contract(_TABLE)).fine
        raw_count, plain_count = (f"SELECT COUNT(*) FROM {_TABLE} AS t WHERE {w}" for w in (f"NOT ({fine})", wrong))
        raw_digest = span_digest(key_space(shape), Span(), shape.columns)
        ours, count, plain, digest, one = interleaved(
            [
                counted,
                lambda: _seconds(session, raw_count),
                lambda: _seconds(session, plain_count),
                lambda: _checksummed(session, shape),
                lambda: _seconds(session, raw_digest),
            ]
        )
    finally:
        session.execute(f"DROP DATABASE {SCHEMA}")
    note = f"{rows} rows, {len(relation.mappings)} mappings"
    cpu = statistics.median(cpu_s) / rows * 1e6
    return (
        Figure("verify", ours, "s", count, goal=1.2, note=f"{note}; ÷ one COUNT(*) of the same question"),
        Figure("verify_plain", ours, "s", plain, note="÷ one COUNT(*) without invariants and what is only noted"),
        Figure("verify_cpu", cpu, "s per million rows", note="the tool's own, the server's not"),
        Figure("checksum", digest, "s", one, goal=1.2, note=f"{rows} rows, {len(shape.columns)} columns; ÷ one SELECT"),
    )


def _make(session: Session, rows: int) -> Shape:
    session.execute(f"CREATE DATABASE {SCHEMA} DEFAULT CHARACTER SET utf8mb4")
    session.execute("SET SESSION cte_max_recursion_depth = 100000000")
    session.execute(_INT.create(str(_TABLE)))
    session.packet([seed(_INT, str(_TABLE), rows)])
    session.query(f"ANALYZE TABLE {_TABLE}")
    shape = read_shape(session, _TABLE, ())
    if shape is None:
        raise RuntimeError(f"{_TABLE} is not there")
    return shape


def _verified(session: Session, rows: int) -> float:
    site = Site(session.settings, Runbook("bench", contract(_TABLE), "", "", ""), SystemClock())
    step = Compare(table=_TABLE, walk=1, purpose="verify", relation="old-is-truth", target_time_s=0.08)
    began = time.perf_counter()
    outcome = CompareDriver(site).apply(step, _Beat())
    took_s = time.perf_counter() - began
    if outcome.result is not Result.DONE or outcome.figures["rows_compared"] != rows:
        raise RuntimeError(outcome.note)
    return took_s


def _checksummed(session: Session, shape: Shape) -> float:
    began = time.perf_counter()
    checksum(side(session, shape, patience(SystemClock())))
    return time.perf_counter() - began


def _seconds(session: Session, statement: str) -> float:
    began = time.perf_counter()
    session.query(statement)
    return time.perf_counter() - began
