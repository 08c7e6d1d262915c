"""A command that stood still, or whose way to the server did, while somebody else took over goes on: it commits
nothing, and says so.

What it may do is judged by the server's binary log: no commit by any of its connections after the first one of whoever
took over, which raises the epoch. Who was cut off while it asked for the lease does not know that it had it: it may ask
again, as a second operator does, and act when nobody else does any more. What it may say is judged by what it and the
other did: see ``_said``.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from dataclasses import replace as changed
from random import Random

import pymysql
from msgspec.structs import replace

from orchestrator.errors import Exit
from orchestrator.model.state import Event, Record, State
from orchestrator.mysql.clock import SystemClock
from orchestrator.store.mysql import MysqlStore
from orchestrator.store.place import LeaseTimes
from tests.crash.suite.attempt import Attempt, Child
from tests.crash.suite.commits import Commit, committed, mark
from tests.crash.suite.lives import Life
from tests.crash.suite.mortal import Victim
from tests.crash.suite.moves import Move, ends, verb
from tests.crash.suite.oracles import after_a_death
from tests.crash.suite.wire import wire
from tests.support.command import Ground
from tests.support.servers import wait_for
from tests.support.state import settings_of

# The product's own, thirty times as fast, so that a race takes seconds; what a living command may be silent for is not
# shortened, because the machine of a test may be slow.
_SLEEPER = LeaseTimes(heartbeat_s=0.05, renew_s=0.1, silence_s=1.0, dead_s=1.5, idle_s=1, answer_s=2.0)
_HEIR = LeaseTimes(heartbeat_s=0.05, renew_s=0.1, dead_s=1.5)
_TAKES_OVER_WITHIN_S = 60.0
_MOST_OVERLAP_S = 1.5
_VICTIMS = (Victim.SLEEPER, Victim.WIRE, Victim.LOSS)
# With which words a command says that it is not the holder any more.
_LOST = re.compile(r"the lease of .* was lost|we act under epoch|is being worked on by|else moved this rollout")
_ASKS_FOR_THE_LEASE = "INSERT INTO `_rollout`.`lease`"
_NOTHING_BEGUN = re.compile(r"nothing was begun")
_ABORTED = re.compile(r"abort")


@dataclass(frozen=True)
class Woken:
    """What the sleeper did. ``over``: it had ended before it, or its way, went on. ``through``: the server shows that
    its work was done, and by itself. ``anew``: it took the lease again, when the other had."""

    move: Move
    tried: Attempt
    over: bool
    through: bool
    anew: bool


class Race(Life):
    """A life in which each command falls asleep, or is cut off, at a seeded moment. Another takes over, with the same
    command or another; the first goes on in the middle of that, or after it."""

    MOST_DEATHS = 0

    def _moved(self, here: Ground, number: int, move: Move, untouched: str) -> Sequence[Move] | None:
        settings = settings_of(self._pair.primary)
        rng = self._drawn_for("race", number)
        with wire(self._pair.primary) as way:
            moment = changed(self._moment(rng, move), victim=rng.choice(_VICTIMS), wire=way.pid)
            cut_off = moment.victim is not Victim.SLEEPER
            began_at = self._revision(here)
            near = replace(settings, port=way.port) if cut_off else settings
            sleeper = Child(here.runbook, near, verb((move,)), moment, _SLEEPER)
            stands = way.pid if cut_off else sleeper.pid
            self._tally.tries += 1
            if not (sleeper.stopped(stands) and _holds(here, sleeper.pid)):
                # It has not begun, or it is through: whoever goes on then is a second operator, and no zombie.
                _goes_on(stands)
                sleeper.ended()
                return super()._moved(here, number, move, untouched)
            since = mark(here)
            taken = self._taken_over_by(rng, move, self._record(here))
            heir = Child(here.runbook, settings, verb(taken), None, _HEIR)
            _overlap(here, heir, rng)
            over = cut_off and sleeper.over()
            if moment.victim is Victim.LOSS:
                way.cut()
            _goes_on(stands)
            tried, done = sleeper.ended(), heir.ended()
        commits = committed(here, since)
        late = _late(commits, tried, done)
        anew = cut_off and _ASKS_FOR_THE_LEASE in tried.struck and bool(late) and late[0].takes_the_lease
        woken = Woken(move, tried, over, self._through(here, move, tried, commits, began_at), anew)
        self._tally.struck(f"{move.name}, then {taken[-1].kind}", moment, tried.struck)
        found = _both_act(commits, late[0], done) if anew else _told_late(late)
        found += _said(woken, taken)
        if done.code != Exit.DONE:
            found.append(f"who came after it ended with {done.code}: {done.said}")
        self._judge(move, found + after_a_death(here, untouched), moment, tried)
        if done.code != Exit.DONE:
            return None
        return self._came(here, woken, taken, done)

    def _taken_over_by(self, rng: Random, move: Move, record: Record | None) -> tuple[Move, ...]:
        """What the other one types."""
        if move.kind == "purge":
            anew = Move("next"), *(() if record is None or record.state is not State.FINISHED else (move,))
            return rng.choice(((move,), tuple(reversed(anew))))
        back = Move("rollback", rng.choice(("", *(record.done[:-1] if record else ()))))
        others = (back, Move("abort")) if move.kind == "next" else (Move("abort"),)
        return (rng.choice((move, move, *others)),)

    def _came(self, here: Ground, woken: Woken, taken: Sequence[Move], done: Attempt) -> tuple[Move, ...]:
        """What came through, in order; the stage that was next when the other said no more is named."""
        came = tuple(taken)
        if woken.through:
            came = (*taken, woken.move) if woken.anew else (woken.move, *taken)
        if _NOTHING_BEGUN.search(done.said):
            came = (woken.move,) if woken.through else ()
        record = self._record(here)
        last = record.done[-1] if record is not None and record.done else ""
        return tuple(Move("next", last) if move == Move("next") else move for move in came)

    def _through(self, here: Ground, move: Move, woken: Attempt, commits: Sequence[Commit], began_at: int) -> bool:
        """Whether the event that ends the move (of a purge: that nothing is there) is the sleeper's own."""
        if move.kind == "purge":
            return woken.code == Exit.DONE
        history = self._history(here)[began_at:]
        writers = [c.connection for c in commits if "_rollout.event" in c.of]
        # What was written before it fell asleep, nobody else wrote.
        own = [True] * (len(history) - len(writers)) + [writer in woken.sessions for writer in writers]
        named = [e for e, mine in zip(history, own, strict=False) if mine and e.kind is ends(move)]
        return any(move.kind != "next" or event.phase == move.stage for event in named)

    def _history(self, here: Ground) -> Sequence[Event]:
        with closing(MysqlStore(settings_of(here.pair.primary), SystemClock())) as store:
            return store.history(here.runbook.id)

    def _revision(self, here: Ground) -> int:
        record = self._record(here)
        return record.revision if record is not None else 0


def _overlap(here: Ground, heir: Child, rng: Random) -> None:
    """Until the heir has the lease and has used it for a while; at times until it has ended."""
    wait_for(lambda: heir.over() or _holds(here, heir.pid), _TAKES_OVER_WITHIN_S, "somebody takes over")
    until = time.monotonic() + rng.choice((rng.uniform(0, _MOST_OVERLAP_S), _TAKES_OVER_WITHIN_S))
    wait_for(lambda: heir.over() or time.monotonic() > until, 2 * _TAKES_OVER_WITHIN_S, "it works")


def _said(woken: Woken, taken: Sequence[Move]) -> list[str]:
    """Findings: another end than 75 with words that the lease was lost, or 80; 76 when it heard that it is aborted; 0
    when the server shows that it had done all. Who ended while it was cut off could not know who acts now: then also
    75 for what it cannot see, and 69."""
    code, said = woken.tried.code, woken.tried.said
    match code:
        case Exit.HELD:
            right = woken.over or _LOST.search(said) is not None
        case Exit.CANNOT_SAY:
            right = True
        case Exit.DONE:
            right = woken.through
        case Exit.PHASE_FAILED:
            right = taken[-1].kind == "abort" and _ABORTED.search(said) is not None
        case Exit.UNREACHABLE:
            right = woken.over
        case _:
            right = False
    return [] if right else [f"it woke and ended with {code}: {said}"]


def _late(commits: Sequence[Commit], woken: Attempt, heir: Attempt) -> Sequence[Commit]:
    """Commits by the one that woke after the first one of the other."""
    took_over = next((at for at, commit in enumerate(commits) if commit.connection in heir.sessions), len(commits))
    return [commit for commit in commits[took_over:] if commit.connection in woken.sessions]


def _told_late(late: Sequence[Commit]) -> list[str]:
    return [f"it committed after another had taken over: {[commit.of for commit in late]}"] if late else []


def _both_act(commits: Sequence[Commit], taking: Commit, heir: Attempt) -> list[str]:
    """Findings: commits by the other after the one that woke had taken the lease properly."""
    after = [c.of for c in commits[commits.index(taking) :] if c.connection in heir.sessions]
    return [f"the other committed after the lease was taken from it: {after}"] if after else []


def _holds(here: Ground, pid: int) -> bool:
    # A purge takes the schema away.
    with suppress(pymysql.err.MySQLError):
        return here.sql("SELECT 1 FROM _rollout.lease WHERE pid = %s", pid) != []
    return False


def _goes_on(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGCONT)
