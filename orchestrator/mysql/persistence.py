"""Trying again, bounded: what the error's cure says, with backoff and jitter, never past what may be repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec import Struct

from orchestrator.errors import ServerUnreachable
from orchestrator.mysql.errno import Cure, ServerError

T = TypeVar("T")
AGAIN = frozenset({Cure.RETRY, Cure.RECONNECT, Cure.WAIT})


class Ask(Protocol):
    """Gives the answer to what may be asked again."""

    def __call__(self, question: Callable[[], T], /) -> T: ...


def once(question: Callable[[], T]) -> T:
    """An Ask that does not try again."""
    return question()


class Backoff(Struct, frozen=True):
    """``jitter`` gives a number in [0, 1). The n-th wait is between half of and the whole of ``first_s * 2**n``."""

    jitter: Callable[[], float]
    first_s: float = 0.05
    most_s: float = 2.0
    tries: int = 10

    def wait_s(self, tried: int) -> float:
        full: float = min(self.most_s, self.first_s * 2**tried)
        return full * (0.5 + 0.5 * self.jitter())


def persist(ask: Callable[[], T], backoff: Backoff, between: Callable[[float, str], None]) -> T:
    """The answer of ``ask``, which only reads. ``between`` waits: it gets the seconds and the reason.

    Raises the last ServerError or ServerUnreachable when the tries are used up, or at once when it cannot be mended so.
    """
    tried = 0
    while True:
        try:
            return ask()
        except ServerError as error:
            if error.cure not in AGAIN or tried + 1 >= backoff.tries:
                raise
            reason = str(error.number)
        except ServerUnreachable as error:
            if tried + 1 >= backoff.tries:
                raise
            reason = error.seen
        between(backoff.wait_s(tried), reason)
        tried += 1
