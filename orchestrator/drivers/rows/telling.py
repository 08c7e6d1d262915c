"""What a filling pass writes, and what it must not pass by: made once from the relation, part of every batch."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.model.facts import ValueCount
from orchestrator.model.outcome import Outcome, Result
from orchestrator.mysql.keyset import Reader
from orchestrator.mysql.sql.bounds import Span, read_key, show
from orchestrator.mysql.sql.packets import Write
from orchestrator.mysql.sql.rows import listed
from orchestrator.mysql.values import Problem, count_values


@dataclass(frozen=True, slots=True)
class Rule:
    """``write`` is what happens to rows that are pending. A row for which ``blocked`` is 1 stops the pass before
    anything of its batch is written; ``problems`` say per mapping what is wrong with it."""

    write: Write
    blocked: str
    problems: tuple[Problem, ...]
    expected: str
    next: str

    @property
    def counted(self) -> tuple[str, ...]:
        return (self.write.pending, self.blocked)


def refused(reader: Reader, span: Span, rule: Rule) -> Outcome:
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


def skipped_keys(reader: Reader, span: Span, rule: Rule, limit_rows: int) -> tuple[str, ...]:
    """Some keys of ``span`` that are still pending. Raises ServerError."""
    rows = reader.session.query(listed(reader.space, span, rule.write.pending, (), limit_rows, reader.tag))
    return tuple(show(reader.space, read_key(reader.space, row)) for row in rows)


def _told(count: ValueCount) -> str:
    keys = ", ".join(count.keys[:3])
    return f"{count.mapping}: {count.rows} rows hold {count.value}, which is {count.problem} (key {keys})"
