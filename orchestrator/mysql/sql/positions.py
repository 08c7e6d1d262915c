"""The SQL of position rows: how far each keyed pass of a rollout has come, fenced by the epoch of the lease.

A position row is moved only by whoever holds its epoch, and only from the position that he knows: a batch is neither
repeated nor skipped, and a process that lost its lease changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.errors import ConfigurationError
from orchestrator.model.facts import Position
from orchestrator.model.keys import Key, decode_key, encode_key
from orchestrator.mysql.quote import name, text
from orchestrator.mysql.session import Row

# What the pass of a bookmark begins with: how far a comparison came. It fences nothing, so that its epoch stays that of
# whoever kept it; taking the lease raises the others.
COMPARED = "compared-"
_COLUMNS = "walk, pass, range_no, lo, hi, position, epoch, rows_done, rows_changed, rows_skipped, done, rows_total"


class PassName(Struct, frozen=True):
    """Which pass of which rollout; ``name`` is ``backfill``, ``sweep-1``, ``sweep-2`` …"""

    schema: str
    rollout: str
    walk: int
    name: str
    range_no: int = 0

    @property
    def table(self) -> str:
        return f"{name(self.schema)}.{name('position')}"

    @property
    def row(self) -> str:
        """The condition that names the position row of this pass."""
        return (
            f"rollout = {text(self.rollout)} AND walk = {self.walk} AND pass = {text(self.name)}"
            f" AND range_no = {self.range_no}"
        )


class Fence(Struct, frozen=True):
    """What must still hold when a batch commits: our epoch, and the position from which we counted.

    ``epoch`` is a name, such as ``:epoch``, only where a plan is shown."""

    of: PassName
    epoch: int | str
    at: Key | None

    @property
    def condition(self) -> str:
        return f"{self.holder} AND position <=> {key_text(self.at)} AND done = 0"

    @property
    def holder(self) -> str:
        """Only that we hold it, and that the server still takes writes: a privileged account would write to a demoted
        primary."""
        return f"{self.of.row} AND epoch = {self.epoch} AND @@GLOBAL.read_only = 0"


def stored(key: Key | None) -> str | None:
    """A key as it is stored in a position row."""
    return None if key is None else encode_key(key)


def key_text(key: Key | None) -> str:
    """The same as a literal."""
    return "NULL" if key is None else text(encode_key(key))


def begin(of: PassName, epoch: int, hi: Key | None, rows_total: int, lo: Key | None = None) -> str:
    """Create the position row of a pass from behind ``lo`` up to ``hi``; hi None: there is no row, the pass is done.

    Leaves an existing row alone, and creates none when the rollout's epoch has moved on.
    """
    rollouts = f"{name(of.schema)}.{name('rollout')}"
    return (
        f"INSERT IGNORE INTO {of.table} (rollout, walk, pass, range_no, lo, hi, position, epoch, rows_total, done,"
        f" updated_at) SELECT {text(of.rollout)}, {of.walk}, {text(of.name)}, {of.range_no}, {key_text(lo)},"
        f" {key_text(hi)}, {key_text(lo)}, {epoch}, {rows_total}, {int(hi is None)}, UTC_TIMESTAMP(6)"
        f" FROM {rollouts} AS r WHERE r.id = {text(of.rollout)} AND r.epoch = {epoch} FOR SHARE"
    )


def alone(statement: str) -> list[str]:
    """A packet of that one statement, so that it heeds the server's role as batches do."""
    return ["START TRANSACTION", statement, "COMMIT"]


def adopt(of: PassName, epoch: int) -> str:
    """Take over a position row that an earlier epoch left. Never lowers an epoch."""
    return f"UPDATE {of.table} SET epoch = {epoch} WHERE {of.row} AND epoch < {epoch}"


def forget_compared(of: PassName) -> str:
    """Whoever fills writes rows that a comparison may have seen: no bookmark of the walk proves anything from here."""
    return (
        f"DELETE FROM {of.table} WHERE rollout = {text(of.rollout)} AND walk = {of.walk}"
        f" AND pass LIKE {text(COMPARED + '%')}"
    )


def hand_out(fence: Fence, to: Key | None, slot: PassName, last: bool) -> list[str]:
    """One packet: the keys behind the fence's position up to ``to`` become the range of ``slot``, and the position of
    the whole pass moves there; its answer is for ``handed_out``.

    So ranges never overlap and never leave a gap, whoever dies when. A slot whose range is done is used again, and what
    it has counted stays: there are no more rows than workers.
    """
    lo = key_text(fence.at)
    hi = key_text(to)
    now = "UTC_TIMESTAMP(6)"
    return [
        "START TRANSACTION",
        f"SELECT COUNT(*) INTO @ours FROM {fence.of.table} WHERE {fence.condition} FOR UPDATE",
        f"UPDATE {fence.of.table} SET position = {hi}, done = {int(last)}, updated_at = {now}"
        f" WHERE {fence.of.row} AND @ours = 1",
        f"INSERT INTO {slot.table} (rollout, walk, pass, range_no, lo, hi, position, epoch, done, updated_at)"
        f" SELECT {text(slot.rollout)}, {slot.walk}, {text(slot.name)}, {slot.range_no}, {lo}, {hi}, {lo},"
        f" {fence.epoch}, 0, {now} FROM DUAL WHERE @ours = 1"
        f" ON DUPLICATE KEY UPDATE lo = {lo}, hi = {hi}, position = {lo}, epoch = {fence.epoch}, done = 0,"
        f" updated_at = {now}",
        "COMMIT",
        "SELECT @ours",
    ]


def handed_out(results: Sequence[Sequence[Row]]) -> bool:
    """False: nothing was changed, because epoch, position or the server's role differ."""
    return int(results[-1][0][0]) == 1


def keep(of: PassName, epoch: int, at: Key, rows: int) -> str:
    """Where a comparison is: only how much is compared again hangs on it. Changes nothing under a later epoch."""
    rollouts = f"{name(of.schema)}.{name('rollout')}"
    return (
        f"INSERT INTO {of.table} (rollout, walk, pass, range_no, position, epoch, rows_done, updated_at)"
        f" SELECT {text(of.rollout)}, {of.walk}, {text(of.name)}, {of.range_no}, {key_text(at)}, {epoch}, {rows},"
        f" UTC_TIMESTAMP(6) FROM {rollouts} AS r WHERE r.id = {text(of.rollout)} AND r.epoch = {epoch}"
        f" ON DUPLICATE KEY UPDATE position = {key_text(at)}, epoch = {epoch}, rows_done = {rows},"
        " updated_at = UTC_TIMESTAMP(6)"
    )


def forget(of: PassName) -> str:
    return f"DELETE FROM {of.table} WHERE {of.row}"


def read(of: PassName) -> str:
    """One position row, for ``position_of``."""
    return f"SELECT {_COLUMNS} FROM {of.table} WHERE {of.row}"


def read_like(of: PassName, prefix: str) -> str:
    """All position rows of this walk whose pass begins with ``prefix``, for ``position_of``."""
    pattern = prefix.replace("_", "\\_")
    return (
        f"SELECT {_COLUMNS} FROM {of.table} WHERE rollout = {text(of.rollout)} AND walk = {of.walk}"
        f" AND pass LIKE {text(pattern + '%')} ORDER BY LENGTH(pass), pass, range_no"
    )


def position_of(row: Row) -> Position:
    walk, pass_name, range_no, lo, hi, position, epoch, done_rows, changed, skipped, done, _ = row
    return Position(
        walk=int(walk),
        pass_name=str(pass_name),
        range_no=int(range_no),
        lo=lo,
        hi=hi,
        position=position,
        epoch=int(epoch),
        rows_done=int(done_rows),
        rows_changed=int(changed),
        rows_skipped=int(skipped),
        done=bool(done),
    )


def end_of(of: str, text: str | None) -> Key | None:
    """The end of a span as the position row of pass ``of`` holds it. Raises ConfigurationError when nobody can read it:
    a pass that began anew instead would be a guess."""
    try:
        return None if text is None else decode_key(text)
    except ValueError as error:
        raise ConfigurationError(
            f"the stored position of {of} cannot be read: {text!r}",
            'a position as rollout stores it, such as [["int","42"]]',
            "nothing was written; put the rows of the table position of the state schema back from a backup",
        ) from error


def whole(ranges: Sequence[Position]) -> Position | None:
    """A pass in one row: what its ranges have counted, done when all are. None: it has not begun."""
    if not ranges:
        return None
    return replace(
        ranges[0],
        rows_done=sum(r.rows_done for r in ranges),
        rows_changed=sum(r.rows_changed for r in ranges),
        rows_skipped=sum(r.rows_skipped for r in ranges),
        done=all(r.done for r in ranges),
    )


def rows_total_of(row: Row) -> int:
    """The number of rows that the pass was expected to meet when it began."""
    return int(row[-1])
