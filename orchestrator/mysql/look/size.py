"""How big the table is, and how many of its row versions are used up."""

from __future__ import annotations

from orchestrator.model.contract import TableName
from orchestrator.model.facts import RowVersions, SizeFacts
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.look.unseen import Unseen
from orchestrator.mysql.session import Session

# Without this the server answers from a cache of a day, and writes that cache.
_FRESH = "information_schema_stats_expiry"
_SIZE = (
    "SELECT TABLE_ROWS, DATA_LENGTH, INDEX_LENGTH FROM information_schema.TABLES"
    " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
)
_ROW_BYTES = "SELECT AVG_ROW_LENGTH FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s"
_VERSIONS = (
    "SELECT MAX(TOTAL_ROW_VERSIONS), COUNT(*), @@version FROM information_schema.INNODB_TABLES"
    " WHERE NAME = %s OR NAME LIKE %s ESCAPE '|'"
)
_UNKNOWN_COLUMN = 1054
_LIMIT = 64
_LIMIT_SINCE_9_1 = 255


def read_size(session: Session, table: TableName) -> SizeFacts:
    """InnoDB's estimate of rows, and the bytes of data and indexes, not cached. Raises ServerError, Unseen."""
    session.pin(_FRESH, 0)
    row = session.one(_SIZE, (table.schema, table.name))
    if row is None:
        raise Unseen(f"this account sees no table {table}")
    rows, data_bytes, index_bytes = row
    return SizeFacts(int(rows or 0), int(data_bytes or 0), int(index_bytes or 0))


def read_row_bytes(session: Session, table: TableName) -> int:
    """InnoDB's average length of a row with what it keeps off the page; 0 when it has no idea. Raises ServerError."""
    session.pin(_FRESH, 0)
    return int(session.value(_ROW_BYTES, (table.schema, table.name)) or 0)


def read_row_versions(session: Session, table: TableName) -> RowVersions:
    """Row versions used by INSTANT changes since the last rebuild; the worst partition counts. Needs PROCESS.

    Raises ServerError; Unseen for a table whose name InnoDB spells in a way that is not known here.
    """
    if not f"{table.schema}{table.name}".isascii():
        raise Unseen(f"the row versions of {table} are listed under a spelling of letters outside ASCII")
    path = f"{file_name(table.schema)}/{file_name(table.name)}"
    pattern = path.replace("|", "||").replace("%", "|%").replace("_", "|_") + "#%"
    try:
        row = session.one(_VERSIONS, (path, pattern))
    except ServerError as error:
        if error.number == _UNKNOWN_COLUMN:
            return RowVersions(0, _LIMIT)  # 8.0.28 counts no versions and has no limit
        raise
    if row is None or not row[1]:
        raise Unseen(f"InnoDB lists no table {path}")
    used, _, version = row
    major, minor = (int(part) for part in str(version).split(".")[:2])
    return RowVersions(int(used or 0), _LIMIT_SINCE_9_1 if (major, minor) >= (9, 1) else _LIMIT)


def file_name(identifier: str) -> str:
    """How InnoDB spells an ASCII identifier in the name of a table's file: ``my-table`` is ``my@002dtable``."""
    return "".join(c if c.isalnum() or c == "_" else f"@{ord(c):04x}" for c in identifier)
