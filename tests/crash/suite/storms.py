"""The heavy weight of the suite: the installed command, struck from outside while two applications write.

A storm is one rollout: forward, all the way back, forward again, to its finish and its purge. Whoever is struck, the
same command is typed again until it is through; before the finish the ledger says whether an acknowledged write is
missing, on the primary and on the replica.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import Random

import pymysql

from orchestrator.errors import Exit
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import FORWARD, Record
from orchestrator.mysql.clock import SystemClock
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.traffic import Traffic
from orchestrator.store.mysql import MysqlStore
from tests.crash.suite.moves import Move, typed
from tests.crash.suite.oracles import after_a_death, at_the_end, left_behind, nothing_is_kept, tells_what_came
from tests.crash.suite.tally import Tally
from tests.support.command import Ground, ground
from tests.support.ghost import real
from tests.support.servers import sql
from tests.support.state import settings_of

# gh-ost works in one stage of one runbook, so that one is more often walked than the others.
_RUNBOOKS = (*(("readings", "orders", "readings") if real() else ("orders",)), "documents", "aijob")
_WRITE_PACE = 40.0
_ROWS = 300
_MOST_STRIKES = 4
_MOST_TRIES = 25
_LONGEST_S = 150.0
_VICTIMS = ("tool", "primary", "replica", "frozen tool", "connection")
# A blow comes after so many seconds at most; the last two commands take few.
_LATEST_S = {"finish": 2.5, "purge": 2.5}
_COPIES_WITHIN_S = 30.0
_SESSIONS_OF = (
    "SELECT PROCESSLIST_ID FROM performance_schema.session_connect_attrs"
    " WHERE ATTR_NAME = 'program_name' AND ATTR_VALUE LIKE %s"
)
# What a command may say when something was taken from under it: typed again, it must come through all the same.
_MAY_END = {Exit.DONE, Exit.UNREACHABLE, Exit.HELD, Exit.PHASE_FAILED, Exit.CANNOT_SAY}


class Storm:
    """One seeded rollout under traffic."""

    def __init__(self, pair: Pair, seed: int, tally: Tally) -> None:
        self._pair = pair
        self._seed = seed
        self._rng = Random(f"storm {seed}")
        self._tally = tally
        self._name = _RUNBOOKS[seed % len(_RUNBOOKS)]

    def blow(self) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="rollout-storm-") as folder,
            ground(self._pair, self._name, Path(folder), rows=_ROWS, seed=self._seed, wait_s=0.5) as here,
            self._traffic(here) as traffic,
        ):
            self._tally.lives += 1
            told = tuple[str, ...]()
            forward, back = ("run", "-y"), ("rollback", "-y")
            if not self._insisted(here, "forward", forward):
                return
            told = self._told(here, told, _ways(FORWARD))
            if not self._insisted(here, "back", back, self._losses(here)):
                return
            told = self._told(here, told, (Move("rollback"),))
            self._judge("back", left_behind(here))
            drops = here.runbook.phases.rollback_ddl is RollbackDdl.DROP
            traffic.ledger.old_is_truth(dropped=drops)
            if not self._insisted(here, "forward again", forward):
                return
            told = self._told(here, told, _ways(FORWARD if drops else FORWARD[1:]))
            traffic.stop()
            self._judge("end", self._lost(here, traffic))
            verified = here.terminal.run("verify", "--json", expect=None)
            if verified.code != Exit.DONE:
                self._judge("end", [f"verify ended with {verified.code}: {verified.out} {verified.err}"])
            if not self._insisted(here, "finish", ("finish", "-y", "--old-application-gone", "--flag-retired")):
                return
            self._told(here, told, (Move("finish"),))
            self._judge("finish", at_the_end(here, self._record(here)))
            if self._insisted(here, "purge", ("purge", "-y")):
                self._judge("purge", at_the_end(here, None) + nothing_is_kept(here))

    def _told(self, here: Ground, before: tuple[str, ...], came: Sequence[Move]) -> tuple[str, ...]:
        """What the history must tell now, and a finding when it does not."""
        told = typed(before, came)
        self._judge(came[-1].name, tells_what_came(here, self._record(here), told))
        return told

    def _record(self, here: Ground) -> Record | None:
        with closing(MysqlStore(settings_of(here.pair.primary), SystemClock())) as store:
            return store.load(here.runbook.id)

    @contextmanager
    def _traffic(self, here: Ground) -> Iterator[Traffic]:
        traffic = Traffic(settings_of(self._pair.primary), here.runbook, here.shape, seed=self._seed, pace=_WRITE_PACE)
        try:
            traffic.start_old()
            traffic.start_new()
            yield traffic
        finally:
            traffic.stop()

    def _insisted(self, here: Ground, doing: str, command: Sequence[str], losses: Sequence[str] = ()) -> bool:
        """Type it until it is through, striking on the way. False: it never was, and that is a finding."""
        strikes = 0
        for tries in range(_MOST_TRIES):
            # What is drawn for it hangs on the seed alone, and not on how the tries before it went.
            self._rng = Random(f"storm {self._seed} {doing} {tries}")
            victim = self._victim(here, doing) if strikes < _MOST_STRIKES else ""
            after_s = self._rng.uniform(0.3, _LATEST_S.get(doing, 7.0))
            code, said, struck = self._tried(here, (*command, *losses), victim, after_s)
            self._tally.tries += 1
            if struck:
                strikes += 1
                self._tally.deaths[(doing, victim)] += 1
            found = after_a_death(here, None)
            if code >= 0 and code not in _MAY_END:
                found.append(f"it ended with {code}: {said}")
            self._judge(f"{doing}, {victim or 'nobody'} struck", found)
            if code == Exit.DONE:
                return True
            if losses:
                losses = self._losses(here)
        self._judge(doing, [f"it was not through after {_MOST_TRIES} tries; the last said: {said}"])
        return False

    def _victim(self, here: Ground, doing: str) -> str:
        """Three times in four gh-ost, while the stage in which it works is not done."""
        victim, copies = self._rng.choice(_VICTIMS), self._rng.random() < 0.75
        if not (copies and self._name == "readings" and doing == "forward"):
            return victim
        record = self._record(here)
        return victim if record is not None and FORWARD[0] in record.done else "gh-ost"

    def _tried(self, here: Ground, command: Sequence[str], victim: str, after_s: float) -> tuple[int, str, bool]:
        """Exit code (negative: the signal that ended it), what it said, and whether the blow met it alive."""
        process = here.terminal.start(*command)
        try:
            if victim == "gh-ost":
                _copies(process, within_s=_COPIES_WITHIN_S)
                after_s /= 3
            with suppress(subprocess.TimeoutExpired):
                process.wait(after_s if victim else _LONGEST_S)
            struck = bool(victim) and process.poll() is None and self._strike(process.pid, victim)
            out, err = process.communicate(timeout=_LONGEST_S)
            return process.returncode, f"{out[-600:]} {err[-600:]}", struck
        except subprocess.TimeoutExpired:
            return int(Exit.BUG), f"it did not end within {_LONGEST_S:.0f} s", False
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def _strike(self, pid: int, victim: str) -> bool:
        match victim:
            case "tool":
                os.kill(pid, signal.SIGKILL)
            case "frozen tool":
                os.kill(pid, signal.SIGSTOP)
                time.sleep(self._rng.uniform(0.5, 6.0))
                os.kill(pid, signal.SIGCONT)
            case "gh-ost":
                child = _gh_ost_of(pid)
                if child is None:
                    return False
                os.kill(child, signal.SIGKILL)
            case "connection":
                return self._killed_session(pid)
            case _:
                server = self._pair.primary if victim == "primary" else self._pair.replica
                _crashed(server, self._rng.uniform(0.0, 1.5))
        return True

    def _killed_session(self, pid: int) -> bool:
        """The server ends one of its sessions, whatever that one does."""
        found = sql(self._pair.primary, _SESSIONS_OF, (f"rollout % {pid}@%",))
        with suppress(pymysql.err.OperationalError):  # it may be gone by itself
            if found:
                sql(self._pair.primary, f"KILL {self._rng.choice(found)[0]}")
                return True
        return False

    def _losses(self, here: Ground) -> list[str]:
        """What going back would lose now, with room for what is written meanwhile."""
        told = here.terminal.run("status", "--meter", "--json", expect=None)
        if told.code != Exit.DONE or not told.json["meter"]:
            return []
        return [f"--accept-loss={c['class']}={c['rows'] + 500}" for c in told.json["meter"]["classes"]]

    def _lost(self, here: Ground, traffic: Traffic) -> list[str]:
        found = [f"the ledger and the {difference}" for difference in here.lost(traffic)]
        broken = [text for text in traffic.stats().error_texts if "the traffic itself failed" in text]
        return found[:5] + broken

    def _judge(self, doing: str, found: Sequence[str]) -> None:
        self._tally.findings += [f"storm {self._seed}, {self._name}, {doing}: {finding}" for finding in found]


def _crashed(server: Server, down_s: float) -> None:
    """SIGKILL, and the server comes back after a while."""
    server.kill9()
    time.sleep(down_s)
    server.start()
    server.wait_ready()


def _copies(process: subprocess.Popen[str], *, within_s: float) -> None:
    """Until it runs gh-ost, or has ended."""
    until = time.monotonic() + within_s
    while process.poll() is None and _gh_ost_of(process.pid) is None and time.monotonic() < until:
        time.sleep(0.02)


def _gh_ost_of(pid: int) -> int | None:
    """The gh-ost that the command runs now."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            if name == "gh-ost" and int(rest.split()[1]) == pid:
                return int(stat.parent.name)
    return None


def _ways(stages: Sequence[str]) -> tuple[Move, ...]:
    return tuple(Move("next", stage) for stage in stages)
