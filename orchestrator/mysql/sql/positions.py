"""The SQL of position rows: how far each keyed pass of a rollout has come, fenced by the epoch of the lease.

A position row is moved only by whoever holds its epoch, and only from the position that he knows: a batch is neither
repeated nor skipped, and a process that lost its lease changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.model.facts import Position
from orchestrator.model.keys import Key, encode_key
from orchestrator.mysql.quote import name, text
from orchestrator.mysql.session import Row

_COLUMNS = "walk, pass, range_no, lo, hi, position, epoch, rows_done, rows_changed, rows_skipped, done, rows_total"


@dataclass(frozen=True, slots=True)
class PassName:
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


@dataclass(frozen=True, slots=True)
class Fence:
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


def begin(of: PassName, epoch: int, hi: Key | None, rows_total: int) -> str:
    """Create the position row of a pass whose range ends at ``hi``; None: there is no row, and the pass is done.

    Leaves an existing row alone, and creates none when the rollout's epoch has moved on.
    """
    rollouts = f"{name(of.schema)}.{name('rollout')}"
    return (
        f"INSERT IGNORE INTO {of.table} (rollout, walk, pass, range_no, lo, hi, position, epoch, rows_total, done,"
        f" updated_at) SELECT {text(of.rollout)}, {of.walk}, {text(of.name)}, {of.range_no}, NULL, {key_text(hi)},"
        f" NULL, {epoch}, {rows_total}, {int(hi is None)}, UTC_TIMESTAMP(6) FROM {rollouts} AS r"
        f" WHERE r.id = {text(of.rollout)} AND r.epoch = {epoch} FOR SHARE"
    )


def adopt(of: PassName, epoch: int) -> str:
    """Take over a position row that an earlier epoch left. Never lowers an epoch."""
    return f"UPDATE {of.table} SET epoch = {epoch} WHERE {of.row} AND epoch < {epoch}"


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


def rows_total_of(row: Row) -> int:
    """The number of rows that the pass was expected to meet when it began."""
    return int(row[-1])
