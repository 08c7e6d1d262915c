"""How a filling pass tells of the rows that it must not pass by, and of those that it had to leave."""

from __future__ import annotations

from orchestrator.model.contract import TableName
from orchestrator.model.facts import ValueCount
from orchestrator.model.keys import Key
from orchestrator.model.outcome import Outcome, Result
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.filling import FillRule
from orchestrator.mysql.keyset import Reader
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.bounds import Span, read_key
from orchestrator.mysql.sql.rows import listed, row_lockers
from orchestrator.mysql.values import count_values


def refused(reader: Reader, span: Span, rule: FillRule) -> Outcome:
    """The failure that names the mapping, the values, how many rows, and some of their keys. Raises ServerError."""
    counts = count_values(reader, span, rule.problems)
    told = "; ".join(_told(c) for c in counts[:5])
    more = f" and {len(counts) - 5} more values" if len(counts) > 5 else ""
    return Outcome(
        Result.FAILED,
        f"{told}{more}" if told else "rows were refused, and were gone when they were looked at again",
        rule.expected,
        rule.next,
        evidence=tuple((c.problem, c.mapping, str(c.rows), " ".join(c.keys)) for c in counts),
    )


def still_pending(reader: Reader, span: Span, rule: FillRule, limit_rows: int) -> tuple[Key, ...]:
    """Some keys of ``span`` that are still pending. Raises ServerError."""
    rows = reader.session.query(listed(reader.space, span, rule.write.pending, (), limit_rows, reader.tag))
    return tuple(read_key(reader.space, row) for row in rows)


def lockers(session: Session, table: TableName) -> str:
    """Who holds row locks of the table, or why that cannot be seen."""
    try:
        rows = session.query(row_lockers(table))
    except ServerError as error:
        return f"somebody who cannot be seen ({error.number})"
    told = [f"{user}@{host} (id {id}, {age or 0} s in transaction)" for id, user, host, age in rows]
    return ", ".join(told) or "somebody who is gone by now"


def _told(count: ValueCount) -> str:
    keys = ", ".join(count.keys[:3])
    return f"{count.mapping}: {count.rows} rows hold {count.value}, which is {count.problem} (key {keys})"
