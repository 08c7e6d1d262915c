"""What the mirror costs an application, how long its installation keeps one waiting, and what the sweep costs."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.backfill import Beat, filled, make, settings_of, site
from benchmarks.blocked import Blocked, ground
from benchmarks.figures import Figure, interleaved
from orchestrator.model.outcome import GO, Progress, Signal
from orchestrator.model.step import AddColumns, AddIndex
from orchestrator.mysql import quote
from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.mysql.filling import fill_rule
from orchestrator.mysql.relation import load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.sandbox.pair import start_pair
from orchestrator.settings import ServerSettings

_ROWS = 20_000
_WINDOW_S = 1.0
_BULK_ROWS = 500
_SWEEP_ROWS = 200_000
_ROUNDS = 5
_STATES = ("pending", "processing", "completed", "failed")


class Mirror:
    """The six pairs of AiJob on a sandbox: filled, with the indexes of both status columns, the mirror up or down."""

    def __init__(self, bench: Blocked) -> None:
        self.up, self.down = bench.install, bench.remove
        contract, family = bench.contract, bench.family
        wanted = [i for i in contract.indexes if i.columns[0] == "lifecycleStatus"]
        indexes = (
            AddIndex(table=contract.table, index=i, final_lock_budget_s=5, tries=20, family=family) for i in wanted
        )
        bench.walk((AddColumns(table=contract.table, columns=contract.columns, family=family), *indexes))
        table = quote.table(contract.table)
        with closing(bench.site.connect("bench", timeout_s=300.0)) as session:
            shape = read_shape(session, contract.table)
            if shape is None:
                raise RuntimeError(f"{contract.table} is not there")
            relation = load_relation(session, contract, shape)
            sets = relation.assignments(lambda c: f"t.{quote.name(c)}")
            session.execute(f"UPDATE {table} t SET {', '.join(f't.{quote.name(c)} = {v}' for c, v in sets)}")
            self.ids = [row[0] for row in session.query(f"SELECT id FROM {table} ORDER BY id")]
            self.user = session.value(f"SELECT userId FROM {table} LIMIT 1")


class _Talk:
    """One application, one statement after the other, each of them committed."""

    def __init__(self, session: ApplicationSession, table: str, mirror: Mirror) -> None:
        self._session = session
        self._table = table
        self._mirror = mirror
        self._turn = 0

    def update(self) -> None:
        self._turn += 1
        ids = self._mirror.ids
        at = self._turn * 37 % len(ids)
        said = _STATES[(self._turn + self._turn // len(ids)) % 4]
        self._session.execute(f"UPDATE {self._table} SET status = %s WHERE id = %s", (said, ids[at]))

    def insert(self) -> None:
        self._turn += 1
        key = f"bench{time.monotonic_ns():x}{self._turn}"
        said = _STATES[self._turn % 4]
        self._session.execute(
            f"INSERT INTO {self._table} (id, userId, status, retryCount) VALUES (%s, %s, %s, 1)",
            (key, self._mirror.user, said),
        )

    def bulk(self) -> None:
        self._turn += 1
        ids, at = self._mirror.ids, self._turn * _BULK_ROWS % (len(self._mirror.ids) - _BULK_ROWS)
        self._session.execute(
            f"UPDATE {self._table} SET retryCount = %s, status = %s WHERE id BETWEEN %s AND %s",
            (self._turn, _STATES[self._turn % 4], ids[at], ids[at + _BULK_ROWS - 1]),
        )


def _rate(statement: Callable[[], None]) -> float:
    """Statements a second over the window."""
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < _WINDOW_S:
        statement()
        count += 1
    return count / (time.perf_counter() - began)


def cost() -> Sequence[Figure]:
    """Statements a second with the mirror ÷ without, in turns."""
    with ground() as bench:
        mirror = Mirror(bench)
        session = ApplicationSession(bench.site.settings, "bench")
        with closing(session):
            talk = _Talk(session, quote.table(bench.contract.table), mirror)
            kinds = {"update": talk.update, "insert": talk.insert, "bulk_update": talk.bulk}
            rates: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in kinds}
            for number in range(2 * _ROUNDS):
                # The side that goes first changes, so that none has always the warmer machine.
                is_up = number % 4 in (1, 2)
                (mirror.up if is_up else mirror.down)()
                for name, statement in kinds.items():
                    rates[name][int(is_up)].append(_rate(statement))
    goals = {"update": 0.9, "insert": 0.9, "bulk_update": 0.7}
    return tuple(
        Figure(
            f"mirror_cost_{name}",
            statistics.median(on),
            "statements/s",
            statistics.median(off),
            goal=goals[name],
            higher=True,
            note=f"six pairs; with {min(on):.0f} to {max(on):.0f}, without {min(off):.0f} to {max(off):.0f}",
        )
        for name, (off, on) in rates.items()
    )


def install() -> Sequence[Figure]:
    """The application's longest wait while both triggers go up under a ten-second transaction, above as long without
    us."""
    with ground() as bench:
        mirror = Mirror(bench)
        ours, bare = [], []
        for _ in range(_ROUNDS):
            bare.append(bench.waits(lambda: None).longest_s)
            ours.append(bench.waits(mirror.up).longest_s)
            mirror.down()
    excess = [with_us - without for with_us, without in zip(ours, bare, strict=True)]
    note = f"longest waits {statistics.median(ours):.3f} and {statistics.median(bare):.3f} s; worst {max(excess):.3f}"
    return (Figure("mirror_install", statistics.median(excess), "s", goal=0.25, note=f"{note}; {bench.errors} errors"),)


def sweep() -> Sequence[Figure]:
    """Seconds of the keyed pass that mends a table of which 1 % moved ÷ one scan for the same rows in one statement;
    and of the whole step, whose last pass finds nothing."""
    passes: list[float] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            settings = settings_of(pair.primary)
            with closing(Session(settings, role="bench", timeout_s=600.0)) as session:
                make(session, settings, _SWEEP_ROWS, "")
                filled(settings, 5_000, target_time_s=0.08)
                question = _scan(session, settings)

                def moved() -> None:
                    session.execute("UPDATE bench.orders SET status = 'err', state = 'pending' WHERE id % 700 = 0")
                    session.execute("DELETE FROM _rollout.position")

                def swept() -> float:
                    moved()
                    beat = _Passes()
                    whole = _seconds(lambda: filled(settings, 5_000, 0.08, beat=beat, pass_name="sweep"))
                    if not beat.first_s:
                        raise RuntimeError("the second pass was never heard of")
                    passes.append(beat.first_s)
                    return whole

                def scanned() -> float:
                    moved()
                    return _seconds(lambda: session.value(question))

                def written() -> float:
                    moved()
                    return _seconds(lambda: session.execute(_ONE_UPDATE))

                step, raw, update = interleaved([swept, scanned, written], _ROUNDS)
        finally:
            pair.remove()
    note = f"{_SWEEP_ROWS} rows, 1 % moved"
    by_hand = f"{note}; one UPDATE that scans and mends in one transaction takes {update:.3f} s"
    return (
        Figure("sweep", statistics.median(passes), "s", raw, goal=1.3, note=f"the pass that mends; {by_hand}"),
        Figure("sweep_step", step, "s", raw, note=f"both passes and what comes before; {note}"),
    )


class _Passes(Beat):
    """How long the first pass took: to the first beat of the next one."""

    def __init__(self) -> None:
        self._began = 0.0
        self.first_s = 0.0

    def __call__(self, progress: Progress) -> Signal:
        now = time.perf_counter()
        self._began = self._began or now
        if progress.note == "sweep-2":
            self.first_s = self.first_s or now - self._began
        return GO


def _scan(session: Session, settings: ServerSettings) -> str:
    """The question of the sweep, asked of the whole table at once."""
    contract = site(settings).runbook.contract
    shape = read_shape(session, contract.table)
    if shape is None:
        raise RuntimeError(f"{contract.table} is not there")
    rule = fill_rule(load_relation(session, contract, shape), shape, "", "")
    return f"SELECT COUNT(*) FROM {contract.table} AS t WHERE {rule.wrong}"


_ONE_UPDATE = (
    "UPDATE bench.orders t SET t.state = CASE t.status WHEN 'new' THEN 'pending' WHEN 'work' THEN 'running'"
    " WHEN 'done' THEN 'succeeded' WHEN 'err' THEN 'failed' END, t.changed_at = t.changed_at"
    " WHERE NOT (t.state <=> CASE t.status WHEN 'new' THEN 'pending' WHEN 'work' THEN 'running'"
    " WHEN 'done' THEN 'succeeded' WHEN 'err' THEN 'failed' END)"
)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
