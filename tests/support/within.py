"""The whole product inside this process, for laws that are seen between its steps or while it is still open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from orchestrator.app.wiring import App, Surroundings, build
from orchestrator.engine import Commands
from orchestrator.model.runbook import Runbook
from orchestrator.model.state import FORWARD, Ask, Record
from orchestrator.model.verdict import Verdict
from orchestrator.ports import Driver
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import OPERATOR, Account
from tests.support.state import settings_of


class Silent:
    """Nobody watches."""

    def progress(self, *args: object) -> None:
        """Not shown."""

    def waiting(self, record: Record, verdicts: Sequence[Verdict], waited_s: float) -> None:
        """Not shown."""


@contextmanager
def opened(
    runbook: Runbook,
    server: Server,
    interrupted: Callable[[], Ask | None] = lambda: None,
    account: Account = OPERATOR,
) -> Iterator[App]:
    """As the command line wires it; closed afterwards."""
    app = build(runbook, settings_of(server, account=account), Surroundings(Silent(), interrupted=interrupted))
    try:
        yield app
    finally:
        app.close()


def commands_with(app: App, wrap: Callable[[Driver[Any]], Driver[Any]]) -> Commands:
    """The commands over the app's drivers, each of them wrapped."""
    drivers: Mapping[str, Driver[Any]] = {kind: wrap(driver) for kind, driver in app.parts.drivers.items()}
    return Commands(replace(app.parts, drivers=drivers))


def forward(commands: Commands) -> None:
    for phase in FORWARD:
        commands.next(phase)
