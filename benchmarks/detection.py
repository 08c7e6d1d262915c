"""The detection table: every kind of corruption × every kind of key is found and named, and nothing else is.

All corruptions of a kind stand in one table at rows of their own, so that one pass must tell them apart.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from benchmarks.corruption import (
    KEYS,
    SCHEMA,
    STEP,
    WRONG_PAIRS,
    WRONG_ROWS,
    Cells,
    KeyKind,
    contract,
    placed,
    seed,
    statement,
)
from benchmarks.figures import Figure
from orchestrator.drivers.rows import CompareDriver
from orchestrator.model.contract import TableName
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Signal
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import Compare, Truth
from orchestrator.mysql.checksum import Side, checksum, differing, digests, side
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.questions import NOTED
from orchestrator.mysql.replica import CatchUp
from orchestrator.mysql.scan import patience
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.bounds import Span, key_space, read_key, selected, show
from orchestrator.mysql.sql.rows import ref
from orchestrator.sandbox.pair import Pair, start_pair
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import ROOT
from orchestrator.settings import Secret, ServerSettings

TABLE = TableName(SCHEMA, "orders")
NAME = f"{SCHEMA}.orders"
BEHIND = ("row inserted behind the position", "row made wrong behind the position")
REPLICA = {
    "replica: row missing": "DELETE FROM {t} WHERE {0}",
    "replica: trailing blank": "UPDATE {t} SET note = CONCAT(note, ' '), changed_at = changed_at WHERE {1}",
    "replica: new column otherwise": "UPDATE {t} SET state = NULL, changed_at = changed_at WHERE {2}",
}
_PASSES_UNDER_TRAFFIC = 3


def detection() -> Sequence[Figure]:
    """The share of cells that were found, and false alarms; the table itself goes to standard output."""
    cells = Cells()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            for kind in KEYS:
                sys.stderr.write(f"  {kind.name} …\n")
                fill_cells(kind, pair, cells)
        finally:
            pair.remove()
    _print(cells)
    note = f"{len({n for n, _ in cells.found})} corruptions × {len(KEYS)} kinds of keys"
    return (
        Figure("detection", cells.share, "of all cells", goal=1.0, higher=True, note=note),
        Figure("detection_false_alarms", float(len(cells.false_alarms)), "rows", goal=0.0, note="also under traffic"),
    )


def fill_cells(kind: KeyKind, pair: Pair, cells: Cells) -> None:
    """The whole column of one kind of key."""
    with ground(kind, pair) as here:
        here.found_by_relation("old-is-truth", cells)
        here.fresh()
        here.found_by_relation("corresponds", cells)
        here.fresh()
        here.found_by_digest(cells)
        here.found_behind(cells)
        here.fresh()
        here.calm_under_traffic(cells)
        here.found_on_replica(cells)


class _Beat:
    """Calls ``then`` once, on the second beat."""

    epoch = 0

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self._beats = 0
        self._then = then

    def __call__(self, progress: Progress) -> Signal:
        self._beats += 1
        if self._beats == 2:
            self._then()
        return GO


@dataclass(frozen=True, slots=True)
class Ground:
    kind: KeyKind
    pair: Pair
    primary: Session
    replica: Session

    def fresh(self) -> None:
        """The table anew, with nothing wrong in it."""
        self.primary.execute("SET SESSION sql_generate_invisible_primary_key = ON, cte_max_recursion_depth = 100000")
        self.primary.execute(f"DROP TABLE IF EXISTS {NAME}")
        self.primary.execute(self.kind.create(NAME))
        self.primary.packet([seed(self.kind, NAME)])

    def found_by_relation(self, mode: Truth, cells: Cells) -> None:
        self._calm(self._compare(mode), cells, "before anything was wrong")
        places = placed(tuple(c for c in WRONG_PAIRS if c.mode == mode))
        for place in places:
            self.primary.execute(statement(place, self.kind, NAME))
        outcome = self._compare(mode)
        named = _named(outcome)
        wanted: set[str] = set()
        for place in places:
            keys = self._keys(place.numbers)
            wanted |= keys
            cells.found[place.corruption.name, self.kind.name] = bool(keys) and keys <= named
        cells.false_alarms += [f"{self.kind.name}: {key}" for key in named - wanted]
        surplus = int(outcome.figures["mismatches"]) - len(wanted)
        cells.false_alarms += [f"{self.kind.name}: a row that is not named"] * max(0, surplus)

    def found_by_digest(self, cells: Cells) -> None:
        here = self._side(self.primary)
        before, rows = checksum(here), here.rows_of(Span())
        for place in placed(WRONG_ROWS):
            self.primary.execute("START TRANSACTION")
            self.primary.execute(statement(place, self.kind, NAME))
            after, now = checksum(here), here.rows_of(Span())
            keys = {show(here.reader.space, k) for k in rows.keys() | now.keys() if rows.get(k) != now.get(k)}
            named = self._keys(place.numbers) <= keys and 0 < len(keys) <= 2
            self.primary.execute("ROLLBACK")
            cells.found[place.corruption.name, self.kind.name] = after != before and named

    def found_behind(self, cells: Cells) -> None:
        """What goes wrong where the pass has been is found by the look at the newest rows."""
        names, values = ", ".join(self.kind.names), ", ".join(self.kind.values_of(3))
        changes = [
            f"INSERT INTO {NAME} ({names}, status, timeout_s, code) VALUES ({values}, 'new', 1, 'c')",
            f"UPDATE {NAME} SET state = NULL WHERE {self.kind.at(2 * STEP)}",
        ]

        def go_wrong() -> None:
            for change in changes:
                self.primary.execute(change)

        named = _named(self._compare("old-is-truth", then=go_wrong))
        with mock.patch("orchestrator.drivers.rows.compare.NEWEST_ROWS", 50):
            named |= _named(self._compare("old-is-truth", purpose="newest"))
        for name, number in zip(BEHIND, (3, 2 * STEP), strict=True):
            cells.found[name, self.kind.name] = self._keys((number,)) <= named

    def calm_under_traffic(self, cells: Cells) -> None:
        """Passes while an application writes both columns of its pairs, makes rows and takes them away."""
        ended = threading.Event()
        writer = threading.Thread(target=self._write_until, args=(ended,))
        writer.start()
        try:
            for number in range(_PASSES_UNDER_TRAFFIC):
                mode: Truth = "corresponds" if number % 2 else "old-is-truth"
                self._calm(self._compare(mode), cells, "under traffic")
            apart = self._against_replica()
            cells.false_alarms += [f"{self.kind.name}: {key} on the replica, under traffic" for key in apart]
        finally:
            ended.set()
            writer.join()

    def found_on_replica(self, cells: Cells) -> None:
        numbers = [STEP * 30, STEP * 60, STEP * 90]
        conditions = [self.kind.at(n) for n in numbers]
        self._caught_up()
        self.replica.execute("SET SESSION sql_log_bin = 0")
        self.replica.execute("SET GLOBAL super_read_only = 0")
        for change in REPLICA.values():
            text = change.replace("{t}", NAME)
            for at, condition in enumerate(conditions):
                text = text.replace(f"{{{at}}}", condition)
            self.replica.execute(text)
        self.replica.execute("SET GLOBAL super_read_only = 1")
        apart = self._against_replica()
        for name, number in zip(REPLICA, numbers, strict=True):
            cells.found[name, self.kind.name] = self._keys((number,)) <= apart
        cells.false_alarms += [f"{self.kind.name}: {k} on the replica" for k in apart - self._keys(numbers)]

    def _against_replica(self) -> set[str]:
        here, there = self._side(self.primary), self._side(self.replica)
        apart = [
            show(here.reader.space, d.key)
            for span, known in digests(here)
            for d in differing(here, there, self._caught_up, span, known)
        ]
        return set(apart)

    def _caught_up(self) -> None:
        CatchUp(self.primary, self.replica, lambda: None, 60.0).wait()

    def _side(self, session: Session) -> Side:
        self._caught_up()
        shape = read_shape(session, TABLE, ())
        assert shape is not None
        return side(session, shape, patience(SystemClock()))

    def _write_until(self, ended: threading.Event) -> None:
        chance, names = random.Random(7), ", ".join(self.kind.names)
        with closing(_session(self.pair.primary)) as session:
            while not ended.is_set():
                label = "label = CONCAT(status, '-', timeout_s)"
                at = self.kind.at(STEP * chance.randint(100, 140))
                fresh = STEP * chance.randint(141, 150) + 3
                old, new = chance.choice((("new", "pending"), ("work", "running"), ("done", "succeeded")))
                session.packet(
                    [
                        "START TRANSACTION",
                        f"UPDATE {NAME} SET timeout_s = timeout_s + 1, {label} WHERE {at}",
                        f"UPDATE {NAME} SET timeout_ms = timeout_s * 1000, status = '{old}', state = '{new}',"
                        f" {label}, note = CONCAT('n', RAND()), note_n = note WHERE {at}",
                        f"DELETE FROM {NAME} WHERE {self.kind.at(fresh)}",
                        f"INSERT INTO {NAME} ({names}, status, timeout_s, code, state, timeout_ms, kind, label, code_n)"
                        f" VALUES ({', '.join(self.kind.values_of(fresh))}, 'new', 3, 'c', 'pending', 3000, 'order',"
                        " 'new-3', 'c')",
                        "COMMIT",
                    ]
                )

    def _compare(self, mode: Truth, purpose: str = "verify", then: Callable[[], None] = lambda: None) -> Outcome:
        runbook = Runbook(id="detection", contract=contract(TABLE), digest="", text="", path="")
        step = Compare(table=TABLE, walk=1, purpose=purpose, relation=mode, target_time_s=0.005)  # type: ignore[arg-type]  # one of its purposes
        return CompareDriver(Site(self.primary.settings, runbook, SystemClock())).apply(step, _Beat(then))

    def _calm(self, outcome: Outcome, cells: Cells, when: str) -> None:
        if outcome.result is not Result.DONE:
            cells.false_alarms.append(f"{self.kind.name} {when}: {outcome.note}")

    def _keys(self, numbers: Sequence[int]) -> set[str]:
        shape = read_shape(self.primary, TABLE, ())
        assert shape is not None
        space = key_space(shape)
        parts = ", ".join(selected(space, ref))
        rows = [self.primary.query(f"SELECT {parts} FROM {NAME} AS t WHERE {self.kind.at(n)}") for n in numbers]
        return {show(space, read_key(space, row)) for found in rows for row in found}


@contextmanager
def ground(kind: KeyKind, pair: Pair) -> Iterator[Ground]:
    """A filled table under that key, on both servers; gone afterwards. Nothing of a rollout's state is needed."""
    with closing(_session(pair.primary)) as primary, closing(_session(pair.replica)) as replica:
        primary.execute(f"CREATE DATABASE IF NOT EXISTS {SCHEMA} DEFAULT CHARACTER SET utf8mb4")
        here = Ground(kind, pair, primary, replica)
        here.fresh()
        try:
            yield here
        finally:
            primary.execute(f"DROP DATABASE {SCHEMA}")


def _named(outcome: Outcome) -> set[str]:
    return {key for name, _, _, *keys in outcome.evidence if name not in NOTED for key in keys}


def _session(server: Server) -> Session:
    settings = ServerSettings(host=server.host, port=server.port, user=ROOT.user, password=Secret(ROOT.password))
    return Session(settings, role="bench", timeout_s=120.0)


def _print(cells: Cells) -> None:
    """One line for each corruption; a column for each kind of key: ``+`` found, ``MISSED`` not."""
    for number, kind in enumerate(KEYS, 1):
        sys.stdout.write(f"{number:3}  {kind.name}\n")
    for name in dict.fromkeys(name for name, _ in cells.found):
        marks = "".join("  +" if cells.found.get((name, kind.name)) else " MISSED" for kind in KEYS)
        sys.stdout.write(f"{name:45}{marks}\n")
    for alarm in cells.false_alarms:
        sys.stdout.write(f"FALSE ALARM {alarm}\n")
