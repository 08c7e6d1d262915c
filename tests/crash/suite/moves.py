"""What is typed in a rollout of the suite, how much each of it says to the server, and what its history tells of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.app.wiring import App
from orchestrator.engine.walk import Ended
from orchestrator.model.state import FINISH, GOES_BACK, ROLLBACK, Event, EventKind
from tests.crash.suite.attempt import Verb
from tests.crash.suite.mortal import Sender

# The most statements that a command of the light weight was seen to send: by the thread that walks, and by those beside
# it. Fixed, so that the moments of a life hang on its seed alone; a command that sends more is not struck in what comes
# behind. More is known of some runbooks, and of the flag as a mirror, which is not tried on scratch copies.
_MOST = {
    "ddl": (440, 80),
    "ddl aijob": (1_200, 250),
    "backfill": (165, 25),
    "shadow-write": (1_000, 110),
    "shadow-write flag": (320, 50),
    "shadow-write aijob": (1_800, 200),
    "read-switch": (235, 110),
    "read-switch aijob": (325, 150),
    "verify": (235, 70),
    "rollback": (350, 90),
    "finish": (230, 60),
    "purge": (40, 14),
}


@dataclass(frozen=True)
class Move:
    """``kind`` is next, rollback, finish, purge or abort; ``stage`` what next does ("": what is next) or
    rollback keeps."""

    kind: str
    stage: str = ""

    @property
    def name(self) -> str:
        return self.stage if self.kind == "next" else self.kind

    @property
    def all_the_way(self) -> bool:
        return self.kind == "rollback" and not self.stage

    def most(self, sender: Sender, runbook: str, shadow: str) -> int:
        """How many statements of it may be struck."""
        known = (_MOST.get(f"{self.name} {of}") for of in (shadow, runbook))
        walk, beside = next((most for most in known if most), _MOST[self.name])
        return walk if sender is Sender.WALK else beside

    def said(self, app: App) -> Ended | str:
        match self.kind:
            case "next":
                return app.commands.next(self.stage or None)
            case "rollback":
                return app.commands.rollback(self.stage, ())
            case "finish":
                return app.commands.finish(True, ())
            case "abort":
                return app.commands.abort("the suite")
            case _:
                return app.commands.purge()


def verb(moves: Sequence[Move]) -> Verb:
    """All of them, one after the other."""

    def said(app: App) -> str:
        ends = [move.said(app) for move in moves]
        return "; ".join(end if isinstance(end, str) else end.note for end in ends)

    return said


def typed(before: Sequence[str], moves: Iterable[Move], phase: str = "") -> tuple[str, ...]:
    """What a history must tell when these came through after ``before``; ``phase``: of the record that was aborted."""
    told = list(before)
    for move in moves:
        match move.kind:
            case "purge":
                told.clear()
            case "abort":
                if phase in GOES_BACK:
                    _went_back(told)
            case _:
                _append(told, move.name)
    return tuple(told)


def tells(history: Iterable[Event]) -> tuple[str, ...]:
    """The stages that were done, the rollbacks and the end, in order; what a failed gate or an abort took back is not
    among them, and what was done twice in a row is there once."""
    told = list[str]()
    for event in history:
        match event.kind:
            case EventKind.PHASE_DONE:
                _append(told, event.phase)
            case EventKind.ROLLED_BACK:
                _append(told, ROLLBACK)
            case EventKind.FINISHED:
                _append(told, FINISH)
            case EventKind.WENT_BACK:
                _went_back(told)
            case EventKind.ABORTED if event.phase in GOES_BACK:
                _went_back(told)
    return tuple(told)


def ends(move: Move) -> EventKind:
    """The event that says that it is through."""
    return {"next": EventKind.PHASE_DONE, "rollback": EventKind.ROLLED_BACK}.get(move.kind, EventKind.FINISHED)


def _append(told: list[str], name: str) -> None:
    if told[-1:] != [name]:
        told.append(name)


def _went_back(told: list[str]) -> None:
    while told and told[-1] in GOES_BACK:
        told.pop()
