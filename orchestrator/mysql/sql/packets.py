"""The one packet that is a batch: begin, the fence, the rows, the position, commit.

Sent whole, it leaves nothing open when the process that sent it freezes or dies, and it changes nothing when another
holder has raised the epoch or when the position is not the one that we counted from.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from orchestrator.model.keys import Key
from orchestrator.mysql import quote
from orchestrator.mysql.session import Row
from orchestrator.mysql.sql.bounds import KeySpace, Ref, Span, among, within
from orchestrator.mysql.sql.positions import Fence, key_text
from orchestrator.mysql.sql.rows import inner_ref, ref, source

# When the statement before it had ended.
_WROTE = "@wrote = NOW(6)"


class Write(Struct, frozen=True):
    """What a batch does to rows that are ``pending``: ``assignments`` are (column, SQL) over the row ``t``.

    ``pending_inner`` is the same condition over the row that is being locked. ``kept`` are the columns that the server
    would touch by itself (ON UPDATE), set to themselves.
    """

    pending: str
    pending_inner: str
    assignments: tuple[tuple[str, str], ...]
    kept: tuple[str, ...]


class Move(Struct, frozen=True):
    """The position after the batch, and what was counted in it. ``pending`` 0: no row is written.

    ``keys``: the pending rows, where they are few; None: whatever is pending up to there. It is a name, such as
    ``:keys``, only where a plan is shown."""

    to: Key | None
    rows: int
    pending: int
    last: bool
    keys: Sequence[Key] | str | None = None

    def rows_of(self, space: KeySpace, at: Key | None, r: Ref) -> str:
        """The condition of the rows that this move may write: never one outside of its span."""
        span = within(space, Span(at, self.to), r)
        if self.keys is None:
            return span
        return f"{span} AND {self.keys if isinstance(self.keys, str) else among(space, self.keys, r)}"


class Moved(Struct, frozen=True):
    """What a packet brought. ``fenced``: nothing was changed, because epoch, position or the server's role differ.
    ``write_s``: how long the rows took, by the server's clock; what a packet takes besides does not grow with them."""

    fenced: bool
    changed: int
    skipped: int
    write_s: float


def batch(space: KeySpace, fence: Fence, move: Move, write: Write, tag: str) -> list[str]:
    """The statements of one batch, to be sent as one packet; its answer is for ``moved``."""
    rows = _rows(space, fence.at, move, write, tag) if move.pending else [f"SET @changed = 0, @skipped = 0, {_WROTE}"]
    return [
        "START TRANSACTION",
        f"SELECT COUNT(*), NOW(6) INTO @ours, @began FROM {fence.of.table} WHERE {fence.condition} FOR UPDATE",
        *rows,
        f"UPDATE {fence.of.table} SET position = {key_text(move.to)}, rows_done = rows_done + {move.rows},"
        " rows_changed = rows_changed + @changed, rows_skipped = rows_skipped + @skipped,"
        f" done = {int(move.last)}, updated_at = UTC_TIMESTAMP(6) WHERE {fence.of.row} AND @ours = 1",
        "COMMIT",
        "SELECT @ours, @changed, @skipped, TIMESTAMPDIFF(MICROSECOND, @began, @wrote) / 1e6",
    ]


def single(space: KeySpace, fence: Fence, key: Key, write: Write, tag: str) -> list[str]:
    """One row that batches had to leave, waited for; one packet, its answer is for ``moved``.

    Nothing is held while it waits, and one row and the position while it writes. The bound of the wait is the
    session's ``innodb_lock_wait_timeout``. Counted in the pass that left the row.
    """
    here = among(space, [key], ref)
    return [
        "START TRANSACTION",
        f"SELECT {tag} COUNT(*) INTO @there FROM {source(space)} WHERE {here} FOR UPDATE",
        f"SELECT COUNT(*) INTO @ours FROM {fence.of.table} WHERE {fence.holder} FOR UPDATE",
        f"UPDATE {tag} {source(space)} SET {_sets(write)} WHERE {here} AND ({write.pending}) AND @ours = 1",
        # -1 when the client is gone by then: a server goes on with what it was sent, and its answers fail.
        "SET @changed = GREATEST(ROW_COUNT(), 0)",
        f"UPDATE {fence.of.table} SET rows_changed = rows_changed + @changed,"
        " rows_skipped = GREATEST(rows_skipped, 1) - 1, updated_at = UTC_TIMESTAMP(6)"
        f" WHERE {fence.of.row} AND @ours = 1",
        "COMMIT",
        "SELECT @ours, @changed, 0, 0",
    ]


def trial(space: KeySpace, span: Span, write: Write, tag: str) -> list[str]:
    """The rows of a batch, written and rolled back at once in one packet: to see whether the server takes them."""
    update = write_rows(space, within(space, span, inner_ref), write, tag)
    return ["START TRANSACTION", "SET @ours = 1", update, "ROLLBACK"]


def moved(results: Sequence[Sequence[Row]]) -> Moved:
    ours, changed, skipped, write_s = results[-1][0]
    return Moved(int(ours) != 1, int(changed), int(skipped), float(write_s))


def write_rows(space: KeySpace, here: str, write: Write, tag: str) -> str:
    """The UPDATE of the rows ``here``, a condition over the row that is being locked: rows that somebody else holds are
    left out, never waited for, so that nobody becomes our victim.

    The hint keeps the derived table apart; merged into the UPDATE, it would wait.
    """
    keys = ", ".join(inner_ref(c) for c in space.names)
    return (
        f"UPDATE /*+ NO_MERGE(d) JOIN_ORDER(d, t) */ {tag} {quote.table(space.table)} AS t JOIN (SELECT {keys}"
        f" FROM {source(space, 's')} WHERE {here} AND ({write.pending_inner})"
        f" FOR UPDATE SKIP LOCKED) AS d USING ({quote.names(space.names)}) SET {_sets(write)} WHERE @ours = 1"
    )


def _sets(write: Write) -> str:
    sets = [f"{ref(column)} = {sql}" for column, sql in write.assignments]
    return ", ".join([*sets, *(f"{ref(column)} = {ref(column)}" for column in write.kept)])


def _rows(space: KeySpace, at: Key | None, move: Move, write: Write, tag: str) -> list[str]:
    """The UPDATE, and what it left behind: counted only when it wrote fewer rows than were pending."""
    return [
        write_rows(space, move.rows_of(space, at, inner_ref), write, tag),
        f"SET @changed = GREATEST(ROW_COUNT(), 0), @skipped = 0, {_WROTE}",
        # The subquery is evaluated only where the IF asks for it.
        f"SELECT {tag} IF(@ours = 1 AND @changed < {move.pending}, (SELECT COUNT(*) FROM {source(space)}"
        f" WHERE {move.rows_of(space, at, ref)} AND ({write.pending})), 0) INTO @skipped",
    ]
