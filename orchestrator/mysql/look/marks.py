"""What the state schema shows of this rollout besides its record: the flag row and the positions of keyed passes.

A schema that does not exist yet means that there is no flag and no position. One that may not be read is unseen.
"""

from __future__ import annotations

from orchestrator.model.contract import TableName
from orchestrator.model.facts import FlagFacts, MirrorFacts, Position
from orchestrator.mysql import quote
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql import flag as flag_sql
from orchestrator.mysql.told import NOT_INSTALLED, rows

_POSITION_COLUMNS = "walk, pass, range_no, lo, hi, position, epoch, rows_done, rows_changed, rows_skipped, done"


def read_flag(session: Session, schema: str, rollout: str) -> FlagFacts:
    """The flag row as the server computes it now. Raises ServerError."""
    try:
        found = rows(session, flag_sql.read(schema, rollout))
    except ServerError as error:
        if error.number in NOT_INSTALLED:
            return FlagFacts(exists=False)
        raise
    if not found:
        return FlagFacts(exists=False)
    writes, percent, expired, left_s, epoch, double = found[0]
    left = None if left_s is None else max(0.0, float(left_s))
    return FlagFacts(True, bool(writes), int(percent), bool(expired), left, int(epoch), double_writes=bool(double))


def read_double_writes(session: Session, schema: str, rollout: str) -> MirrorFacts:
    """The mirror as the flag by which applications write both columns. Raises ServerError."""
    return MirrorFacts.of_flag(read_flag(session, schema, rollout).double_writes)


def read_positions(session: Session, schema: str, rollout: str) -> tuple[Position, ...]:
    """All positions of the rollout, in the order of walks, passes and ranges. Raises ServerError."""
    table = quote.percent_safe(quote.table(TableName(schema, "position")))
    statement = (
        f"SELECT {_POSITION_COLUMNS} FROM {table} WHERE rollout = %s ORDER BY walk, LENGTH(pass), pass, range_no",
        (rollout,),
    )
    try:
        found = rows(session, statement)
    except ServerError as error:
        if error.number in NOT_INSTALLED:
            return ()
        raise
    return tuple(
        Position(int(w), p, int(n), lo, hi, at, int(e), int(done_rows), int(changed), int(skipped), bool(done))
        for w, p, n, lo, hi, at, e, done_rows, changed, skipped, done in found
    )
