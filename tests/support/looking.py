"""What observer tests share: a runbook on one table, accounts that may do little, and a heart that beats."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.model.contract import Column, Contract, Mapping, TableName, ValueMap
from orchestrator.model.runbook import DiskSource, Limits, ReplicaPolicy, Runbook
from orchestrator.model.types import parse_type
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.site import Site
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import OPERATOR, Account
from orchestrator.settings import Secret, ServerSettings
from tests.support.servers import connect, script

ROLLOUT = "looked-at"
BEAT_S = 0.1


def runbook(
    schema: str, table: str = "t", *, replicas: ReplicaPolicy | None = None, disk: DiskSource | None = None
) -> Runbook:
    """``status`` becomes ``state`` in that table."""
    there, back = (("new", "pending"), ("done", "succeeded")), (("pending", "new"), ("succeeded", "done"))
    mapping = Mapping("state", "status", ValueMap(there), ValueMap(back))
    contract = Contract(TableName(schema, table), (Column("state", parse_type("varchar(32)")),), mappings=(mapping,))
    return Runbook(
        id=ROLLOUT,
        contract=contract,
        digest="",
        text="",
        path="",
        limits=Limits(disk=disk or DiskSource()),
        replicas=replicas or ReplicaPolicy(),
    )


TABLE = "CREATE TABLE t (id INT PRIMARY KEY, status VARCHAR(20)); INSERT INTO t VALUES (1, 'new'), (2, 'done')"


def settings(server: Server, account: Account = OPERATOR) -> ServerSettings:
    return ServerSettings(host=server.host, port=server.port, user=account.user, password=Secret(account.password))


@contextmanager
def observing(server: Server, of: Runbook, account: Account = OPERATOR) -> Iterator[MysqlObserver]:
    """An observer as that account; its sessions are closed afterwards."""
    observer = MysqlObserver(Site(settings(server, account), of, SystemClock()))
    try:
        yield observer
    finally:
        observer.close()


@contextmanager
def small_account(server: Server, name: str, grants: str) -> Iterator[Account]:
    """An account with only these grants (statements with ``{who}``), gone afterwards."""
    who = f"'{name}'@'127.0.0.1'"
    script(server, f"CREATE USER {who} IDENTIFIED BY 'small'; {grants.format(who=who)}")
    try:
        yield Account(name, "small", "")
    finally:
        script(server, f"DROP USER IF EXISTS {who}")


@contextmanager
def working(server: Server) -> Iterator[None]:
    """A heartbeat as a running command keeps it, in a thread of its own."""
    script(
        server,
        "CREATE DATABASE IF NOT EXISTS _rollout; CREATE TABLE IF NOT EXISTS _rollout.heartbeat"
        " (rollout VARCHAR(64) PRIMARY KEY, seq BIGINT NOT NULL, at DATETIME(6) NOT NULL)",
    )
    ended = threading.Event()
    session = connect(server)

    def beat() -> None:
        with session.cursor() as cursor:
            while not ended.wait(BEAT_S):
                cursor.execute(
                    "INSERT INTO _rollout.heartbeat VALUES (%s, 1, UTC_TIMESTAMP(6))"
                    " ON DUPLICATE KEY UPDATE seq = seq + 1, at = UTC_TIMESTAMP(6)",
                    (ROLLOUT,),
                )

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        session.close()
