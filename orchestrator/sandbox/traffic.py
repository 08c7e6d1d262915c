"""Two applications on one table, started and stopped at will, with their figures and their ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from typing import Any

from orchestrator.model.facts import Shape
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.application_session import ApplicationSession
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.sql import applications as sql
from orchestrator.sandbox.applications import Means, Setting, Worker
from orchestrator.sandbox.arguments import Source
from orchestrator.sandbox.doubling import doubled
from orchestrator.sandbox.flag_reader import OLD, WITHOUT_FLAG, Deciding, Decision, FlagReader
from orchestrator.sandbox.ledger import Ledger
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.sandbox.rows import Rows
from orchestrator.sandbox.script import Script, load_script, render_script
from orchestrator.sandbox.waits import Tally, TrafficStats, Window
from orchestrator.settings import ServerSettings

_REFERRED_ROWS = 2_000
_PATIENCE_S = 80.0


class Traffic:
    """Old and new application on the runbook's table, each with so many ``threads``. ``pace``: statements a second for
    each application.

    Opening it loads the ledger from the table, so nothing else may write the table in that moment. Reads of new columns
    are compared with the old ones until ``release_without_flag``.
    """

    def __init__(
        self,
        settings: ServerSettings,
        runbook: Runbook,
        shape: Shape,
        *,
        seed: int = 1,
        pace: float = 150.0,
        threads: int = 3,
    ) -> None:
        self._settings = settings
        self._runbook = runbook
        self._pace = pace
        self._workers = threads
        self._seed = seed
        self.ledger = Ledger(runbook, shape)
        session = self._session("setup")
        session.execute(sql.create_health(runbook.table.schema))
        keys = self.ledger.load(_Asking(session))
        self._referred = _referred(_Asking(session), runbook, shape)
        session.close()
        script = self._script(shape)
        both = doubled(script, self.ledger.model, runbook.table.name) if runbook.phases.shadow == "flag" else script
        self._setting = Setting(script, both, self.ledger, Rows(shape, keys, seed), [])
        self._setting.compares_reads.set()
        self._tallies = {name: Tally(name) for name in ("old", "new")}
        self._threads: dict[str, list[threading.Thread]] = {"old": [], "new": []}
        self._stops = {name: threading.Event() for name in ("old", "new")}
        self._released = threading.Event()
        self._reporting = threading.Event()
        self._reporter: threading.Thread | None = None
        self._started = 0

    def start_old(self) -> None:
        """Start the old application, which knows the old columns only; where no triggers do it, it writes the new ones
        beside them while it is asked to."""
        if self._runbook.phases.shadow == "triggers":
            self._start("old", lambda: OLD)
            return
        flag = self._flag()
        self._start("old", lambda: Decision(double_writes=flag.decide().double_writes))

    def start_new(self, flag: Deciding | None = None) -> None:
        """Start the new application, which obeys the flags: those of the row, or what ``flag`` says. There need
        not be new columns or a flag yet."""
        flag = flag or self._flag()
        self._start("new", lambda: WITHOUT_FLAG if self._released.is_set() else flag.decide())

    def _flag(self) -> FlagReader:
        return FlagReader(
            self._session("flag"),
            self._settings.state_schema,
            self._runbook.id,
            self._runbook.phases.poll_s,
            self._setting.monotonic,
        )

    def stop_old(self) -> None:
        self._stop("old")

    def stop_new(self) -> None:
        self._stop("new")

    def stop(self) -> None:
        """Stop both, after the transactions that they are in. Raises TimeoutError when one does not end."""
        for name in ("old", "new"):
            self._stop(name)
        self._reporting.set()
        if self._reporter is not None:
            self._reporter.join(_PATIENCE_S)
            self._reporter = None

    def release_without_flag(self) -> None:
        """The new application's next release: new columns always, the flag is not read any more."""
        self._setting.compares_reads.clear()
        self.ledger.new_is_alone()
        self._released.set()

    def break_reads(self, broken: bool) -> None:
        """Switch a fault of the new application on or off: half of its reads by new columns fail, in itself."""
        if broken:
            self._setting.reads_break.set()
        else:
            self._setting.reads_break.clear()

    def window(self) -> Window:
        """A window over both applications' waits that begins now; ``reset`` begins it again."""
        window = Window()
        self._setting.windows.append(window)
        return window

    def stats(self, name: str = "") -> TrafficStats:
        """Figures of one application, or of both."""
        parts = [self._tallies[n].stats() for n in ([name] if name else ["old", "new"])]
        return parts[0] if len(parts) == 1 else _sum(parts[0], parts[1])

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(name for name, threads in self._threads.items() if threads)

    def _script(self, shape: Shape) -> Script:
        own = runbooks_folder() / "sandbox" / f"{self._runbook.id}.traffic.toml"
        return load_script(own) if own.is_file() else render_script(self._runbook, shape, self.ledger.model)

    def _session(self, role: str) -> ApplicationSession:
        return ApplicationSession(self._settings, role, self._runbook.table.schema)

    def _start(self, name: str, decide: Callable[[], Decision]) -> None:
        if self._threads[name]:
            return
        self._stops[name].clear()
        if self._reporter is None:
            self._reporting.clear()
            self._reporter = threading.Thread(target=self._report, name="health", daemon=True)
            self._reporter.start()
        for _ in range(self._workers):
            self._started += 1
            rng = Random(f"{self._seed}:{name}:{self._started}")
            source = Source(self.ledger.model, self._setting.rows, rng, self._setting.script.values, self._referred)
            means = Means(self._session(name), source, rng, self._tallies[name], decide)
            thread = threading.Thread(
                target=Worker(self._setting, means).run,
                args=(self._stops[name], self._pace / self._workers),
                name=f"{name}-{self._started}",
                daemon=True,
            )
            self._threads[name].append(thread)
            thread.start()

    def _stop(self, name: str) -> None:
        self._stops[name].set()
        for thread in self._threads[name]:
            thread.join(_PATIENCE_S)
            if thread.is_alive():
                raise TimeoutError(f"the {name} application did not end within {_PATIENCE_S:.0f} s")
        self._threads[name] = []

    def _report(self) -> None:
        """Once a second, what each application says of its own health. A report that fails is sent with the next."""
        session = self._session("health")
        text = sql.report_health(self._runbook.table.schema)
        unsent = dict.fromkeys(self._tallies, (0, 0))
        while True:
            last = self._reporting.wait(1.0)
            for name, tally in self._tallies.items():
                taken = tally.take_health()
                requests, failed = unsent[name][0] + taken[0], unsent[name][1] + taken[1]
                unsent[name] = requests, failed
                if requests:
                    try:
                        session.execute(text, (name, requests, failed))
                        unsent[name] = 0, 0
                    except ServerError:
                        continue
            if last:
                session.close()
                return


class _Asking:
    """An application's session in the form that the ledger asks."""

    def __init__(self, session: ApplicationSession) -> None:
        self._session = session

    def query(self, sql: str, args: Any = ()) -> list[tuple[Any, ...]]:
        return self._session.query(sql, tuple(args) if args else None)


def _referred(session: _Asking, runbook: Runbook, shape: Shape) -> dict[str, list[Any]]:
    """Existing values for columns that refer to other tables, by column in lower case."""
    found: dict[str, list[Any]] = {}
    for key in (*shape.foreign_keys, *runbook.contract.foreign_keys):
        if len(key.columns) == 1 and key.references != runbook.table:
            rows = session.query(sql.pick(key.references, key.referenced_columns, _REFERRED_ROWS))
            found[key.columns[0].lower()] = [row[0] for row in rows]
    return found


def _sum(a: TrafficStats, b: TrafficStats) -> TrafficStats:
    longest = max(a, b, key=lambda s: s.max_wait_ms)
    return TrafficStats(
        writes=a.writes + b.writes,
        reads=a.reads + b.reads,
        errors=a.errors + b.errors,
        error_texts=a.error_texts + b.error_texts,
        injected_errors=a.injected_errors + b.injected_errors,
        stale_reads=a.stale_reads + b.stale_reads,
        retries=a.retries + b.retries,
        unknown_commits=a.unknown_commits + b.unknown_commits,
        new_column_reads=a.new_column_reads + b.new_column_reads,
        new_column_writes=a.new_column_writes + b.new_column_writes,
        max_wait_ms=longest.max_wait_ms,
        max_wait_statement=longest.max_wait_statement,
        p99_ms=max(a.p99_ms, b.p99_ms),
    )
