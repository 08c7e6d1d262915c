"""The largest batch that server and cluster take: its transaction fits into the binary log's cache and into a group.

An estimate by the average row; a batch that is too large after all is refused by the server, and halved.
"""

from __future__ import annotations

from msgspec import Struct

from orchestrator.model.contract import TableName
from orchestrator.mysql.look.size import read_row_bytes
from orchestrator.mysql.session import Session

# Larger transactions delay each replica by their own length, whatever the server takes.
MOST_BYTES = 16 * 2**20
# A row is logged as it was and as it becomes; the half that is left is for rows wider than the average.
_BYTES_A_BYTE = 4
_LIMITS = (
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('max_binlog_cache_size', 'group_replication_transaction_size_limit')"
)


class LargestBatch(Struct, frozen=True):
    """``rows`` at most, because of ``reason``."""

    rows: int
    reason: str


def largest_batch(session: Session, table: TableName, wanted_rows: int) -> LargestBatch:
    """``wanted_rows``, or fewer where rows are wide. Raises ServerError."""
    limits = [(int(value), str(name)) for name, value in session.query(_LIMITS) if int(value) > 0]
    least, name = min([(MOST_BYTES, "16 MiB a transaction"), *limits])
    row_bytes = max(1, read_row_bytes(session, table))
    rows = max(1, least // (row_bytes * _BYTES_A_BYTE))
    if rows >= wanted_rows:
        return LargestBatch(wanted_rows, "max_batch")
    return LargestBatch(rows, f"{name}, rows of {row_bytes} bytes")
