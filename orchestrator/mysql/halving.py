"""The one row for whose sake the server refuses a statement over many, found by halves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.keyset import Reader
from orchestrator.mysql.persistence import Ask
from orchestrator.mysql.sql.bounds import Span

Refusal = Callable[[Span], ServerError | None]
# Each try halves the rows; what moves meanwhile may cost some more.
_MOST_HALVINGS = 64


def refused_row(reader: Reader, span: Span, refusal: Refusal, ask: Ask) -> tuple[Span, ServerError] | None:
    """A span of one row of ``span``, and what the server says against it; None when it refuses nothing now.

    ``refusal`` tries what is refused. Raises ServerError, ServerUnreachable, and what ``ask`` and ``refusal`` raise.
    """
    for _ in range(_MOST_HALVINGS):
        rows = ask(partial(reader.count, span))
        if rows <= 1:
            break
        first = ask(partial(reader.cut, span, rows // 2))
        span = first if refusal(first) is not None else Span(first.hi, span.hi)
    error = refusal(span)
    return None if error is None else (span, error)
