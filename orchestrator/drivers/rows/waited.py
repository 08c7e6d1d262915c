"""The rows that a sweep had to leave because somebody held them, waited for one by one (docs/adr/0013)."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.drivers.rows.passes import FillPass
from orchestrator.model.facts import Position
from orchestrator.model.keys import Key
from orchestrator.ports import Clock

_BETWEEN_ROUNDS_S = 0.1


class Met(Struct, frozen=True):
    """Rows that were met, rows of these that were written, keys that stay locked."""

    rows: int
    written: int
    left: tuple[Key, ...]

    def after(self, position: Position, remembers_all: bool) -> Position:
        """The pass as it stands now. A row that it left and that is right by now is in none of the lists."""
        unmet = 0 if remembers_all else max(0, position.rows_skipped - self.rows - len(self.left))
        changed = position.rows_changed + self.written
        return replace(position, rows_changed=changed, rows_skipped=len(self.left) + unmet)


def before(clock: Clock, until: float) -> bool:
    """Whether it is not yet ``until`` by the monotonic clock."""
    return clock.monotonic() < until


def wait_for_rows(run: FillPass, goes_on: Callable[[], bool]) -> Met:
    """Wait for the rows that a pass had to leave, round after round, as long as ``goes_on``. Raises Halt, Fenced.

    So a row that is locked at every moment at which a pass comes by does not cost whole passes.
    """
    left, met, written = run.skipped, 0, 0
    while left and goes_on():
        later = []
        for key in left:
            changed = run.wait_for_row(key) if goes_on() else None
            if changed is None:
                later.append(key)
            else:
                met, written = met + 1, written + changed
        if len(later) == len(left):
            run.pause(_BETWEEN_ROUNDS_S, f"locked-rows {len(later)} rows")
        left = tuple(later)
    return Met(met, written, left)
