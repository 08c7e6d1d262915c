"""The old and the new application: workers that write and read all day, as real ones do, and keep the ledger honest.

The old application knows the old columns only, from its first second to its last. The new one obeys both flags: it
asks outside any transaction, decides at a transaction's first statement, reads an entity by the column that the percent
says, and says the old application's statements while ``new_writes`` is closed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from msgspec import Struct, field

from orchestrator.model.keys import Key
from orchestrator.mysql.application_session import ApplicationSession, Row
from orchestrator.mysql.errno import DEADLOCK, LOCK_WAIT_TIMEOUT, Cure, ServerError
from orchestrator.sandbox.arguments import Arguments, NothingLeft, Source
from orchestrator.sandbox.flag_reader import Decision
from orchestrator.sandbox.ledger import Ledger
from orchestrator.sandbox.replay import Write
from orchestrator.sandbox.rows import Rows
from orchestrator.sandbox.script import Operation, Read, Script
from orchestrator.sandbox.statements import Kind, Statement
from orchestrator.sandbox.waits import Tally, Window

_TRIES = 8
_KEPT_SETS = 60


class Setting(Struct):
    """What all workers share. ``doubled``: what they say while they are asked to write both columns. ``windows`` are
    told of every wait; ``reads_break``: a fault that can be switched on."""

    script: Script
    doubled: Script
    ledger: Ledger
    rows: Rows
    windows: list[Window]
    monotonic: Callable[[], float] = time.monotonic
    reads_break: threading.Event = field(default_factory=threading.Event)
    compares_reads: threading.Event = field(default_factory=threading.Event)


class _Run(Struct):
    """One transaction in flight: what it wrote so far (``marks``: where each savepoint was set)."""

    writes: list[Write] = field(default_factory=list)
    marks: dict[str, int] = field(default_factory=dict)
    born: list[Key] = field(default_factory=list)
    committing: bool = False


class Means(Struct, frozen=True):
    """What one worker has for itself. ``decide`` gives the flags; the old application's is always ``OLD``."""

    session: ApplicationSession
    source: Source
    rng: Random
    tally: Tally
    decide: Callable[[], Decision]


class Worker:
    """One thread's work with one connection."""

    def __init__(self, setting: Setting, means: Means) -> None:
        self._setting = setting
        self._session = means.session
        self._source = means.source
        self._rng = means.rng
        self._tally = means.tally
        self._decide = means.decide
        self._statements = 0
        self._kept: dict[str, deque[tuple[Arguments, dict[str, Key]]]] = {}

    def run(self, stop: threading.Event, per_second: float) -> None:
        """Work until told to stop, at about that many statements a second."""
        due = self._setting.monotonic()
        try:
            while not stop.is_set():
                self._statements = 0
                self.work()
                pause_s = self._statements / per_second
                due = max(due + pause_s, self._setting.monotonic())
                # Nobody clicks faster because the server is slow: a pause stays, and nothing is caught up in a burst.
                stop.wait(max(due - self._setting.monotonic(), pause_s / 4))
        except Exception as error:
            # A mistake in the traffic must show in its figures, not only on stderr of a thread.
            self._tally.error(f"the traffic itself failed: {error!r}")
            raise
        finally:
            self._session.close()

    def work(self) -> None:
        """One read or one operation. Never raises for what the database says."""
        decision = self._decide()
        script = self._setting.doubled if decision.double_writes else self._setting.script
        try:
            if script.reads and self._rng.random() < 0.4:
                read = self._chosen(script.reads)
                self._attempted(read.name, lambda: self._read(read, decision))
            else:
                self._write(self._chosen(script.new if decision.new_writes else script.old), decision)
        except NothingLeft:
            self._statements += 1

    def _chosen(self, choices: Sequence[Any]) -> Any:
        return self._rng.choices(choices, [c.weight for c in choices])[0]

    def _attempted(self, name: str, act: Callable[[], bool]) -> bool:
        """Do it, again after a deadlock or a lock wait; any other database error is the application's error."""
        failed = ""
        for attempt in range(_TRIES):
            try:
                fine = act()
                self._tally.request(failed=not fine)
                return True
            except ServerError as error:
                self._session.rollback()
                failed = f"{name}: {error}"
                if error.number not in (DEADLOCK, LOCK_WAIT_TIMEOUT):
                    break
                self._tally.count("retries")
                time.sleep(self._rng.uniform(0.0, 0.01 * 2**attempt))
        self._tally.request(failed=True)
        self._tally.error(failed)
        return False

    def _timed(self, statement: str, act: Callable[[], Any]) -> Any:
        self._statements += 1
        self._session.open()
        began = self._setting.monotonic()
        try:
            return act()
        finally:
            wait_ms = (self._setting.monotonic() - began) * 1000
            self._tally.window.add(wait_ms, statement)
            for window in tuple(self._setting.windows):
                window.add(wait_ms, statement)

    def _read(self, read: Read, decision: Decision) -> bool:
        args, keys = self._source.draw((read.old, read.new))
        entity = keys.get(read.entity) or (args[read.entity],)
        on_new = decision.reads_new(entity)
        if on_new and self._setting.reads_break.is_set() and self._rng.random() < 0.5:
            self._tally.count("injected_errors")
            return False
        new = read.new if self._setting.compares_reads.is_set() else read.released
        statement = new if on_new else read.old
        rows = self._timed(statement.text, lambda: self._session.query(statement.sql, args))
        self._tally.count("reads")
        if not on_new:
            return True
        self._tally.count("new_column_reads")
        return not (read.columns and self._setting.compares_reads.is_set()) or self._all_correspond(read, rows)

    def _all_correspond(self, read: Read, rows: list[Row]) -> bool:
        model = self._setting.ledger.model
        stale = 0
        for row in rows:
            image = {name: model.kept(name, value) for name, value in zip(read.columns, row, strict=True)}
            pairs = [p for p in model.pairs if {*p.names} <= image.keys()]
            stale += not all(p.corresponds(image) for p in pairs)
        if stale:
            self._tally.count("stale_reads", stale)
        return not stale

    def _write(self, operation: Operation, decision: Decision) -> None:
        if operation.take:
            kept = self._kept.get(operation.take)
            if not kept:
                raise NothingLeft
            args, keys = kept.popleft()
        else:
            args, keys = self._source.draw(operation.statements)
        if operation.keep and len(self._kept.get(operation.keep, ())) >= _KEPT_SETS:
            return
        done = self._attempted(operation.name, lambda: self._transaction(operation, args, keys, decision))
        if done and operation.keep:
            self._kept.setdefault(operation.keep, deque()).append((args, keys))

    def _transaction(self, operation: Operation, args: Arguments, keys: dict[str, Key], decision: Decision) -> bool:
        run, args, keys = _Run(), dict(args), dict(keys)
        self._decided_still(decision)
        try:
            if not operation.autocommit:
                self._timed("START TRANSACTION", self._session.begin)
            for statement in operation.statements:
                if statement.text == "COMMIT":
                    self._commit(run, operation, decision)
                    self._decided_still(decision)
                    self._timed("START TRANSACTION", self._session.begin)
                elif not self._say(statement, operation, args, keys, run):
                    break
            self._commit(run, operation, decision)
        except ServerError as error:
            lost = error.cure is Cure.RECONNECT and (run.committing or operation.autocommit)
            if lost:
                self._tally.count("unknown_commits")
                self._setting.ledger.record(_uncertain(run, operation, args, keys, self._setting.ledger))
            raise
        return True

    def _decided_still(self, decision: Decision) -> None:
        """Each transaction decides anew, so does its next try. Raises NothingLeft when it may not be said any more."""
        now = self._decide()
        if (now.new_writes, now.double_writes) != (decision.new_writes, decision.double_writes):
            raise NothingLeft

    def _commit(self, run: _Run, operation: Operation, decision: Decision) -> None:
        if not operation.autocommit:
            run.committing = True
            self._timed("COMMIT", self._session.commit)
            run.committing = False
        self._setting.ledger.record(run.writes)
        self._tally.count("writes", len(run.writes))
        if decision.new_writes:
            self._tally.count("new_column_writes", len(run.writes))
        for key in run.born:
            if not operation.keep and not operation.take:
                self._setting.rows.born(key)
        run.writes, run.born = [], []

    def _say(
        self, statement: Statement, operation: Operation, args: Arguments, keys: dict[str, Key], run: _Run
    ) -> bool:
        """One statement of an operation; False ends the operation early (nothing was there to claim)."""
        if statement.kind is Kind.CONTROL:
            self._control(statement, run)
            return True
        if statement.kind is Kind.READ:
            rows = self._timed(statement.text, lambda: self._session.query(statement.sql, args))
            self._tally.count("reads")
            if statement.claims:
                args["claimed"] = [row[0] for row in rows]
                return bool(rows)
            return True
        matched = self._timed(statement.text, lambda: self._session.execute(statement.sql, args))
        run.writes += self._written(statement, operation, args, keys, matched)
        if statement.kind is Kind.INSERT and self._is_ours(statement):
            run.born += [k for w, k in keys.items() if w.startswith("fresh") and w in statement.rows]
        return True

    def _control(self, statement: Statement, run: _Run) -> None:
        words = statement.text.upper().split()
        self._timed(statement.text, lambda: self._session.execute(statement.sql))
        if words[0] == "SAVEPOINT":
            run.marks[words[1]] = len(run.writes)
        elif words[0] == "ROLLBACK":
            del run.writes[run.marks[words[-1]] if len(words) > 1 else 0 :]
            run.born = [k for k in run.born if any(w.key == k for w in run.writes)]

    def _is_ours(self, statement: Statement) -> bool:
        return statement.table.lower() == self._setting.ledger.table.name.lower()

    def _written(
        self, statement: Statement, operation: Operation, args: Arguments, keys: dict[str, Key], matched: int
    ) -> list[Write]:
        """What the statement wrote, for the ledger; its number is taken now, while the rows are locked by us."""
        number = self._setting.ledger.number()
        if not self._is_ours(statement):
            gone = operation.deletes if statement.kind is Kind.DELETE else ()
            return [Write(number, keys[row], statement, args) for row in gone]
        if statement.kind is Kind.INSERT:
            return [
                Write(number, keys[row], statement, args, at, existed=not row.startswith(("fresh", "mine")))
                for at, row in enumerate(statement.rows)
            ]
        touched = [keys[row] for row in statement.rows if row != "claimed"]
        if "claimed" in statement.rows:
            touched += [(key,) for key in args["claimed"]]
        if matched == 0:
            return []
        if matched != len(touched):
            raise ValueError(f"{matched} rows matched where {len(touched)} were meant: {statement.text}")
        return [Write(number, key, statement, args) for key in touched]


def _uncertain(run: _Run, operation: Operation, args: Arguments, keys: dict[str, Key], ledger: Ledger) -> list[Write]:
    """The writes of a transaction whose end was not answered: each may have happened or not."""
    writes = run.writes
    if operation.autocommit and not writes:
        statement = operation.statements[0]
        number = ledger.number()
        writes = [Write(number, keys[row], statement, args, at) for at, row in enumerate(statement.rows)]
    return [Write(w.number, w.key, w.statement, w.args, w.row, w.existed, certain=False) for w in writes]
