"""Flags that applications read elsewhere than in the flag row: a file of flagd, or a program of the user's own.

The row stays what it is: fenced by the epoch, with a dead man's switch. It says what was *asked for*; the board shows
what applications *see*. Forward the row is written first, so that an actor that was fenced never reaches the board.
Back the board is written first, because readers count, and both are tried whatever one of them answers.

What a row can do and a board cannot: expire by itself. A lost watcher leaves readers where they are (ADR 0003).
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from orchestrator.errors import CannotSay, Held, RolloutError
from orchestrator.model.facts import Facts, FlagFacts, Need, Reading
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.ports import Clock, Flags, KeepGoing

# new_writes, percent of readers.
Shown = tuple[bool, int]
_UNFENCED = "-- nothing takes readers back by itself when this watcher is lost: rollout abort, rollback or next does"


class BoardFailed(Exception):
    """What the board did not do, in a few words; nobody knows what it shows then."""


class Board(Protocol):
    """Where applications look. Raises BoardFailed, and nothing else."""

    @property
    def name(self) -> str:
        """What it is, for a person."""
        ...

    def show(self, epoch: int, shown: Shown) -> str:
        """Afterwards applications see that; what it said, if anything. Writes of an older epoch are refused where that
        can be done, but for lowering."""
        ...

    def seen(self) -> Shown:
        """What applications see; nothing raised when there is no board yet."""
        ...

    def describe(self, shown: Shown) -> str:
        """What is done to have it show that, for a plan."""
        ...

    def by_hand(self, shown: Shown) -> str:
        """What a person types to have it show that."""
        ...

    def clear(self, epoch: int) -> None:
        """Nothing of it is left. One of a later epoch is refused where that can be done."""
        ...


class BoardFlags:
    """Implements ports.Flags over the row and a board. ``lost_s``: for how long the board may be unreadable while it is
    watched before readers go back."""

    def __init__(self, row: Flags, board: Board, clock: Clock, lost_s: float) -> None:
        self._row = row
        self._board = board
        self._clock = clock
        self._lost_s = lost_s
        self._seen_at = clock.monotonic()
        self.said = ""

    def beside(self, new_writes: bool, percent: int) -> tuple[str, ...]:
        what = self._board.describe((new_writes, percent))
        return (what, _UNFENCED) if percent else (what,)

    def read(self) -> FlagFacts:
        return with_board(self._row.read(), self._board)

    def open(self, epoch: int, ttl_s: float | None) -> None:
        self._row.open(epoch, ttl_s)
        self._show(epoch, (True, 0))

    def set_percent(self, epoch: int, percent: int, ttl_s: float | None) -> None:
        self._row.set_percent(epoch, percent, ttl_s)
        self._show(epoch, (True, percent))

    def renew(self, epoch: int, percent: int, ttl_s: float | None) -> bool:
        return self._row.renew(epoch, percent, ttl_s) and self._stands(percent)

    def keep(self, epoch: int, percent: int) -> bool:
        return self._row.keep(epoch, percent) and self._stands(percent)

    def lower(self, epoch: int | None) -> None:
        problem = ""
        try:
            self.said = self._board.show(epoch or 0, (False, 0))
            if (shows := self._board.seen()) != (False, 0):
                problem = f"it shows {_words(shows)} after it was lowered"
        except BoardFailed as failed:
            problem = str(failed)
        self._row.lower(epoch)
        if problem:
            raise CannotSay(
                f"readers may still be on the new column: {self._board.name} was not lowered: {problem}",
                f"{self._board.name} at 0 %, closed for new writes",
                f"lower it by hand now ({self._board.by_hand((False, 0))}), then type the same command again",
            )

    def raise_double_writes(self, epoch: int) -> None:
        """Applications ask the row for it, whatever shows them where to read."""
        self._row.raise_double_writes(epoch)

    def lower_double_writes(self, epoch: int | None) -> None:
        self._row.lower_double_writes(epoch)

    def clear(self, epoch: int) -> None:
        try:
            self._board.clear(epoch)
        except BoardFailed as failed:
            raise Held(
                f"{self._board.name} is still there: {failed}", "nothing of ours is left", "remove it, then purge again"
            ) from failed

    def _show(self, epoch: int, shown: Shown) -> None:
        """Raises Held: nobody knows what is shown, so it must be lowered; whoever called does that."""
        try:
            self.said = self._board.show(epoch, shown)
            shows = self._board.seen()
        except BoardFailed as failed:
            raise self._held(str(failed), shown) from failed
        if shows != shown:
            raise self._held(f"it shows {_words(shows)}", shown)
        self._seen_at = self._clock.monotonic()

    def _held(self, seen: str, wanted: Shown) -> Held:
        return Held(
            f"{self._board.name} was to show {_words(wanted)}: {seen}",
            f"{self._board.name} shows what it was told",
            f"try it by hand ({self._board.by_hand(wanted)}), then type the same command again: it begins at 0 %",
        )

    def _stands(self, percent: int) -> bool:
        """Whether it still shows what we said; one that cannot be read is believed for ``lost_s``."""
        now = self._clock.monotonic()
        try:
            stands = self._board.seen() == (True, percent)
        except BoardFailed:
            return now - self._seen_at <= self._lost_s
        self._seen_at = now
        return stands


class BoardObserver:
    """Implements ports.Observer: what the observer sees of the flag, with what the board (if there is one) shows."""

    def __init__(self, observer: MysqlObserver, board: Board | None) -> None:
        self._observer = observer
        self._board = board

    def close(self) -> None:
        self._observer.close()

    def look(self, needs: frozenset[Need], keep_going: KeepGoing = lambda _: True) -> Facts:
        facts = self._observer.look(needs, keep_going)
        if self._board is None or facts.flag is None or facts.flag.value is None:
            return facts
        try:
            flag = Reading(facts.flag.at, with_board(facts.flag.value, self._board))
        except RolloutError as error:
            flag = Reading[FlagFacts](facts.flag.at, unseen=error.seen)
        return replace(facts, flag=flag)


def with_board(row: FlagFacts, board: Board) -> FlagFacts:
    """Raises Held when the board cannot be read."""
    try:
        return replace(row, shown=board.seen())
    except BoardFailed as failed:
        raise Held(
            f"what {board.name} shows cannot be seen: {failed}", f"{board.name} can be read", "mend it, then try again"
        ) from failed


def _words(shown: Shown) -> str:
    return f"{shown[1]} %, new_writes {'open' if shown[0] else 'closed'}"
