"""What runs of a copying tool leave: on the server, and in files here. Told apart, ended, dropped or kept."""

from __future__ import annotations

from orchestrator.drivers.rows.listening import Listening
from orchestrator.model.copying import CopyChange
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Signal, SignalKind
from orchestrator.mysql import copied
from orchestrator.mysql.copied import Kind, Left
from orchestrator.mysql.errno import LOCK_WAIT_TIMEOUT, ServerError
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.ports import Beat, CopyTool

_SETTLES_WITHIN_S = 10.0
_KILL_AFTER_S = 2.0
_DROP_TRIES = 20
_SHRINK_ROWS = 2_000
_SMALL_BYTES = 256 * 1024 * 1024
_BETWEEN_S = 0.02
# The log goes last: it carries the mark by which the others are known to be ours.
_ORDER = (Kind.NEW, Kind.SENTRY, Kind.CHECKPOINTS, Kind.LOG)


class Leftovers:
    """For one table. ``change`` says where and for which rollout; its clauses do not matter here. Whatever takes long
    beats; only the emptying of an old table takes heed of the answer. ``taken_over``: what ``judge`` found of a run of
    ours that died, for a person; "" when nothing."""

    def __init__(self, site: Site, tool: CopyTool, session: Session, change: CopyChange, beat: Beat) -> None:
        self._site = site
        self._tool = tool
        self._session = session
        self._change = change
        self._beat = beat
        self._names = tool.tables(change.table)
        self.taken_over = ""

    def settle(self) -> bool:
        """Nothing of ours runs on this machine afterwards, and the server runs no statement for it: a swap that was
        under way has ended, so or so. False when one does not end."""
        self._tool.settle(self._change)
        clock = self._site.clock
        start = clock.monotonic()
        while self._running(kill=clock.monotonic() - start > _KILL_AFTER_S):
            if clock.monotonic() - start > _SETTLES_WITHIN_S:
                return False
            self._beat(Progress(unit="", note="waits until the statements of the copy have left the server"))
            clock.sleep(0.05)
        return True

    def ours(self) -> bool:
        """Whether any table is there that a run of this rollout made."""
        left = self._left()
        return bool(left) and self._known(left) and any(x.kind is not Kind.OLD for x in left)

    def swapped(self) -> bool:
        """Whether the old table is there and no copy any more."""
        return copied.swapped(self._left())

    def mark(self) -> str:
        """By what the run that left these tables is known; "" when none of them says it."""
        return next((x.mark for x in self._left() if x.mark), "")

    def judge(self, mark: str, *, may_resume: bool) -> bool | Outcome:
        """Whether to go on from a checkpoint (True) or anew (False, with nothing of ours in the way); or why nothing
        may begin. Raises ServerError."""
        if not self.settle():
            return self._held("a statement of an earlier run does not end on the server")
        if runner := copied.read_runner(self._session, self._tool.run_lock(self._change.table)):
            return self._held(f"{self._tool.name} runs on {self._change.table} already: {runner}")
        left = self._left()
        here = self._tool.began(self._change)
        self.taken_over = ", ".join([*([here] if here else []), *(str(x.table) for x in left)])
        if not left:
            return False
        if any(x.kind is Kind.OLD for x in left):
            return self._old_table(left)
        if not self._known(left):
            return Outcome(
                Result.FAILED,
                f"somebody else's {self._tool.name} left {'; '.join(map(str, left))}",
                f"no table under the names that {self._tool.name} uses",
                f"ask whose they are; if nobody's: {copied.dropping([x.table for x in left])}",
            )
        for x in left:
            if x.kind is Kind.SENTRY:
                self._drop(x)
        if may_resume and self._resumable(left, mark):
            return True
        self._drop_all(left)
        return False

    def tidy(self, *, drop_old: bool) -> str:
        """What a run of ours made is gone, but for the old table unless ``drop_old``. What became of that, in words.

        Whoever ends it while the old table is emptied finds that table with what is left in it."""
        left = self._left()
        if self._known(left) or not any(x.kind is not Kind.OLD for x in left):
            self._drop_all(left)
        self._tool.clear(self._change)
        old = next((x for x in left if x.kind is Kind.OLD), None)
        if old is None:
            return ""
        if not drop_old:
            return f"the old table stays: {old}"
        signal = self._empty(old)
        if signal.kind is not SignalKind.GO:
            by_hand = copied.dropping([old.table])
            return f"the old table {old.table} stays, partly emptied ({signal.reason}); in a quiet hour: {by_hand}"
        self._drop(old)
        return f"the old table {old.table} is gone"

    def _running(self, *, kill: bool) -> bool:
        return copied.end_statements(self._session, self._change.table, self._names, kill=kill) > 0

    def _left(self) -> tuple[Left, ...]:
        return copied.read_left(self._session, self._change.table, self._names)

    def _known(self, left: tuple[Left, ...]) -> bool:
        """Marked as this rollout's; or unmarked, and this machine has the files of a run that began and died young."""
        marks = [x.mark for x in left if x.mark]
        if marks:
            return all(m.split(" ")[0] == self._change.rollout for m in marks)
        return bool(self._tool.began(self._change))

    def _resumable(self, left: tuple[Left, ...], mark: str) -> bool:
        marks = {x.kind: x.mark for x in left}
        if {Kind.NEW, Kind.LOG, Kind.CHECKPOINTS} - marks.keys() or marks[Kind.LOG] != mark:
            return False
        return copied.checkpoints(self._session, self._change.table, self._names) > 0

    def _drop_all(self, left: tuple[Left, ...]) -> None:
        for kind in _ORDER:
            for x in left:
                if x.kind is kind:
                    self._drop(x)

    def _drop(self, left: Left) -> None:
        for last in (*[False] * _DROP_TRIES, True):
            self._beat(Progress(unit="", note=f"drops {left.table}"))
            try:
                copied.drop(self._session, left.table)
                break
            except ServerError as error:
                if last or error.number != LOCK_WAIT_TIMEOUT:
                    raise

    def _empty(self, old: Left) -> Signal:
        """A large table is emptied in small steps before it is dropped, so that neither the server nor a replica meets
        one long moment. It waits while checks hold, as every work on rows does; not GO: it was told to stop."""
        if old.size_bytes < _SMALL_BYTES:
            return GO
        listening = Listening(self._beat, self._site.clock)
        listening.began(f"empties the old table {old.table}", 0, old.rows_estimate)
        while (signal := listening.go_on()).kind is SignalKind.GO:
            began_s = listening.elapsed_s
            rows = copied.shrink(self._session, old.table, _SHRINK_ROWS)
            if not rows:
                break
            listening.worked(rows, listening.elapsed_s - began_s)
            self._site.clock.sleep(_BETWEEN_S)
        return signal

    def _held(self, seen: str) -> Outcome:
        return Outcome(
            Result.HELD, seen, "nobody else who changes this table", "let it end, then the same command again"
        )

    def _old_table(self, left: tuple[Left, ...]) -> Outcome:
        old = next(x for x in left if x.kind is Kind.OLD)
        return Outcome(
            Result.FAILED,
            f"{old} is there from an earlier change; it is never dropped without a word",
            f"no table {old.table}, which is where the present one will go",
            f"{copied.keeping(old.table)}, or drop it; then the same command again",
        )
