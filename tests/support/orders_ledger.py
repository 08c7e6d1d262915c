"""An application of ``orders`` that writes in short transactions and keeps a ledger of what was acknowledged."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import closing
from random import Random

import pymysql

from orchestrator.model.contract import TableName
from orchestrator.sandbox.server import Server
from tests.support.busy import Busy
from tests.support.servers import connect, sql


class Orders(Busy):
    """Each thread inserts a row and counts up another one, in one transaction that is open for up to 30 ms."""

    def __init__(self, server: Server, table: TableName, threads: int = 3) -> None:
        super().__init__(threads)
        self._server = server
        self._table = f"{table.schema}.{table.name}"
        self._turn = threading.Lock()
        self._before = dict(sql(server, f"SELECT id, a FROM {self._table}"))
        self._inserted: set[int] = set()
        self._counted: Counter[int] = Counter()
        self.longest_wait_s = 0.0
        self.errors: list[str] = []

    @property
    def written(self) -> int:
        return len(self._inserted)

    def lost(self, server: Server) -> list[str]:
        """What was acknowledged and is not there, or is there more often."""
        rows = dict(sql(server, f"SELECT id, a FROM {self._table}"))
        wanted = dict.fromkeys(self._inserted, 0) | self._before
        for id, times in self._counted.items():
            wanted[id] += times
        return [f"{id}: {a}, found {rows.get(id)}" for id, a in wanted.items() if rows.get(id) != a]

    def work(self, number: int) -> None:
        rng = Random(number)
        with closing(connect(self._server)) as session, session.cursor() as cursor:
            while not self._stop.is_set():
                id = 1 + number + 3 * rng.randrange(100)
                try:
                    self._say(cursor, "BEGIN")
                    self._say(cursor, f"INSERT INTO {self._table} (a) VALUES (0)")
                    inserted = int(cursor.lastrowid or 0)
                    self._say(cursor, f"UPDATE {self._table} SET a = a + 1 WHERE id = {id}")
                    self._stop.wait(rng.random() * 0.03)
                    self._say(cursor, "COMMIT")
                except pymysql.err.MySQLError as error:
                    self.errors.append(str(error))
                    continue
                with self._turn:
                    self._inserted.add(inserted)
                    self._counted[id] += 1

    def _say(self, cursor: pymysql.cursors.Cursor, text: str) -> None:
        began = time.perf_counter()
        cursor.execute(text)
        self.longest_wait_s = max(self.longest_wait_s, time.perf_counter() - began)
