"""Who is in the way of an exclusive lock, or may be soon."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class BlockerKind(Enum):
    TRANSACTION = "open transaction"
    STATEMENT = "running statement"
    LOCK_TABLES = "LOCK TABLES"
    GLOBAL_READ_LOCK = "FLUSH TABLES WITH READ LOCK"
    BACKUP_LOCK = "LOCK INSTANCE FOR BACKUP"
    HANDLER = "HANDLER"
    PREPARED_XA = "prepared XA transaction"
    DDL = "another ALTER"


class Holder(Struct, frozen=True):
    """Somebody who holds, or waits for, a metadata lock that an ALTER of the family must have. ``exact``: the age is
    that of its transaction, and not in whole seconds."""

    kind: BlockerKind
    table: str
    lock: str
    waiting: bool
    age_s: float
    process_id: int | None
    user: str
    host: str
    idle: bool
    statement: str
    exact: bool = False

    def __str__(self) -> str:
        who = f"{self.user}@{self.host} (id {self.process_id})" if self.process_id else "a session that is gone"
        idle = ", idle in transaction" if self.idle else ""
        last = f", last: {self.statement}" if self.statement else ""
        does = "waits for" if self.waiting else "holds"
        return f"{who} {does} {self.table} for {self.age_s:.0f} s, {self.kind.value}{idle}{last}"


class OpenTransaction(Struct, frozen=True):
    process_id: int
    user: str
    host: str
    age_s: float
    rows_modified: int
    statement: str
