"""One command in a process of its own, forked from this one so that it begins in a moment, and how it ended."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass

from orchestrator.app.wiring import App, Surroundings, build
from orchestrator.engine import commands
from orchestrator.engine.walk import Paused
from orchestrator.errors import Exit, RolloutError
from orchestrator.model.runbook import Runbook
from orchestrator.settings import ServerSettings
from orchestrator.store import place
from orchestrator.store.place import LeaseTimes
from tests.crash.suite.mortal import DIED, Blow, Moment
from tests.support.servers import wait_for
from tests.support.within import Silent

Verb = Callable[[App], str]
_LONGEST_S = 100.0
_MOST_SAID, _MOST_STRUCK = 8_000, 1_000


@dataclass(frozen=True)
class Attempt:
    """``code``: the exit code of the command, DIED when the blow ended it. ``statements``: how many each sender sent,
    and ``sessions``: by which connections; ``struck``: the statement at the moment, "" when the command was over before
    it."""

    code: int
    said: str
    statements: Mapping[str, int]
    struck: str
    sessions: Collection[int] = ()

    @property
    def died(self) -> bool:
        return self.code == DIED


class Child:
    """A command on its way. The parent must hold no thread and no session when it starts one. ``times``: of its
    lease, when they are not the product's."""

    def __init__(
        self,
        runbook: Runbook,
        settings: ServerSettings,
        verb: Verb,
        moment: Moment | None = None,
        times: LeaseTimes | None = None,
    ) -> None:
        self._status: int | None = None
        # Where it stands, when it does not end.
        self._stacks = os.fdopen(os.memfd_create("stacks"), "w+")
        self._reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reading)
            faulthandler.register(signal.SIGUSR1, self._stacks)
            try:
                _child(runbook, settings, verb, moment, writing, times)
            finally:
                os._exit(Exit.BUG)
        os.close(writing)

    def stopped(self, process: int) -> bool:
        """Wait until ``process``, it or its wire, stands still (True) or the command has ended (False)."""

        def asked() -> tuple[int, int] | None:
            for one in {process, self.pid}:
                gone, status = os.waitpid(one, os.WNOHANG | os.WUNTRACED)
                if gone:
                    return gone, status
            return None

        _, status = self._within(asked)
        if os.WIFSTOPPED(status):
            return True
        self._status = status
        return False

    def ended(self) -> Attempt:
        """Wait until it has ended."""
        code = os.waitstatus_to_exitcode(self._waited() if self._status is None else self._status)
        with os.fdopen(self._reading, encoding="utf-8") as pipe:
            told = pipe.read()
        return Attempt(**json.loads(told)) if told else Attempt(code, "it said nothing", {}, "")

    def over(self) -> bool:
        """Whether it has ended by now."""
        if self._status is None:
            gone, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if gone else None
        return self._status is not None

    def _waited(self) -> int:
        def asked() -> tuple[int, int] | None:
            gone, status = os.waitpid(self.pid, os.WNOHANG)
            return (gone, status) if gone else None

        return self._within(asked)[1]

    def _within(self, asked: Callable[[], tuple[int, int] | None]) -> tuple[int, int]:
        try:
            return wait_for(asked, _LONGEST_S, "the command ends")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._ended_by_force()}") from None

    def _ended_by_force(self) -> str:
        os.kill(self.pid, signal.SIGUSR1)
        with suppress(AssertionError):
            wait_for(lambda: os.fstat(self._stacks.fileno()).st_size > 0, 5, "it says where it stands")
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._stacks.seek(0)
        return self._stacks.read()


def attempt(runbook: Runbook, settings: ServerSettings, verb: Verb, moment: Moment | None) -> Attempt:
    """Run ``verb`` in a child that is struck at ``moment``, to its end."""
    return Child(runbook, settings, verb, moment).ended()


def _child(
    runbook: Runbook,
    settings: ServerSettings,
    verb: Verb,
    moment: Moment | None,
    writing: int,
    times: LeaseTimes | None,
) -> None:
    once = threading.Lock()

    def tell(code: int, said: str) -> None:
        once.acquire()  # and kept: one account of one end
        # A pipe that nobody reads before the end holds 64 KiB, and a record that is saved may be longer.
        statements = {sender.value: number for sender, number in blow.statements.items()}
        told = Attempt(code, said[-_MOST_SAID:], statements, blow.struck[:_MOST_STRUCK], [*blow.sessions])
        words = asdict(told)
        os.write(writing, json.dumps(words).encode())

    blow = Blow(moment, lambda statement: tell(DIED, statement))
    if times is not None:
        place.LeaseTimes = lambda: times  # type: ignore[assignment,misc]  # the store asks for them here
        commands.FENCED_HOLDER_GOES_S = times.dead_s  # type: ignore[attr-defined]  # and an abort here
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    try:
        app = build(runbook, settings, Surroundings(Silent()))
        code, said = Exit.DONE, verb(app)
        app.close()
    except Paused as paused:
        code, said = Exit.DONE, paused.note
    except RolloutError as error:
        code, said = error.exit_code, f"{error.seen} | expected: {error.expected} | next: {error.next}"
    except BaseException:
        code, said = Exit.BUG, traceback.format_exc()
    tell(int(code), said)
    os._exit(int(code))
