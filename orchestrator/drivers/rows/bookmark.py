"""How far a clean comparison has come, so that the next command goes on from there and does not begin anew.

Kept only while nothing was found to be wrong (what is wrong must be named again), and believed only by the very next
holder of the lease: whoever else acted in between may have changed rows that were compared. So its row carries the
epoch of the holder that kept it, which taking the lease does not raise; and whoever fills rows takes it away.
"""

from __future__ import annotations

from orchestrator.model.keys import Key, decode_key
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import positions
from orchestrator.mysql.sql.positions import PassName
from orchestrator.ports import Clock

_KEEP_EVERY_S = 1.0


class Bookmark:
    """The position row of one comparison. ``epoch`` 0: nobody holds a lease, and nothing is read or kept."""

    def __init__(self, session: Session, of: PassName, epoch: int, clock: Clock) -> None:
        self._session = session
        self._of = of
        self._epoch = epoch
        self._clock = clock
        self._kept_at = clock.monotonic()

    def found(self) -> tuple[Key, int] | None:
        """(the key up to which all rows held, their number) as the last holder left it, or None. Raises ServerError."""
        row = self._session.one(positions.read(self._of)) if self._epoch else None
        if row is None:
            return None
        left = positions.position_of(row)
        if left.position is None or left.epoch != self._epoch - 1:
            return None
        try:
            return decode_key(left.position), left.rows_done
        except ValueError:  # what nobody can read proves nothing: all rows are compared
            return None

    def keep(self, at: Key | None, rows: int, *, now: bool = False) -> None:
        """Keep it, at most once a second unless ``now``. Fenced: a holder that was taken over keeps nothing."""
        due = now or self._clock.monotonic() - self._kept_at >= _KEEP_EVERY_S
        if not self._epoch or at is None or not due:
            return
        self._kept_at = self._clock.monotonic()
        self._session.packet(positions.alone(positions.keep(self._of, self._epoch, at, rows)))

    def forget(self) -> None:
        if self._epoch:
            self._session.packet(positions.alone(positions.forget(self._of)))
