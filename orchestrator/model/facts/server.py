"""What the server itself tells: its kind and settings, its load and room, and what this account may not do."""

from __future__ import annotations

from msgspec import Struct


class ServerFacts(Struct, frozen=True):
    """Settings as the server tells them. None: this account cannot see it. A retention of 0 s keeps binary logs for
    ever. ``cascades_unseen``: why a cascade of a foreign key fires no trigger; "" when it does, in every session."""

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
    online_log_max_bytes: int = 128 * 2**20
    cascades_unseen: str = "the server has no enable_cascade_triggers"


class LoadFacts(Struct, frozen=True):
    threads_running: int
    history_list: int | None


class GateSample(Struct, frozen=True):
    """The last sample of one gate: its number, or why there is none; ``at`` as in Reading."""

    gate: str
    number: float | None
    why: str
    at: float


class DiskFacts(Struct, frozen=True):
    free_bytes: int | None
    source: str


class MissingPrivilege(Struct, frozen=True):
    """``stages``: what cannot be done without it; ``plan`` stands for every command that only looks."""

    privilege: str
    grant: str
    why: str
    stages: tuple[str, ...] = ()
