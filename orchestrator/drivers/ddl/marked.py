"""What is copied, and the mark by which a run of ours is known again after our death."""

from __future__ import annotations

import hashlib

from msgspec import Struct

from orchestrator.model.contract import TableName
from orchestrator.model.copying import CopyChange, CopyTables
from orchestrator.model.facts import Shape
from orchestrator.model.shape_digest import shape_digest
from orchestrator.mysql import copied
from orchestrator.mysql.session import Session


class Copying(Struct, frozen=True):
    """One run: the change, the shape of the table before it, the run's mark, and the names of its tables. ``session``
    looks; nothing long runs on it. ``taken_over``: what an earlier run left that died, for a person."""

    session: Session
    change: CopyChange
    shape: Shape
    mark: str
    names: CopyTables
    taken_over: str = ""

    @property
    def old(self) -> TableName:
        """Where the table is after the swap."""
        return TableName(self.change.table.schema, self.names.old)


def mark_of(change: CopyChange, shape: Shape) -> str:
    """Rollout and change, by which a run of ours is known again; another ALTER or another table makes another mark."""
    parts = "\0".join((change.alter, shape_digest(shape)))
    return f"{change.rollout} {hashlib.sha256(parts.encode()).hexdigest()[:16]}"


def put_mark(copying: Copying) -> bool:
    """Whether the log of the run took the mark; its checkpoints take it, too, where there are any. Raises
    ServerError."""
    of, names = copying.change.table, copying.names
    copied.put_mark(copying.session, of, names.checkpoints, copying.mark)
    return copied.put_mark(copying.session, of, names.log, copying.mark)
