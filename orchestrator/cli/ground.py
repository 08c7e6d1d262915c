"""The pair of servers with the AiJob table and data on which the demonstration and ``rollout sandbox`` stand."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from orchestrator.errors import PhaseFailed
from orchestrator.model.facts import Shape
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.sql import applications as sql
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair, start_pair
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.sandbox.seed import create_tables, seed_table
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import OPERATOR
from orchestrator.settings import Secret, ServerSettings

RUNBOOK = "aijob.yaml"


def settings_for(server: Server) -> ServerSettings:
    """How the operator's account of the sandbox reaches a server of the pair."""
    return ServerSettings(host=server.host, port=server.port, user=OPERATOR.user, password=Secret(OPERATOR.password))


def prepare(pair: Pair, runbook: Runbook, rows: int, seed: int) -> Shape:
    """The tables before the rollout, with their data, on the primary and on the replica."""
    with contextlib.closing(Session(settings_for(pair.primary), role="sandbox")) as session:
        create_tables(session, runbook)
        shape = read_shape(session, runbook.table)
        assert shape is not None
        seed_table(session, runbook, shape, rows, seed)
        wait_caught_up(pair, session)
    return shape


def wait_caught_up(pair: Pair, primary: Session, deadline_s: float = 120.0) -> None:
    """Until the replica has executed all that the primary has now. Raises PhaseFailed after the deadline."""
    executed = primary.value(sql.EXECUTED)
    with contextlib.closing(Session(settings_for(pair.replica), role="sandbox", timeout_s=deadline_s + 5)) as replica:
        if replica.value(sql.HAS_EXECUTED, (executed, deadline_s)):
            raise PhaseFailed("the sandbox's replica does not catch up", "a replica that applies", "rollout sandbox up")


def raise_sandbox(folder: Path, port: int | None, rows: int, seed: int) -> Pair:
    """``rollout sandbox up``: the pair with the AiJob table and data."""
    pair = start_pair(folder, port)
    try:
        prepare(pair, load(runbooks_folder() / RUNBOOK), rows, seed)
    except BaseException:
        pair.remove()
        raise
    return pair


def connection_words(pair: Pair) -> dict[str, Any]:
    """How to reach a sandbox; its passwords are no secrets."""

    def of(server: Server) -> dict[str, Any]:
        return {"host": server.host, "port": server.port, "socket": str(server.socket)}

    return {
        "dir": str(pair.folder),
        "primary": of(pair.primary),
        "replica": of(pair.replica),
        "user": OPERATOR.user,
        "password": OPERATOR.password,
        "schema": "app",
        "runbook": str(runbooks_folder() / RUNBOOK),
    }
