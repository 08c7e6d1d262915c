"""The state schema's tables, as numbered steps that are applied once each and in order.

DDL commits by itself, so a step that was cut short is applied again: each statement may be repeated.
"""

from __future__ import annotations

from msgspec import Struct

from orchestrator.mysql import quote
from orchestrator.mysql.sql.state import Statement, at

_END = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_bin"
LOCK = "rollout:install:"


class Migration(Struct, frozen=True):
    """``tables`` maps each new table to the text between its parentheses."""

    number: int
    tables: tuple[tuple[str, str], ...]


_FIRST = Migration(
    1,
    (
        (
            "rollout",
            "id VARCHAR(64) NOT NULL PRIMARY KEY, open_on VARCHAR(160) NULL, server_uuid VARCHAR(36) NOT NULL,"
            " state VARCHAR(16) NOT NULL, phase VARCHAR(32) NOT NULL, revision BIGINT NOT NULL, epoch BIGINT NOT NULL,"
            " record LONGTEXT NOT NULL, updated_at DATETIME(6) NOT NULL, UNIQUE KEY one_open_rollout_a_table (open_on)",
        ),
        (
            "event",
            "rollout VARCHAR(64) NOT NULL, revision BIGINT NOT NULL, kind VARCHAR(32) NOT NULL,"
            " at DATETIME(6) NOT NULL, who VARCHAR(255) NOT NULL, phase VARCHAR(32) NOT NULL,"
            " state VARCHAR(16) NOT NULL, token VARCHAR(32) NOT NULL, body LONGTEXT NOT NULL,"
            " PRIMARY KEY (rollout, revision)",
        ),
        (
            "lease",
            "rollout VARCHAR(64) NOT NULL PRIMARY KEY, owner VARCHAR(255) NULL, host VARCHAR(255) NULL,"
            " pid BIGINT NULL, reason VARCHAR(1000) NULL, since DATETIME(6) NULL,"
            " counter BIGINT NOT NULL, epoch BIGINT NOT NULL",
        ),
        (
            "heartbeat",
            "rollout VARCHAR(64) NOT NULL PRIMARY KEY, seq BIGINT NOT NULL, at DATETIME(6) NOT NULL",
        ),
        (
            "position",
            "rollout VARCHAR(64) NOT NULL, walk INT NOT NULL, pass VARCHAR(32) NOT NULL, range_no INT NOT NULL,"
            " lo TEXT NULL, hi TEXT NULL, position TEXT NULL, epoch BIGINT NOT NULL,"
            " rows_total BIGINT NOT NULL DEFAULT 0, rows_done BIGINT NOT NULL DEFAULT 0,"
            " rows_changed BIGINT NOT NULL DEFAULT 0, rows_skipped BIGINT NOT NULL DEFAULT 0,"
            " done TINYINT NOT NULL DEFAULT 0, updated_at DATETIME(6) NULL,"
            " PRIMARY KEY (rollout, walk, pass, range_no)",
        ),
        (
            "flag",
            "rollout VARCHAR(64) NOT NULL PRIMARY KEY, new_writes TINYINT NOT NULL, read_percent INT NOT NULL,"
            " salt VARCHAR(64) NOT NULL, expires_at DATETIME(6) NOT NULL, epoch BIGINT NOT NULL,"
            " double_writes TINYINT NOT NULL DEFAULT 0",
        ),
        (
            "request",
            "rollout VARCHAR(64) NOT NULL PRIMARY KEY, ask VARCHAR(16) NOT NULL, who VARCHAR(255) NOT NULL,"
            " at DATETIME(6) NOT NULL, reason VARCHAR(1000) NOT NULL",
        ),
        (
            "progress",
            "rollout VARCHAR(64) NOT NULL PRIMARY KEY, epoch BIGINT NOT NULL, body TEXT NOT NULL,"
            " at DATETIME(6) NOT NULL",
        ),
    ),
)
MIGRATIONS: tuple[Migration, ...] = (_FIRST,)
LATEST = MIGRATIONS[-1].number


def version(schema: str) -> Statement:
    """The number of the last step that was applied; NULL when none was."""
    return f"SELECT MAX(number) FROM {at(schema, 'migration')}", ()


def take_lock(schema: str) -> Statement:
    """One installer at a time on the whole server; waits ten seconds at most."""
    return "SELECT GET_LOCK(%s, 10)", ((LOCK + schema)[:64],)


def let_go(schema: str) -> Statement:
    return "DO RELEASE_LOCK(%s)", ((LOCK + schema)[:64],)


def schema_exists(schema: str) -> Statement:
    return "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", (schema,)


def create_schema(schema: str) -> Statement:
    return f"CREATE DATABASE IF NOT EXISTS {quote.percent_safe(quote.name(schema))} DEFAULT CHARACTER SET utf8mb4", ()


def create_ledger(schema: str) -> Statement:
    """The table that remembers which steps were applied."""
    columns = "number INT NOT NULL PRIMARY KEY, applied_at DATETIME(6) NOT NULL"
    return f"CREATE TABLE IF NOT EXISTS {at(schema, 'migration')} ({columns}) {_END}", ()


def apply(schema: str, migration: Migration) -> tuple[Statement, ...]:
    tables = tuple(
        (f"CREATE TABLE IF NOT EXISTS {at(schema, name)} ({body}) {_END}", ()) for name, body in migration.tables
    )
    ledger = f"INSERT IGNORE INTO {at(schema, 'migration')} (number, applied_at) VALUES (%s, UTC_TIMESTAMP(6))"
    return (*tables, (ledger, (migration.number,)))
