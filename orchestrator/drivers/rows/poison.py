"""The one row for which the server refuses a batch, found by halves: each half is written and rolled back at once.

It is named by its key, and by the type and the length of what it holds, never by the value. Nothing is changed, and
the position stays in front of the batch: the row is neither passed by nor tried for ever.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrator.model.contract import Column
from orchestrator.model.keys import Key
from orchestrator.model.outcome import Outcome, Result
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.filling import FillRule
from orchestrator.mysql.halving import refused_row
from orchestrator.mysql.keyset import Reader
from orchestrator.mysql.persistence import Ask
from orchestrator.mysql.sql import packets
from orchestrator.mysql.sql.bounds import Span, among, read_key, show
from orchestrator.mysql.sql.rows import bytes_of, counts, listed, ref

_COLUMN = re.compile(r"[Cc]olumn '([^']+)'")


def poisoned(reader: Reader, rule: FillRule, span: Span, ask: Ask) -> Outcome | None:
    """The failure that names the row of ``span`` which the server refuses; None when no single row is refused now.

    Raises ServerError, ServerUnreachable, and what ``ask`` raises.
    """
    found = refused_row(reader, span, lambda part: _refused(reader, rule, part, ask), ask)
    if found is None:
        return None
    row_span, error = found
    row = reader.session.one(listed(reader.space, row_span, "1 = 1", (), 1, reader.tag))
    return None if row is None else named(reader, rule, read_key(reader.space, row), error)


def _refused(reader: Reader, rule: FillRule, span: Span, ask: Ask) -> ServerError | None:
    """What the server says against the rows of ``span``, be it when they are read or when they are written."""
    read = counts(reader.space, span, rule.counted, reader.tag)
    written = packets.trial(reader.space, span, rule.write, reader.tag)
    try:
        ask(lambda: reader.session.query(read))
        ask(lambda: reader.session.packet(written))
    except ServerError as error:
        if not error.is_of_a_row:
            raise
        return error
    return None


def named(reader: Reader, rule: FillRule, key: Key, error: ServerError) -> Outcome:
    """The failure that names the row of ``key``, the column if the error does, and what the row holds by type and
    length. Raises ServerError, ServerUnreachable."""
    said = _COLUMN.search(error.text)
    column = said.group(1).rpartition(".")[2] if said else ""
    sources = [s for s in rule.sources if s.written.lower() == column.lower()] or rule.sources
    held = list(dict.fromkeys(s.column for s in sources))
    here = among(reader.space, [key], ref)
    row = reader.session.one(listed(reader.space, Span(), here, [bytes_of(c.name) for c in held], 1, reader.tag))
    lengths = row[len(reader.space.columns) :] if row is not None else [None] * len(held)
    shown = show(reader.space, key)
    where = f"key {shown}" + (f", column {column}" if column else "")
    return Outcome(
        Result.FAILED,
        f"the server refuses the row with {where}: {error.number} {error.without_values}{_values(held, lengths)}",
        "rows that the server takes",
        "mend the row, the mapping or what refuses it, then type the same command again: it goes on from there",
        evidence=(("poison", column, str(error.number), shown),),
    )


def _values(columns: Sequence[Column], lengths: Sequence[object]) -> str:
    told = [
        f"{c.name} {c.type} is {'NULL' if length is None else f'{length} bytes long'}"
        for c, length in zip(columns, lengths, strict=True)
    ]
    return f"; it holds: {', '.join(told)}" if told else ""
