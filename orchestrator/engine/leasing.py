"""Taking the lease: at once, or with patience for a holder that was just fenced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from orchestrator.engine.parts import Parts
from orchestrator.errors import LeaseTaken
from orchestrator.ports import Lease

FENCED_HOLDER_GOES_S = 20.0
_POLL_S = 0.5


@contextmanager
def leased(parts: Parts, *, patient: bool = False) -> Iterator[Lease]:
    """The lease of the rollout; ``patient``: a holder that was just fenced gets the time to notice. Raises
    LeaseTaken."""
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
        yield lease
