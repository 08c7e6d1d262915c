"""The light weight of the suite: one rollout of a table of tens of rows, killed again and again on its way.

A life is a seeded sequence of moves (the next stage, a rollback to some stage, finish, purge); each move is typed again
until it is through, and most times it dies on the way. No application writes, so every old value must stay as it was.
Each move and each moment is drawn from the seed and its place in the life, so a life that is lived again is the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random

from orchestrator.app.wiring import App
from orchestrator.errors import Exit
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import FORWARD, Record, State
from orchestrator.mysql.clock import SystemClock
from orchestrator.sandbox.pair import Pair
from orchestrator.store.mysql import MysqlStore
from tests.crash.suite.attempt import Attempt, attempt
from tests.crash.suite.mortal import Edge, Moment, Sender, Victim
from tests.crash.suite.moves import Move, typed, verb
from tests.crash.suite.oracles import (
    Attended,
    after_a_death,
    at_the_end,
    attended,
    nothing_is_kept,
    old_values,
    tells_what_came,
)
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


class Life:
    """One seeded rollout from its first command to its purge; each of its commands dies so often at most."""

    MOST_DEATHS = 5

    def __init__(self, pair: Pair, seed: int, tally: Tally) -> None:
        self._pair = pair
        self._seed = seed
        self._tally = tally
        rng = self._drawn_for("ground")
        self._name = rng.choices(_RUNBOOKS, _WEIGHTS)[0]
        self._shadow = rng.choices(("triggers", "flag"), (3, 1))[0]
        self._flagd = rng.random() < 0.2
        # Whoever takes over from a purge may begin another rollout, on the columns that the purged one left.
        self._found_there = False

    def live(self) -> None:
        with tempfile.TemporaryDirectory(prefix="rollout-life-") as folder, self._ground(Path(folder)) as here:
            self._tally.lives += 1
            untouched, told = old_values(here), tuple[str, ...]()
            for number in range(_MOVES + len(FORWARD) + 1):
                record = self._record(here)
                move = self._next(number, record)
                self._found_there = self._found_there or (
                    move.kind == "purge" and record is not None and bool(record.done)
                )
                came = self._moved(here, number, move, untouched)
                if came is None:
                    return
                if not came:
                    continue
                record, last = self._record(here), came[-1]
                told = typed(told, came, record.phase if record else "")
                self._judge(last, self._arrived(here, last, record) + tells_what_came(here, record, told))
                if last.kind == "finish" or last.all_the_way:
                    self._judge(last, at_the_end(here, record, found_there=self._found_there))
                if last.kind == "purge":
                    self._judge(last, at_the_end(here, None) + nothing_is_kept(here))
                    return

    @contextmanager
    def _ground(self, folder: Path) -> Iterator[Attended]:
        flagd = folder / "flags.json" if self._flagd else None
        with (
            ground(self._pair, self._name, folder, rows=_ROWS, seed=self._seed, wait_s=0.2, flagd=flagd) as plain,
            attended(plain.mirrored_by(self._shadow) if self._shadow == "flag" else plain) as here,
        ):
            yield here

    def _drawn_for(self, *of: object) -> Random:
        """What is drawn there hangs on the seed alone, and not on how often something else was drawn before."""
        return Random(" ".join(str(word) for word in (self._seed, *of)))

    def _next(self, number: int, record: Record | None) -> Move:
        rng = self._drawn_for("move", number)
        if record is None or not record.revision:
            return Move("next", FORWARD[0])
        if record.state is State.FINISHED:
            return Move("purge")
        if record.state is State.ROLLED_BACK and set(record.done) <= {FORWARD[0]} and rng.random() < 0.2:
            return Move("purge")
        if record.done and number < _MOVES and rng.random() < 0.2:
            return Move("rollback", rng.choice(("", *record.done[:-1])))
        return Move("next", record.next_phase) if record.next_phase else Move("finish")

    def _moved(self, here: Ground, number: int, move: Move, untouched: str) -> Sequence[Move] | None:
        """Type the command until it is through; what came through, in order. None: it never was, which is a finding."""
        deaths = 0
        for tries in range(_MOST_TRIES):
            rng = self._drawn_for("moment", number, tries)
            moment = self._moment(rng, move) if deaths < self.MOST_DEATHS and rng.random() < 0.85 else None
            try:
                tried = attempt(here.runbook, settings_of(self._pair.primary), verb((move,)), moment)
            except AssertionError as error:
                self._judge(move, [str(error)], moment)
                return None
            self._tally.tries += 1
            if moment is not None and tried.struck:
                deaths += 1
                self._tally.struck(move.name, moment, tried.struck)
            self._judge(move, self._ended(tried, moment) + after_a_death(here, untouched), moment, tried)
            if not tried.died and tried.code == Exit.DONE:
                return (move,)
        last = f"{tried.code} {tried.said}"
        self._judge(move, [f"it was not through after {_MOST_TRIES} tries; the last ended with {last}"])
        return None

    def _moment(self, rng: Random, move: Move) -> Moment:
        victim, edge = rng.choices((Victim.TOOL, Victim.CONNECTION), (3, 1))[0], rng.choice(tuple(Edge))
        sender = rng.choices(tuple(Sender), (5, 1))[0]
        return Moment(victim, edge, rng.randint(1, move.most(sender, self._name, self._shadow)), sender)

    def _ended(self, tried: Attempt, moment: Moment | None) -> list[str]:
        """How it may end: after a cut connection also by saying so. What an earlier blow left is only waited for."""
        if tried.died:
            return []
        victim = moment.victim if moment is not None and tried.struck else Victim.TOOL
        return [] if tried.code in _MAY_END[victim] else [f"it ended with {tried.code}: {tried.said}"]

    def _arrived(self, here: Ground, move: Move, record: Record | None) -> list[str]:
        """The record says what was asked for, and every row holds what it should."""
        if record is None:
            return [] if move.kind == "purge" else ["there is no record"]
        if move.kind == "purge":
            return [f"the record is there: {record.state.value}"]
        if move.kind == "abort" and (record.state is State.RUNNING or record.intent is not None):
            return [f"something is half done: {record.state.value}, {record.intent}"]
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
