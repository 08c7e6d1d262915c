"""The light weight of the suite: one rollout of a table of tens of rows, killed again and again on its way.

A life is a seeded sequence of moves (the next stage, a rollback to some stage, finish, purge); each move is typed again
until it is through, and most times it dies on the way. No application writes, so every old value must stay as it was.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random

from orchestrator.app.wiring import App
from orchestrator.errors import Exit
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import FORWARD, Record, State
from orchestrator.mysql.clock import SystemClock
from orchestrator.sandbox.pair import Pair
from orchestrator.store.mysql import MysqlStore
from tests.crash.suite.attempt import Attempt, Verb, attempt
from tests.crash.suite.mortal import Edge, Moment, Victim
from tests.crash.suite.oracles import after_a_death, at_the_end, attended, old_values
from tests.crash.suite.tally import Tally
from tests.support.command import Ground, ground
from tests.support.state import settings_of

_RUNBOOKS = ("orders", "documents", "aijob")
_WEIGHTS = (6, 3, 1)
_ROWS = 40
_MOST_TRIES = 40
_MOVES = 9
# How a command may end after a blow, by who was struck: a cut session can make a gate unable to say, an effect unknown,
# or end the command; one after a death waits for what the dead one left running, and is held if that takes too long.
_MAY_END = {
    Victim.TOOL: {Exit.DONE, Exit.HELD},
    Victim.CONNECTION: {Exit.DONE, Exit.UNREACHABLE, Exit.HELD, Exit.PHASE_FAILED, Exit.CANNOT_SAY},
}


@dataclass(frozen=True)
class Move:
    """``kind`` is next, rollback, finish or purge; ``stage`` what next does or rollback keeps."""

    kind: str
    stage: str = ""

    @property
    def name(self) -> str:
        return self.stage if self.kind == "next" else self.kind

    def verb(self) -> Verb:
        def said(app: App) -> str:
            match self.kind:
                case "next":
                    ended = app.commands.next(self.stage)
                case "rollback":
                    ended = app.commands.rollback(self.stage, ())
                case "finish":
                    ended = app.commands.finish(True, ())
                case _:
                    ended = app.commands.purge()
            return ended if isinstance(ended, str) else ended.note

        return said


class Life:
    """One seeded rollout from its first command to its purge; each of its commands dies so often at most."""

    MOST_DEATHS = 5

    def __init__(self, pair: Pair, seed: int, tally: Tally, longest: dict[tuple[str, str], int]) -> None:
        self._pair = pair
        self._seed = seed
        self._rng = Random(seed)
        self._tally = tally
        self._longest = longest
        self._name = self._rng.choices(_RUNBOOKS, _WEIGHTS)[0]

    def live(self) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="rollout-life-") as folder,
            ground(self._pair, self._name, Path(folder), rows=_ROWS, seed=self._seed, wait_s=0.2) as seeded,
            attended(seeded) as here,
        ):
            self._tally.lives += 1
            untouched = old_values(here)
            for number in range(_MOVES + len(FORWARD) + 1):
                record = self._record(here)
                move = self._drawn(record, hurry=number >= _MOVES)
                if not self._moved(here, move, untouched):
                    return
                self._judge(move, self._arrived(here, move))
                if move.kind in ("finish", "purge") or (move.kind == "rollback" and not move.stage):
                    self._judge(move, at_the_end(here, self._record(here)))
                if move.kind == "purge":
                    return

    def _drawn(self, record: Record | None, *, hurry: bool) -> Move:
        if record is None or not record.revision:
            return Move("next", FORWARD[0])
        if record.state is State.FINISHED:
            return Move("purge")
        if record.done and not hurry and self._rng.random() < 0.2:
            return Move("rollback", self._rng.choice(("", *record.done[:-1])))
        return Move("next", record.next_phase) if record.next_phase else Move("finish")

    def _moved(self, here: Ground, move: Move, untouched: str) -> bool:
        """Type the command until it is through. False: it never was, and that is a finding."""
        deaths = 0
        for _ in range(_MOST_TRIES):
            moment = self._moment(move) if deaths < self.MOST_DEATHS and self._rng.random() < 0.85 else None
            try:
                tried = attempt(here.runbook, settings_of(self._pair.primary), move.verb(), moment)
            except AssertionError as error:
                self._judge(move, [str(error)], moment)
                return False
            self._tally.tries += 1
            if moment is not None and tried.struck:
                deaths += 1
                self._tally.deaths[(move.name, f"{moment.victim.value} {moment.edge.value}")] += 1
            self._judge(move, self._ended(tried, moment) + after_a_death(here, untouched), moment, tried)
            if not tried.died and tried.code == Exit.DONE:
                if moment is None or not tried.struck:
                    key = (self._name, move.name)
                    self._longest[key] = max(self._longest.get(key, 0), tried.statements)
                return True
        last = f"{tried.code} {tried.said}"
        self._judge(move, [f"it was not through after {_MOST_TRIES} tries; the last ended with {last}"])
        return False

    def _moment(self, move: Move) -> Moment:
        most = self._longest.get((self._name, move.name), 150)
        return Moment(
            self._rng.choices((Victim.TOOL, Victim.CONNECTION), (3, 1))[0],
            self._rng.choice(tuple(Edge)),
            self._rng.randint(1, most),
        )

    def _ended(self, tried: Attempt, moment: Moment | None) -> list[str]:
        """How it may end: after a cut connection also by saying so. What an earlier blow left is only waited for."""
        if tried.died:
            return []
        victim = moment.victim if moment is not None and tried.struck else Victim.TOOL
        return [] if tried.code in _MAY_END[victim] else [f"it ended with {tried.code}: {tried.said}"]

    def _arrived(self, here: Ground, move: Move) -> list[str]:
        """The record says what was asked for, and every row holds what it should."""
        record = self._record(here)
        if record is None:
            return [] if move.kind == "purge" else ["there is no record"]
        if move.kind == "next" and move.stage not in record.done:
            return [f"{move.stage} is not done: {record.state.value}, done {record.done}"]
        keeps = here.runbook.phases.rollback_ddl is RollbackDdl.KEEP
        may = FORWARD[: _upto(move.stage)] or (FORWARD[:1] if keeps else ())
        if move.kind == "rollback" and set(record.done) - set(may):
            return [f"back to {move.stage!r}, and {record.done} is done"]
        if "shadow-write" not in record.done or record.state is State.FINISHED:
            return []
        with_rows = attempt(here.runbook, settings_of(self._pair.primary), _mismatches, None)
        return [] if with_rows.said == "0" else [f"rows differ: {with_rows.said}"]

    def _record(self, here: Ground) -> Record | None:
        with closing(MysqlStore(settings_of(here.pair.primary), SystemClock())) as store:
            return store.load(here.runbook.id)

    def _judge(self, move: Move, found: list[str], moment: Moment | None = None, tried: Attempt | None = None) -> None:
        for finding in found:
            at = f", {moment}" if moment is not None else ""
            text = f" ({' '.join(tried.struck.split())[:160]})" if tried is not None and tried.struck else ""
            self._tally.findings.append(
                f"seed {self._seed}, {self._name}, {move.kind} {move.stage}{at}{text}: {finding}"
            )


def _upto(stage: str) -> int:
    return FORWARD.index(stage) + 1 if stage else 0


def _mismatches(app: App) -> str:
    return f"{app.compare().figures['mismatches']:.0f}"
