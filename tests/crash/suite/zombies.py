"""A command that stood still while somebody else did its work wakes up: it commits nothing, and says so.

What it may do is judged by the server: not one transaction more is in ``gtid_executed`` after it has ended.
"""

from __future__ import annotations

from orchestrator.errors import Exit
from orchestrator.store.place import LeaseTimes
from tests.crash.suite.attempt import Child
from tests.crash.suite.lives import Life, Move
from tests.crash.suite.mortal import Edge, Moment, Victim
from tests.crash.suite.oracles import after_a_death
from tests.support.command import Ground
from tests.support.state import settings_of

# The product's own, thirty times as fast, so that a race takes seconds; what a living command may be silent for is not
# shortened, because the machine of a test may be slow.
_SLEEPER = LeaseTimes(heartbeat_s=0.05, renew_s=0.1, silence_s=1.0, dead_s=1.5, idle_s=1)
_HEIR = LeaseTimes(heartbeat_s=0.05, renew_s=0.1, dead_s=1.5)
_MAY_SAY = (Exit.HELD, Exit.CANNOT_SAY)


class Race(Life):
    """A life in which each command falls asleep at a seeded moment, and another does the work meanwhile."""

    MOST_DEATHS = 0

    def _moved(self, here: Ground, move: Move, untouched: str) -> bool:
        settings = settings_of(here.pair.primary)
        moment = Moment(Victim.SLEEPER, self._rng.choice(tuple(Edge)), self._moment(move).statement)
        sleeper = Child(here.runbook, settings, move.verb(), moment, _SLEEPER)
        self._tally.tries += 1
        if not sleeper.asleep():
            sleeper.ended()
            return super()._moved(here, move, untouched)
        if not self._holds(here, sleeper.pid):
            # It has not begun, or it is through: whoever wakes then is a second operator, and no zombie.
            sleeper.wake()
            sleeper.ended()
            return super()._moved(here, move, untouched)
        heir = Child(here.runbook, settings, move.verb(), None, _HEIR).ended()
        if heir.code != Exit.DONE:
            self._judge(move, [f"who came after it ended with {heir.code}: {heir.said}"], moment, heir)
            sleeper.wake()
            sleeper.ended()
            return False
        self._tally.deaths[(move.name, f"asleep {moment.edge.value}")] += 1
        before = here.sql("SELECT @@gtid_executed")[0][0]
        sleeper.wake()
        woken = sleeper.ended()
        ((more,),) = here.sql("SELECT GTID_SUBTRACT(@@gtid_executed, %s)", before)
        found = [f"it committed {more} after it was taken for dead"] if more else []
        if woken.code not in (*_MAY_SAY, Exit.DONE):
            found.append(f"it woke and ended with {woken.code}: {woken.said}")
        self._judge(move, found + after_a_death(here, untouched), moment, woken)
        return True

    def _holds(self, here: Ground, pid: int) -> bool:
        return here.events() > 0 and here.sql("SELECT 1 FROM _rollout.lease WHERE pid = %s", pid) != []
