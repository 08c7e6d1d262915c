"""The moment in which a tool's attempt at its cut-over may begin: when it is awake and has little to take up.

Whatever was written into the table before its lock must be taken up while everybody waits, and a tool that has taken up
everything sleeps for a second. So it is stopped by a brake on the copy, at the next row that it takes up, and kept
there until it has its lock. A table into which nobody writes never brings it to the brake; there its sleep is watched.
"""

from __future__ import annotations

from orchestrator.drivers.ddl.marked import Copying
from orchestrator.model.contract import TableName
from orchestrator.mysql import copied
from orchestrator.mysql.session import Session
from orchestrator.mysql.stand_in import Brake
from orchestrator.ports import Clock, CopyRun

FAR_S = 6.0
# A table that is written without a pause leaves it no less than it has after so many of its transactions.
_MOST_LET_THROUGH = 20
_ASLEEP_S = 0.05
_COMES_WITHIN_S = 1.2
# It gives up what waits for longer than two seconds.
_BRAKED_S = 1.0
# How long is looked for when the tool wakes; one that does not sleep is not waited for.
_SEEN_WITHIN_S = 2.5
# The attempt begins so long before the tool wakes that its lock, and its own mark in the binary log, are there by then:
# as long as its lock took the last time (the first time: as we need for a small table of our own), and a rest.
_REST_S = 0.06
_GREATEST_LEAD_S = 0.4


class Moment:
    """Of one attempt. ``session`` is the brake's; ``locks_in_s``: how long the tool will need for its lock. Everything
    raises ServerError."""

    def __init__(self, clock: Clock, run: CopyRun, copying: Copying, session: Session, locks_in_s: float) -> None:
        self._clock = clock
        self._run = run
        self._look = copying.session
        self._log = TableName(copying.change.table.schema, copying.names.log)
        self._brake = Brake(session, TableName(copying.change.table.schema, copying.names.new))
        self._lead_s = min(locks_in_s + _REST_S, _GREATEST_LEAD_S)
        self._mark = copied.lock_mark(self._look, self._log)
        self._came = False
        self._let_through, self._let_through_at = 0, 0.0
        self._all: int | None = None

    def left_s(self, stands_s: float) -> float:
        """How long it is until then, while the tool stands before the stand-in, and has stood for ``stands_s``. 0: now.
        To be asked every 10 ms."""
        if self._braked():
            return 0.0
        # It writes a line into its log whenever it is asked, so that is not done while it may still come.
        if self._came or stands_s < _COMES_WITHIN_S:
            return FAR_S
        wakes_at, now = self._run.takes_up(self._clock.monotonic() + self._lead_s), self._clock.monotonic()
        return wakes_at - self._lead_s - now if wakes_at is not None else _SEEN_WITHIN_S - stands_s

    def release(self, swap: copied.Swapping | None, since_s: float) -> None:
        """Let the brake go when all that the tool waits for, its own mark too, has come to where it stands; or when it
        stood there for long. ``since_s``: since the attempt began."""
        if not self._brake.pressed:
            return
        locked = swap is not None and swap.holds
        if since_s > _BRAKED_S or (locked and copied.lock_mark(self._look, self._log) != self._mark):
            self.let_go()

    def let_go(self) -> None:
        self._brake.let_go()

    def _braked(self) -> bool:
        """Whether the tool stands before the brake, and has little to take up. What came while it slept is let through,
        one transaction after the other; how many they are until it sleeps again is counted the first time."""
        self._brake.press()
        now = self._clock.monotonic()
        if self._brake.stands_before(self._look) is None:
            if self._let_through and now - self._let_through_at > _ASLEEP_S:
                self._all, self._let_through = self._let_through, 0
            return False
        self._came = True
        if self._let_through >= (_MOST_LET_THROUGH if self._all is None else self._all - 1):
            return True
        self._brake.let_go()
        self._brake.press()
        self._let_through, self._let_through_at = self._let_through + 1, self._clock.monotonic()
        return False
