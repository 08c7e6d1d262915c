"""A command that stood still, or whose way to the server did, while somebody else did its work goes on: it commits
nothing, and says so.

What it may do is judged by the server's binary log: no commit by any of its connections after the first one of whoever
took over, which raises the epoch.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import pymysql
from msgspec.structs import replace

from orchestrator.errors import Exit
from orchestrator.store.place import LeaseTimes
from tests.crash.suite.attempt import Attempt, Child
from tests.crash.suite.commits import Commit, committed, mark
from tests.crash.suite.lives import Life, Move
from tests.crash.suite.mortal import Edge, Moment, Victim
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
_MAY_SAY = {
    Victim.SLEEPER: {Exit.HELD, Exit.CANNOT_SAY, Exit.DONE},
    # Who is cut off for long enough says that the server cannot be reached.
    Victim.WIRE: {Exit.HELD, Exit.CANNOT_SAY, Exit.DONE, Exit.UNREACHABLE},
}


class Race(Life):
    """A life in which each command falls asleep, or is cut off, at a seeded moment. Another does the work; the first
    goes on in the middle of that, or after it."""

    MOST_DEATHS = 0

    def _moved(self, here: Ground, move: Move, untouched: str) -> bool:
        settings = settings_of(self._pair.primary)
        with wire(self._pair.primary) as way:
            victim, edge = self._rng.choice((Victim.SLEEPER, Victim.WIRE)), self._rng.choice(tuple(Edge))
            moment = Moment(victim, edge, self._moment(move).statement, way.pid)
            near = replace(settings, port=way.port) if victim is Victim.WIRE else settings
            sleeper = Child(here.runbook, near, move.verb(), moment, _SLEEPER)
            stands = way.pid if victim is Victim.WIRE else sleeper.pid
            self._tally.tries += 1
            if not (sleeper.stopped(stands) and _holds(here, sleeper.pid)):
                # It has not begun, or it is through: whoever goes on then is a second operator, and no zombie.
                _goes_on(stands)
                sleeper.ended()
                return super()._moved(here, move, untouched)
            since = mark(here)
            heir = Child(here.runbook, settings, move.verb(), None, _HEIR)
            self._overlap(here, heir)
            _goes_on(stands)
            woken, done = sleeper.ended(), heir.ended()
            self._longest[self._name, move.name] = max(self._longest.get((self._name, move.name), 0), done.statements)
            self._tally.deaths[(move.name, f"{victim.value} {edge.value}")] += 1
            found = _late(committed(here, since), woken, done)
            if done.code != Exit.DONE:
                found.append(f"who came after it ended with {done.code}: {done.said}")
            if woken.code not in _MAY_SAY[victim]:
                found.append(f"it woke and ended with {woken.code}: {woken.said}")
            self._judge(move, found + after_a_death(here, untouched), moment, woken)
            return done.code == Exit.DONE

    def _overlap(self, here: Ground, heir: Child) -> None:
        """Until the heir has the lease and has used it for a while; at times until it has ended."""
        wait_for(lambda: heir.over() or _holds(here, heir.pid), _TAKES_OVER_WITHIN_S, "somebody takes over")
        until = time.monotonic() + self._rng.choice((self._rng.uniform(0, _MOST_OVERLAP_S), _TAKES_OVER_WITHIN_S))
        wait_for(lambda: heir.over() or time.monotonic() > until, 2 * _TAKES_OVER_WITHIN_S, "it works")


def _late(commits: list[Commit], woken: Attempt, heir: Attempt) -> list[str]:
    """Findings: commits by the one that woke after the first one of the other."""
    took_over = next((at for at, commit in enumerate(commits) if commit.connection in heir.sessions), len(commits))
    late = [commit.of for commit in commits[took_over:] if commit.connection in woken.sessions]
    return [f"it committed after another had taken over: {late}"] if late else []


def _holds(here: Ground, pid: int) -> bool:
    # A purge takes the schema away.
    with suppress(pymysql.err.MySQLError):
        return here.sql("SELECT 1 FROM _rollout.lease WHERE pid = %s", pid) != []
    return False


def _goes_on(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGCONT)
