"""Carries one change of a table's shape to its end: ask what is there, do what is missing, ask again.

What a statement's client heard is never the last word: a statement that was lost, killed or refused as a duplicate may
have taken effect, here or in an earlier life of ours. The shape of the table says so, and only the shape is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.errors import Ambiguous, CannotSay
from orchestrator.model.outcome import Outcome, Result, Seen
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.guard import Exclusive, Guard, ReplicaLook, take_back
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.mysql.told import told
from orchestrator.ports import Beat

# Duplicate column, key, constraint; nothing to drop; trigger exists, trigger does not exist.
_ASK_THE_SHAPE = frozenset({1060, 1061, 1091, 1826, 1359, 1360})
_ROUNDS = 6


class Judged(Struct, frozen=True):
    """What the live table shows of a step. ``work`` is the next statement that it lacks; without one nothing of ours
    can mend it, and ``why`` says so in a sentence."""

    seen: Seen
    work: Exclusive | None = None
    why: str = ""
    next: str = ""


Judge = Callable[[Session], Judged]


class Carrier:
    """Effects of one step, given a judge of the live table. ``refused`` puts a server's refusal into a sentence."""

    def __init__(self, site: Site, replicas: ReplicaLook | None) -> None:
        self._site = site
        self._guard = Guard(site, replicas)

    def apply(self, tag: str, judge: Judge, refused: Callable[[ServerError], Outcome], beat: Beat) -> Outcome:
        """DONE when the live table shows the step, else why not. Raises RolloutError (see ``Guard.run``)."""
        done = Outcome(Result.DONE, "was there already")
        with closing(self._site.connect("look")) as session:
            for _ in range(_ROUNDS):
                judged = self._judged(session, tag, judge, beat)
                if judged.seen is Seen.PRESENT:
                    return done
                if judged.work is None:
                    return Outcome(Result.FAILED, judged.why, "a table that the step fits", judged.next)
                try:
                    outcome = self._guard.run(judged.work, beat)
                except Ambiguous:
                    continue
                except ServerError as error:
                    if error.number in _ASK_THE_SHAPE:
                        continue
                    return refused(error)
                if outcome.result is not Result.DONE:
                    return replace(outcome, figures=_summed(done.figures, outcome.figures))
                done = replace(outcome, figures=_summed(done.figures, outcome.figures))
        return Outcome(Result.UNKNOWN, f"{tag} was done, and the table does not show it", figures=done.figures)

    def observe(self, tag: str, judge: Judge, beat: Beat) -> Seen:
        """What the server shows, after a statement of ours that was still running was taken back."""
        with closing(self._site.connect("look")) as session:
            try:
                judged = self._judged(session, tag, judge, beat)
            except CannotSay:
                return Seen.UNKNOWN
            return judged.seen

    def _judged(self, session: Session, tag: str, judge: Judge, beat: Beat) -> Judged:
        try:
            if not take_back(session, tag, self._site.clock, beat):
                raise CannotSay(
                    f"{tag} still runs on the server",
                    "a statement that ends when it is killed",
                    "look at performance_schema.processlist for it, end it, then the same command again",
                )
            return judge(session)
        except ServerError as error:
            raise told(error, f"while looking for what became of {tag}") from error


def _summed(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Figures of several statements: the longest of what is longest, the sum of the rest."""
    merged = dict(after)
    for name, value in before.items():
        merged[name] = (
            max(value, merged.get(name, 0.0)) if name.startswith("longest") else value + merged.get(name, 0.0)
        )
    return merged
