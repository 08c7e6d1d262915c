"""The heavy weight of the suite: the installed command, struck from outside while two applications write.

A storm is one rollout: forward, all the way back, and forward again. Whoever is struck, the same command is typed again
until it is through; at the end the ledger says whether an acknowledged write is missing, on the primary and on the
replica.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

from orchestrator.errors import Exit
from orchestrator.model.runbook import RollbackDdl
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.traffic import Traffic
from tests.crash.suite.oracles import after_a_death, at_the_end
from tests.crash.suite.tally import Tally
from tests.support.command import Ground, ground
from tests.support.ghost import real
from tests.support.state import settings_of

_RUNBOOKS = ("orders", "documents", "aijob", *(("readings",) if real() else ()))
_WRITE_PACE = 40.0
_ROWS = 300
_MOST_STRIKES = 4
_MOST_TRIES = 25
_LONGEST_S = 150.0
_VICTIMS = ("tool", "primary", "replica", "frozen tool")
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
            forward, back = ("run", "-y"), ("rollback", "-y")
            if not self._insisted(here, "forward", forward):
                return
            if not self._insisted(here, "back", back, self._losses(here)):
                return
            traffic.ledger.old_is_truth(dropped=here.runbook.phases.rollback_ddl is RollbackDdl.DROP)
            if not self._insisted(here, "forward again", forward):
                return
            traffic.stop()
            self._judge("end", self._lost(here, traffic))
            told = here.terminal.run("verify", "--json", expect=None)
            if told.code != Exit.DONE:
                self._judge("end", [f"verify ended with {told.code}: {told.out} {told.err}"])
            self._judge("end", [f for f in at_the_end(here, None) if not f.startswith("a trigger is left")])

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
        for _ in range(_MOST_TRIES):
            victim = self._rng.choice(self._victims()) if strikes < _MOST_STRIKES else ""
            code, said, struck = self._tried(here, (*command, *losses), victim, self._rng.uniform(0.3, 7.0))
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

    def _victims(self) -> tuple[str, ...]:
        return (*_VICTIMS, *(("gh-ost",) if self._name == "readings" else ()))

    def _tried(self, here: Ground, command: Sequence[str], victim: str, after_s: float) -> tuple[int, str, bool]:
        """Exit code (negative: the signal that ended it), what it said, and whether the blow met it alive."""
        process = here.terminal.start(*command)
        try:
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
                return _killed_child(pid)
            case _:
                server = self._pair.primary if victim == "primary" else self._pair.replica
                _crashed(server, self._rng.uniform(0.0, 1.5))
        return True

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


def _killed_child(pid: int) -> bool:
    """Kill gh-ost, if the command runs one now."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            if name == "gh-ost" and int(rest.split()[1]) == pid:
                os.kill(int(stat.parent.name), signal.SIGKILL)
                return True
    return False
