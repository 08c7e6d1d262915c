"""Taking the lease: at once, or with patience for a holder that was just fenced; and what was asked of it is over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from orchestrator.engine.parts import Parts
from orchestrator.errors import Held, LeaseTaken, ServerUnreachable
from orchestrator.ports import Lease

FENCED_HOLDER_GOES_S = 20.0
_POLL_S = 0.5


@contextmanager
def leased(parts: Parts, *, patient: bool = False) -> Iterator[Lease]:
    """The lease of the rollout; ``patient``: a holder that was just fenced gets the time to notice. Raises LeaseTaken;
    and Fenced, where something was not to be seen or reached and the lease was lost."""
    with ExitStack() as stack:
        deadline = parts.clock.monotonic() + FENCED_HOLDER_GOES_S
        while True:
            try:
                lease = stack.enter_context(parts.store.lease(parts.runbook.id, parts.who, parts.reason))
                break
            except LeaseTaken:
                if not patient or parts.clock.monotonic() > deadline:
                    raise
                parts.clock.sleep(_POLL_S)
        try:
            yield lease
        except (Held, ServerUnreachable):
            # What cannot be seen or reached may hang on sessions that somebody ended because he took us for dead: then
            # that is what must be said.
            lease.confirm()
            raise


@contextmanager
def begun(parts: Parts, *, patient: bool = False, goes_on: bool = False) -> Iterator[Lease]:
    """``leased``, for a command that begins: what was asked of one before it, and was never answered, is not asked of
    this one. ``goes_on``: it began with a stage before, so what was asked then is asked of it."""
    old = None if goes_on else parts.store.asked(parts.runbook.id)
    with leased(parts, patient=patient) as lease:
        if old is not None:
            parts.store.answered(parts.runbook.id, old)
        yield lease
