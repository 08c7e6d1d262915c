"""How long one attempt at a cut-over keeps the table's users waiting, and its end when that is too long.

A tool that has its lock may sleep with it, and cannot be asked to give it back. Its session is ended then, and what the
users write from there on is not in the copy: a rename that the tool sends behind our back would lose it. So a fence is
put before the copy first, and it stands until the tool is seen to be back where it waits for our word, or is gone.
"""

from __future__ import annotations

from orchestrator.drivers.ddl.marked import Copying
from orchestrator.model.contract import TableName
from orchestrator.mysql import copied
from orchestrator.mysql.fence import Fence
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site

# Asked for at these shares of the budget, so that the look, the KILL and the wake-up fit into the rest. An attempt that
# has its lock is nearer to its end than one that waits for it.
_ASK_AT = 0.6
_ASK_HOLDER_AT = 0.8
_STANDS_WITHIN_S = 0.05
_LOOK_AGAIN_S = 0.002
_RENAMES_EVERY_S = 0.01


class Stall:
    """Of one attempt, from the moment in which it may begin. ``session`` will be the fence's. Everything raises
    ServerError."""

    def __init__(self, site: Site, copying: Copying, session: Session) -> None:
        self._clock = site.clock
        self._budget_s = site.runbook.limits.stall_budget_s
        self._look = copying.session
        self._table = copying.change.table
        self._fence = Fence(session, TableName(self._table.schema, copying.names.new))
        self._ended_locker = False
        self._clear_at = self._clock.monotonic()
        self.taken_back = False
        self.longest_s = self.longest_pending_s = 0.0

    @property
    def fenced(self) -> bool:
        return self._fence.asked

    def look(self) -> copied.Swapping | None:
        """The tool at the table. To be asked every 10 ms. Where it keeps others waiting for too long, the attempt is
        taken back; one that waits for its lock also where nobody waits behind it, because it would not get it soon."""
        if self._fence.asked:
            # It would wait before the fence, and may have the table already.
            copied.end_rename(self._look, self._table)
        now = self._clock.monotonic()
        swap = copied.swapping(self._look, self._table)
        pending = swap is not None and swap.locker is not None and not swap.holds
        if swap is None or not (pending or swap.waited_for):
            self._clear_at = now
            return swap
        stall_s = now - self._clear_at
        self.longest_s = max(self.longest_s, stall_s)
        if pending:
            self.longest_pending_s = max(self.longest_pending_s, stall_s)
        if stall_s >= self._budget_s * (_ASK_AT if pending else _ASK_HOLDER_AT):
            self._take_back(swap)
        return swap

    def breached(self) -> bool:
        """Whether somebody ended the fence while it is needed."""
        return self._ended_locker and not self._fence.stands(self._look)

    def open(self) -> None:
        """The fence falls, when no rename is in flight any more. The tool must not be able to send one."""
        while copied.end_rename(self._look, self._table):
            self._clock.sleep(_RENAMES_EVERY_S)
        self._fence.fall(self._look)

    def _take_back(self, swap: copied.Swapping) -> None:
        """One step; the next look tells whether it was enough. A tool whose rename is ended gives the table back by
        itself."""
        self.taken_back = True
        if copied.end_rename(self._look, self._table) or swap.locker is None:
            return
        if not swap.holds:
            copied.kill_query(self._look, swap.locker)
        elif self._fence_stands():
            # Whatever rename came meanwhile waits now, and would take the table when its lock is gone.
            copied.end_rename(self._look, self._table)
            copied.kill_session(self._look, swap.locker)
            self._ended_locker = True

    def _fence_stands(self) -> bool:
        """A fence that is waited for longer stands behind a rename at work, which must be looked at instead."""
        self._fence.rise()
        until = self._clock.monotonic() + _STANDS_WITHIN_S
        while not (stands := self._fence.stands(self._look)) and self._clock.monotonic() < until:
            self._clock.sleep(_LOOK_AGAIN_S)
        return stands
