"""What tests of exclusive statements need: a site, a beat that can be told what to say, blockers, an application that
measures its longest wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from orchestrator.model.contract import Column, Contract, Default, TableName
from orchestrator.model.outcome import GO, Progress, Signal
from orchestrator.model.runbook import Limits, Runbook
from orchestrator.model.types import parse_type
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.site import Site
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import ROOT
from tests.support.busy import Busy
from tests.support.servers import connect, script, sql
from tests.support.state import settings_of


def site_on(server: Server, contract: Contract, max_wait_s: float = 20.0, id: str = "ddl-test") -> Site:
    runbook = Runbook(id, contract, "digest", "", "test.yaml", limits=Limits(max_wait_s=max_wait_s))
    return Site(settings_of(server), runbook, SystemClock())


def plain_table(server: Server, schema: str, rows: int = 3) -> TableName:
    """A table ``t`` of some rows with a parent and a child, ``p`` and ``k``."""
    script(
        server,
        "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2), (3);"
        "CREATE TABLE t (id INT PRIMARY KEY, p_id INT NULL, a INT NOT NULL DEFAULT 0,"
        " b VARCHAR(20) NOT NULL DEFAULT 'x', KEY t_p (p_id), CONSTRAINT t_p_fk FOREIGN KEY (p_id) REFERENCES p (id));"
        "CREATE TABLE k (id INT PRIMARY KEY, t_id INT NULL, KEY k_t (t_id),"
        " CONSTRAINT k_t_fk FOREIGN KEY (t_id) REFERENCES t (id))",
        schema,
    )
    with closing(connect(server, ROOT, schema)) as session, session.cursor() as cursor:
        for start in range(1, rows + 1, 5000):
            values = ",".join(f"({i},{i % 3 + 1},{i})" for i in range(start, min(start + 5000, rows + 1)))
            cursor.execute(f"INSERT INTO t (id, p_id, a) VALUES {values}")
    return TableName(schema, "t")


def column(name: str, type: str, default: str | None = None, *, null: bool = True, **more: Any) -> Column:
    return Column(name, parse_type(type), null, Default(default) if default is not None else None, **more)


class Beats:
    """Records every beat; ``says`` is asked for the answer."""

    epoch = 1

    def __init__(self, says: Callable[[Progress], Signal] = lambda _: GO) -> None:
        self.heard: list[Progress] = []
        self.at: list[float] = []
        self._says = says

    def __call__(self, progress: Progress) -> Signal:
        self.heard.append(progress)
        self.at.append(time.monotonic())
        return self._says(progress)

    @property
    def longest_silence_s(self) -> float:
        return max((b - a for a, b in zip(self.at, self.at[1:], strict=False)), default=0.0)


class Application(Busy):
    """Threads that read and write the table by key, and remember their longest wait and every error."""

    def __init__(self, server: Server, table: TableName, threads: int = 2, *, writes: bool = True) -> None:
        super().__init__(threads)
        self._server = server
        self._table = f"{table.schema}.{table.name}"
        self._writes = writes
        self.longest_wait_s = 0.0
        self.statements = 0
        self.errors: list[str] = []

    def work(self, number: int) -> None:
        texts = [f"SELECT a FROM {self._table} WHERE id = 1"]
        if self._writes:
            texts.append(f"UPDATE {self._table} SET a = a + 1 WHERE id = {number % 2 + 1}")
        with closing(connect(self._server)) as session, session.cursor() as cursor:
            while not self._stop.wait(0.005):
                for text in texts:
                    began = time.perf_counter()
                    try:
                        cursor.execute(text)
                    except pymysql.err.MySQLError as error:
                        self.errors.append(str(error))
                    self.longest_wait_s = max(self.longest_wait_s, time.perf_counter() - began)
                    self.statements += 1


@contextmanager
def held(server: Server, *statements: str, database: str | None = None) -> Iterator[pymysql.Connection[Cursor]]:
    """A session that has run ``statements`` and then idles. Gone afterwards."""
    session = connect(server, ROOT, database)
    try:
        with session.cursor() as cursor:
            for text in statements:
                cursor.execute(text)
        yield session
    finally:
        session.close()


@contextmanager
def later(seconds: float, action: Callable[[], object]) -> Iterator[None]:
    """Runs ``action`` after ``seconds``, at the latest when the block ends."""
    timer = threading.Timer(seconds, action)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def columns_of(server: Server, table: TableName) -> list[str]:
    rows = sql(
        server,
        "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
        " ORDER BY ORDINAL_POSITION",
        (table.schema, table.name),
    )
    return [row[0] for row in rows]
