"""A clock, settings of a test server, and the smallest rollout that the store takes."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from msgspec.structs import replace

from orchestrator.model.contract import TableName
from orchestrator.model.state import Event, EventKind, Record, move
from orchestrator.mysql.clock import SystemClock
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import OPERATOR, Account
from orchestrator.settings import Secret, ServerSettings
from tests.support.servers import script


class HandClock(SystemClock):
    """A monotonic clock that moves only when it is told to."""

    def __init__(self) -> None:
        self.at = 1000.0

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def settings_of(server: Server, state_schema: str = "_rollout", account: Account = OPERATOR) -> ServerSettings:
    return ServerSettings(
        host=server.host,
        port=server.port,
        user=account.user,
        password=Secret(account.password),
        state_schema=state_schema,
    )


@contextmanager
def state_schema(server: Server) -> Iterator[str]:
    """The name of a state schema that nobody else uses; gone afterwards."""
    name = f"_st_{uuid.uuid4().hex[:12]}"
    try:
        yield name
    finally:
        script(server, f"SET SESSION lock_wait_timeout = 30; DROP DATABASE IF EXISTS {name}")


def begin(id: str = "orders-state", table: str = "orders", epoch: int = 0) -> tuple[Record, Event]:
    """A record that ``create`` takes, and its event."""
    record = Record(
        id=id,
        table=TableName("shop", table),
        digest="d" * 64,
        runbook_text="name: größe\nwhy: 'typed' \\ state 100 %\n",
        runbook_path="rollout.yaml",
        server_uuid="00000000-0000-0000-0000-000000000001",
        epoch=epoch,
    )
    return record, happened(EventKind.CREATED)


def happened(kind: EventKind, phase: str = "", note: str = "", step: str = "") -> Event:
    return Event(kind=kind, at=datetime.now(UTC), who="kim", phase=phase, note=note, step=step, figures={"rows": 3.0})


def moved(record: Record, kind: EventKind, phase: str = "ddl", **changes: object) -> tuple[Record, Event]:
    """The record after an event of that kind, and the event."""
    event = happened(kind, phase)
    return move(replace(record, **changes), event), event  # type: ignore[arg-type]  # test's own keywords
