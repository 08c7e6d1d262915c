"""Random tables of one to five pairs, random talk of applications over them, and what every column must hold then."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pymysql

from orchestrator.model.contract import Contract, TableName, Winner
from orchestrator.mysql import quote
from orchestrator.mysql.pinned import SQL_MODE
from orchestrator.mysql.relation import Relation, load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import mirror
from orchestrator.sandbox.server import Server
from tests.support.mirror_cases import CASES
from tests.support.mirror_model import PairCase
from tests.support.servers import connect, script
from tests.support.shapes import live_shape
from tests.support.state import settings_of

Row = dict[str, Any]
Rows = dict[int, Row]
# A column without default would have to be in every INSERT; a zone is pinned, so instants are no matter here.
POOL = tuple(c for c in CASES if c.name != "slash")
MODES = ("", "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO")
KEYS = (1, 2, 3)
_KINDS = ("insert", "insert", "update", "update", "update", "upsert", "replace", "delete")


@dataclass
class Talk:
    """One table with its mirror and one without, the same statements to both, and a model of the first.

    ``only_old``: no statement has named a new column since the tables were emptied, and none was filled by hand.
    """

    server: Server
    schema: str
    rng: Random
    pairs: tuple[PairCase, ...] = ()
    winner: Winner = Winner.NEW
    rows: Rows = field(default_factory=dict)
    mirrored: bool = False
    only_old: bool = True
    said: list[str] = field(default_factory=list)
    statements: int = 0

    def build(self) -> None:
        """Tables of a random choice of pairs."""
        self.pairs = tuple(self.rng.sample(POOL, self.rng.randint(1, 5)))
        self.winner = self.rng.choice(list(Winner))
        script(self.server, f"DROP DATABASE IF EXISTS {self.schema}; CREATE DATABASE {self.schema}")
        old = ", ".join(f"{c.old} {c.old_ddl}" for c in self.pairs)
        new = ", ".join(f"{c.new} {c.new_ddl}" for c in self.pairs)
        for name in ("plain", "mirrored"):
            script(
                self.server,
                f"SET sql_mode = ''; CREATE TABLE {name} (id INT PRIMARY KEY, {old}, {new}) CHARACTER SET utf8mb4",
                self.schema,
            )
        self.session = Session(settings_of(self.server), role="test")
        self.application = connect(self.server, database=self.schema)
        self.table = TableName(self.schema, "mirrored")
        columns = tuple(c.new_column() for c in self.pairs)
        mappings = tuple(c.mapping(self.winner) for c in self.pairs)
        contract = Contract(self.table, columns, mappings=mappings)
        self.relation: Relation = load_relation(self.session, contract, live_shape(self.session, self.table))
        self.mirrored = False

    def close(self) -> None:
        self.application.close()
        self.session.close()
        script(self.server, f"DROP DATABASE IF EXISTS {self.schema}")

    def sequence(self, length: int) -> None:
        """Begin with empty tables, and say ``length`` things, some of them in transactions."""
        for name in ("plain", "mirrored"):
            self.session.execute(f"DELETE FROM {self.schema}.{name}")
        self.rows, self.only_old, self.said = {}, True, []
        while length > 0:
            turn = self.rng.random()
            if turn < 0.12:
                self._switch()
            elif turn < 0.18:
                self._fill()
            elif turn < 0.4:
                length -= self._transaction(self.rng.randint(1, 5))
            else:
                self._statement()
            length -= 1
            self.check()

    def check(self) -> None:
        """The server holds what the model says; where only the application of before wrote, as without the mirror."""
        shown = self._read("mirrored")
        assert shown == self.rows, f"{self.said}"
        if self.only_old:
            plain = self._read("plain")
            old = [c.old for c in self.pairs]
            assert _only(shown, old) == _only(plain, old), f"{self.said}"

    def _read(self, name: str) -> Rows:
        cells = ", ".join(f"{c.read_old.format(c.old)}, {c.read_new.format(c.new)}" for c in self.pairs)
        names = [column for c in self.pairs for column in (c.old, c.new)]
        found = self.session.query(f"SELECT id, {cells} FROM {self.schema}.{name}")
        return {row[0]: dict(zip(names, row[1:], strict=True)) for row in found}

    def _switch(self) -> None:
        """The mirror goes up or down, as whole."""
        self.said.append("mirror off" if self.mirrored else "mirror on")
        self.session.execute("SET SESSION sql_mode = ''")
        for event in ("update", "insert"):
            name = mirror.trigger_name("r", event)
            up = mirror.create_trigger(self.relation, self.table, event, name, "/* rollout:r */")
            self.session.execute(mirror.drop_trigger(self.table, name, "/* rollout:r */") if self.mirrored else up)
        self.session.execute("SET SESSION sql_mode = %s", (SQL_MODE,))
        self.mirrored = not self.mirrored

    def _fill(self) -> None:
        """What the backfill does to every row: the old column is the truth."""
        self.said.append("backfill")

        def cell(column: str) -> str:
            return f"t.{quote.name(column)}"

        sets = ", ".join(f"{cell(c)} = {sql}" for c, sql in self.relation.assignments(cell))
        self.session.execute(f"UPDATE {quote.table(self.table)} t SET {sets} WHERE {self.relation.pending(cell)}")
        for row in self.rows.values():
            for case in self.pairs:
                row[case.old], row[case.new] = case.filled(row[case.old], row[case.new])

    def _transaction(self, length: int) -> int:
        self._both("START TRANSACTION")
        begun, saved = deepcopy(self.rows), None
        for _ in range(length):
            self._statement()
            if saved is None and self.rng.random() < 0.3:
                self._both("SAVEPOINT here")
                saved = deepcopy(self.rows)
            elif saved is not None and self.rng.random() < 0.3:
                self._both("ROLLBACK TO here")
                self.rows = deepcopy(saved)
        commits = self.rng.random() < 0.7
        self._both("COMMIT" if commits else "ROLLBACK")
        self.rows = self.rows if commits else begun
        return length

    def _both(self, text: str) -> None:
        self.said.append(text)
        with self.application.cursor() as cursor:
            cursor.execute(text)

    def _statement(self) -> None:
        """One write of the old application, the new one, or of both columns, of one row or several."""
        kind, keys = self.rng.choice(_KINDS), sorted(self.rng.sample(KEYS, self.rng.choice((1, 1, 2, 3))))
        given = self._given()
        mode = self.rng.choice(MODES)
        text, args = _text(kind, keys, given)
        told = [self._say(text.format(t=name), args, mode) for name in ("plain", "mirrored")]
        self.said.append(f"{text} {args} under {mode!r}: {told}")
        self.statements += 1
        if told[0] < 0:
            # What fails without the mirror may fail with it: then nothing was stored.
            assert told[1] < 0, f"{self.said}"
            return
        assert told[1] >= 0, f"it fails only because of the mirror: {self.said}"
        self.only_old = self.only_old and not any(c.new in given for c in self.pairs)
        before = deepcopy(self.rows)
        self._model(kind, keys, given)
        if kind == "update":
            changed = sum(before[k] != self.rows[k] for k in keys if k in before)
            assert told[1] == changed, f"{changed} rows were changed: {self.said}"

    def _given(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        writer = self.rng.choice(("old", "old", "new", "both"))
        for case in self.rng.sample(self.pairs, self.rng.randint(1, len(self.pairs))):
            if writer in ("old", "both"):
                found[case.old] = self.rng.choice(case.old_values)
            if writer in ("new", "both"):
                found[case.new] = self.rng.choice(case.new_values)
        return found

    def _say(self, text: str, args: Sequence[Any], mode: str) -> int:
        """Affected rows, or the server's error number below 0."""
        with self.application.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = %s", (mode,))
            try:
                return int(cursor.execute(text, args))
            except pymysql.err.MySQLError as error:
                return -int(error.args[0])

    def _model(self, kind: str, keys: Sequence[int], given: dict[str, Any]) -> None:
        for key in keys:
            if kind == "delete":
                self.rows.pop(key, None)
            elif kind == "replace" or key not in self.rows:
                if kind != "update":
                    self.rows[key] = self._after(None, given)
            else:
                self.rows[key] = self._after(self.rows[key], given)

    def _after(self, before: Row | None, given: dict[str, Any]) -> Row:
        result: Row = {}
        for case in self.pairs:
            stood = (case.old_default, case.new_default) if before is None else (before[case.old], before[case.new])
            now = (given.get(case.old, stood[0]), given.get(case.new, stood[1]))
            if self.mirrored:
                now = case.inserted(*now, self.winner) if before is None else case.updated(stood, now, self.winner)
            result[case.old], result[case.new] = now
        return result


def _only(rows: Rows, columns: Sequence[str]) -> Rows:
    return {key: {c: row[c] for c in columns} for key, row in rows.items()}


def _text(kind: str, keys: Sequence[int], given: dict[str, Any]) -> tuple[str, list[Any]]:
    """The statement over ``{t}`` and its arguments."""
    listed, values = ", ".join(map(str, keys)), list(given.values())
    sets = ", ".join(f"{c} = %s" for c in given)
    if kind == "update":
        return f"UPDATE {{t}} SET {sets} WHERE id IN ({listed})", values
    if kind == "delete":
        return f"DELETE FROM {{t}} WHERE id IN ({listed})", []
    rows = ", ".join(f"({', '.join([str(k), *['%s'] * len(given)])})" for k in keys)
    into = f"{{t}} ({', '.join(['id', *given])}) VALUES {rows}"
    match kind:
        case "insert":
            return f"INSERT INTO {into}", values * len(keys)
        case "replace":
            return f"REPLACE INTO {into}", values * len(keys)
        case _:
            return f"INSERT INTO {into} ON DUPLICATE KEY UPDATE {sets}", [*values * len(keys), *values]


def talk(server: Server, seed: int, sequences: int, length: int = 25) -> int:
    """So many sequences over one random table; the number of statements. Raises AssertionError with all that was said
    since the tables were empty."""
    found = Talk(server, f"talk_{seed & 0xFFFFFF:x}", Random(seed))
    found.build()
    with closing(found):
        for _ in range(sequences):
            found.sequence(length)
    return found.statements
