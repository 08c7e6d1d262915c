"""Filling without a runbook: a beat that does as it is told, a rollout's position rows, a rule that counts visits."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from orchestrator.drivers.rows.listening import Listening
from orchestrator.drivers.rows.passes import FillPass, Halt, Work
from orchestrator.drivers.rows.table import Definition
from orchestrator.model.contract import TableName
from orchestrator.model.facts import Position
from orchestrator.model.outcome import GO, Progress, Signal, SignalKind
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.filling import FillRule
from orchestrator.mysql.keyset import BatchSize, Reader
from orchestrator.mysql.persistence import Backoff
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.bounds import key_space
from orchestrator.mysql.sql.packets import Write
from orchestrator.mysql.sql.positions import PassName
from orchestrator.sandbox.server import Server
from orchestrator.store.install import install
from tests.support.servers import sql
from tests.support.shapes import live_shape
from tests.support.state import settings_of

ROLLOUT = "rows-test"
BACKOFF = Backoff(random.random, first_s=0.01, most_s=0.2)
# Every row is pending, always: a row that is written twice shows 2.
VISIT = FillRule(Write("1 = 1", "1 = 1", (("v", "t.v + 1"),), ()), "0", "1 = 1", (), "", "")


class ToldBeat:
    """Answers with ``answer``, which gets the number of the beat (from 1) and its progress; GO without one."""

    def __init__(self, epoch: int = 1, answer: Callable[[int, Progress], Signal] | None = None) -> None:
        self.epoch = epoch
        self.seen: list[Progress] = []
        self._answer = answer

    def __call__(self, progress: Progress) -> Signal:
        self.seen.append(progress)
        return self._answer(len(self.seen), progress) if self._answer else GO


def paused_after(batches: int) -> Callable[[int, Progress], Signal]:
    """GO for ``batches`` batches, then a pause."""
    return lambda beats, _: GO if beats <= batches else Signal(SignalKind.PAUSE, "pause asked for by test")


def begin_rollout(server: Server, epoch: int = 1, rollout: str = ROLLOUT) -> None:
    """The state schema, with a rollout of that epoch in it."""
    install(settings_of(server))
    sql(
        server,
        "INSERT INTO _rollout.rollout (id, server_uuid, state, phase, revision, epoch, record, updated_at)"
        " VALUES (%s, @@server_uuid, 'running', 'backfill', 1, %s, '{}', UTC_TIMESTAMP(6))",
        (rollout, epoch),
    )


def take_over(server: Server, epoch: int, rollout: str = ROLLOUT) -> None:
    """What taking the lease does to the rows that fence."""
    sql(server, "UPDATE _rollout.rollout SET epoch = %s WHERE id = %s", (epoch, rollout))
    sql(server, "UPDATE _rollout.position SET epoch = %s WHERE rollout = %s", (epoch, rollout))


def reader_of(session: Session, table: TableName, counted: Sequence[str]) -> Reader:
    shape = live_shape(session, table)
    return Reader(session, key_space(shape), tuple(counted))


def fill_pass(session: Session, table: TableName, beat: ToldBeat, rows: int, rule: FillRule = VISIT) -> FillPass:
    """A backfill pass with batches of ``rows`` rows."""
    return pass_over(reader_of(session, table, rule.counted), beat, rows, rule)


def work_over(reader: Reader, beat: ToldBeat, rule: FillRule = VISIT, backoff: Backoff = BACKOFF) -> Work:
    uuid = str(reader.session.value("SELECT @@server_uuid"))
    listening = Listening(beat, SystemClock())
    definition = Definition(live_shape(reader.session, reader.space.table), lambda: listening.elapsed_s)
    return Work(reader, rule, listening, backoff, uuid, "/* t */", definition)


def pass_over(reader: Reader, beat: ToldBeat, rows: int, rule: FillRule = VISIT) -> FillPass:
    """The same over what was read of the table before."""
    work = work_over(reader, beat, rule)
    return FillPass(work, PassName("_rollout", ROLLOUT, 1, "backfill"), BatchSize(1000.0, rows, rows))


def run_in_pieces(reader: Reader, sizes: Sequence[int]) -> Position:
    """The pass, stopped and begun anew after every batch; the sizes come round in turn."""
    for number in range(300):
        try:
            return pass_over(reader, ToldBeat(answer=paused_after(1)), sizes[number % len(sizes)]).run()
        except Halt:
            continue
    raise AssertionError("the pass does not end")
