"""How a filling pass tells of the rows that it must not pass by, and of those that it had to leave."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.contract import TableName
from orchestrator.model.facts import ValueCount
from orchestrator.model.keys import Key
from orchestrator.model.outcome import Outcome, Result
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.filling import FillRule
from orchestrator.mysql.keyset import Reader
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.bounds import Span, read_key
from orchestrator.mysql.sql.rows import Stretch, listed, row_lockers
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


def another_role(stretch: Stretch, server_uuid: str, where: str) -> Outcome | None:
    """Why nothing may be written any more: the server is read-only, or not the one that the pass began on."""
    if not stretch.writable:
        return Outcome(
            Result.FAILED,
            f"the server became read-only before {where}",
            "the writable primary",
            "point rollout to the primary, then type the same command again",
        )
    if stretch.server_uuid != server_uuid:
        return Outcome(
            Result.FAILED,
            f"another server answers since {where}: {stretch.server_uuid}",
            f"the server {server_uuid}",
            "rollout status",
        )
    return None


def given_up(error: ServerError, where: str, tried: int, figures: dict[str, float]) -> Outcome:
    """A batch that was refused ``tried`` times; 0: it was sent, nobody heard its end, and its position is held."""
    if not tried:
        return Outcome(
            Result.UNKNOWN,
            f"{where} was sent and not answered, and the server still holds its position ({error.number})",
            "commits that return",
            "look at the server's disk (a full binary log makes commits hang) and its processes; kill nothing",
            figures,
        )
    return Outcome(
        Result.HELD,
        f"{where} was refused {tried} times: {error.number} {error.without_values}",
        "a batch that commits",
        "type the same command again: it goes on from the stored position",
        figures,
    )


def altered_meanwhile(table: TableName, changed: Sequence[str], figures: dict[str, float]) -> Outcome:
    """Somebody altered the table under the pass; the next command reads it anew."""
    return Outcome(
        Result.FAILED,
        f"{table} was altered while it was filled: {', '.join(changed)}",
        "a table that keeps its columns while it is filled",
        "look who alters it; then the same command again, which goes on with the table as it is then",
        figures,
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
