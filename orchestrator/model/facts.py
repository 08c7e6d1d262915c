"""What was seen, and when. A reading that could not be taken says why and which GRANT would show it; it is never
"good"."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from orchestrator.model.contract import Column, ForeignKey, Index, TableName

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """A value seen at ``at`` (seconds, the tool's monotonic clock), or the reason why there is none."""

    at: float
    value: T | None = None
    unseen: str = ""
    grant: str = ""

    @property
    def seen(self) -> bool:
        return not self.unseen


class Need(Enum):
    """What a check, a phase or a screen asks the observer to look at."""

    SERVER = "server"
    SHAPE = "shape"
    LOCKS = "locks"
    TRANSACTIONS = "transactions"
    REPLICAS = "replicas"
    REPLICA_LOCKS = "replica-locks"
    LOAD = "load"
    DISK = "disk"
    PRIVILEGES = "privileges"
    ROW_VERSIONS = "row-versions"
    SIZE = "size"
    VALUES = "values"
    MIRROR = "mirror"
    DRIFT = "drift"
    FLAG = "flag"
    POSITIONS = "positions"
    METER = "meter"


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Settings as the server tells them. None: this account cannot see it. A retention of 0 s keeps binary logs for
    ever."""

    version: tuple[int, int, int]
    version_text: str
    is_mariadb: bool
    server_uuid: str
    hostname: str
    port: int
    read_only: bool
    super_read_only: bool
    log_bin: bool
    binlog_format: str
    binlog_row_image: str
    binlog_retention_s: int
    gtid_mode: str
    performance_schema: bool
    metadata_lock_instrument: bool | None
    is_replica: bool | None
    trust_function_creators: bool
    max_allowed_packet_bytes: int
    native_foreign_keys: bool | None


@dataclass(frozen=True, slots=True)
class Trigger:
    name: str
    timing: str
    event: str
    body: str
    sql_mode: str
    definer: str
    order: int


@dataclass(frozen=True, slots=True)
class Shape:
    """The live table, normalised so that it can be compared with a contract. ``key`` is the cheapest usable walking
    key."""

    table: TableName
    kind: str
    engine: str
    charset: str
    collation: str
    row_format: str
    partitioned: bool
    columns: tuple[Column, ...]
    indexes: tuple[Index, ...]
    foreign_keys: tuple[ForeignKey, ...]
    referenced_by: tuple[tuple[TableName, ForeignKey], ...]
    checks: tuple[tuple[str, str], ...]
    triggers: tuple[Trigger, ...]
    key: tuple[str, ...]
    key_name: str
    key_problem: str = ""

    def column(self, name: str) -> Column | None:
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)

    def index(self, name: str) -> Index | None:
        return next((i for i in self.indexes if i.name.lower() == name.lower()), None)

    def foreign_key(self, name: str) -> ForeignKey | None:
        return next((f for f in self.foreign_keys if f.name.lower() == name.lower()), None)

    @property
    def family(self) -> tuple[TableName, ...]:
        """Tables whose metadata locks meet ours: parents and children by foreign key, the table itself first."""
        names = [f.references for f in self.foreign_keys] + [t for t, _ in self.referenced_by]
        return (self.table, *(n for n in dict.fromkeys(names) if n != self.table))


class BlockerKind(Enum):
    TRANSACTION = "open transaction"
    STATEMENT = "running statement"
    LOCK_TABLES = "LOCK TABLES"
    GLOBAL_READ_LOCK = "FLUSH TABLES WITH READ LOCK"
    BACKUP_LOCK = "LOCK INSTANCE FOR BACKUP"
    HANDLER = "HANDLER"
    PREPARED_XA = "prepared XA transaction"
    DDL = "another ALTER"


@dataclass(frozen=True, slots=True)
class Holder:
    """Somebody who holds, or waits for, a metadata lock that an ALTER of the family must have."""

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

    def __str__(self) -> str:
        who = f"{self.user}@{self.host} (id {self.process_id})" if self.process_id else "a session that is gone"
        idle = ", idle in transaction" if self.idle else ""
        last = f", last: {self.statement}" if self.statement else ""
        does = "waits for" if self.waiting else "holds"
        return f"{who} {does} {self.table} for {self.age_s:.0f} s, {self.kind.value}{idle}{last}"


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    process_id: int
    user: str
    host: str
    age_s: float
    rows_modified: int
    statement: str


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """One replica. ``lag_s`` is our heartbeat's age there while we work, else the age of what is missing; None:
    cannot say.

    ``reachable`` False: it could not be looked at, and ``problem`` says why. ``connecting``: its IO thread tries again.
    """

    name: str
    reachable: bool
    problem: str = ""
    lag_s: float | None = None
    caught_up: bool | None = None
    io_running: bool = False
    sql_running: bool = False
    delay_s: int = 0
    holders: tuple[Holder, ...] = ()
    connecting: bool = False


@dataclass(frozen=True, slots=True)
class LoadFacts:
    threads_running: int
    history_list: int | None


@dataclass(frozen=True, slots=True)
class DiskFacts:
    free_bytes: int | None
    source: str


@dataclass(frozen=True, slots=True)
class MissingPrivilege:
    privilege: str
    grant: str
    why: str


@dataclass(frozen=True, slots=True)
class RowVersions:
    used: int
    limit: int


@dataclass(frozen=True, slots=True)
class SizeFacts:
    rows_estimate: int
    data_bytes: int
    index_bytes: int


@dataclass(frozen=True, slots=True)
class ValueCount:
    """One live value of an old column that a mapping does not know or that does not fit; keys are readable text."""

    mapping: str
    value: str
    rows: int
    keys: tuple[str, ...]
    problem: str


# The problem of a new column's value that neither the mapping nor the default explains.
SOMEBODYS = "somebody's"


@dataclass(frozen=True, slots=True)
class ValueScan:
    """What the values that exist do to the mappings. ``complete`` is False when the scan was cut (time or rows)."""

    rows_scanned: int
    complete: bool
    problems: tuple[ValueCount, ...]


class Presence(Enum):
    ABSENT = "absent"
    PRESENT = "present"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class MirrorFacts:
    update: Presence
    insert: Presence
    problem: str = ""

    @property
    def intact(self) -> bool:
        return self.update is Presence.PRESENT and self.insert is Presence.PRESENT and not self.problem


@dataclass(frozen=True, slots=True)
class MismatchClass:
    """``name``: missing, stale, unmapped, unfit, conflict, derived-empty (mismatches) or lossy-ok (counted only)."""

    name: str
    mapping: str
    rows: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DriftFacts:
    rows_compared: int
    mismatches: int
    classes: tuple[MismatchClass, ...] = ()


# The class of rows that hold something in a column which a rollback with ``ddl: drop`` takes away.
DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class MeterFacts:
    """What going back would lose: rows whose new value the way back cannot carry, by class."""

    classes: tuple[MismatchClass, ...]

    @property
    def rows(self) -> int:
        return sum(c.rows for c in self.classes)


@dataclass(frozen=True, slots=True)
class FlagFacts:
    """The flag row as the server computes it; effective values are what an application gets by asking now."""

    exists: bool
    new_writes: bool = False
    read_percent: int = 0
    expired: bool = False
    expires_in_s: float | None = None
    epoch: int = 0

    @property
    def effective_percent(self) -> int:
        return 0 if self.expired or not self.exists else self.read_percent

    @property
    def effective_new_writes(self) -> bool:
        return self.exists and not self.expired and self.new_writes


@dataclass(frozen=True, slots=True)
class Position:
    """How far a keyed pass has come. Keys are the typed text of ``model.keys``; None is the open end."""

    walk: int
    pass_name: str
    range_no: int
    lo: str | None
    hi: str | None
    position: str | None
    epoch: int
    rows_done: int
    rows_changed: int
    rows_skipped: int
    done: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything one look brought back; a reading that was not asked for is None.

    ``began_on``: the server of the rollout's record, "" before there is one, None when it cannot be read.
    ``mirror_due``: whether the record says that the mirror stands.
    """

    server: Reading[ServerFacts] | None = None
    shape: Reading[Shape] | None = None
    locks: Reading[tuple[Holder, ...]] | None = None
    transactions: Reading[tuple[OpenTransaction, ...]] | None = None
    replicas: Reading[tuple[ReplicaFacts, ...]] | None = None
    replica_locks: Reading[tuple[ReplicaFacts, ...]] | None = None
    load: Reading[LoadFacts] | None = None
    disk: Reading[DiskFacts] | None = None
    privileges: Reading[tuple[MissingPrivilege, ...]] | None = None
    row_versions: Reading[RowVersions] | None = None
    size: Reading[SizeFacts] | None = None
    values: Reading[ValueScan] | None = None
    mirror: Reading[MirrorFacts] | None = None
    drift: Reading[DriftFacts] | None = None
    meter: Reading[MeterFacts] | None = None
    flag: Reading[FlagFacts] | None = None
    positions: Reading[tuple[Position, ...]] | None = None
    began_on: str | None = ""
    mirror_due: bool = True
