"""A starting runbook as text: what was seen of a table, what may be meant, and a mark wherever only a person can say.

A mark is two question marks in a comment or at the start of a text; lint stops on each (rule ``mark-left``).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from orchestrator.model.contract import Before, Column, ForeignKey, Index, TableName
from orchestrator.model.types import Family
from orchestrator.runbook.emit import before_lines, column_line, flow, foreign_key_line, index_line, quoted, scalar

MARK = "??"
_ALIKE = 0.5
_MOST_VALUES = 20


class Beginning(Struct, frozen=True):
    """``values``: what lives in columns of few values, by lower-case name, each with its rows. ``statements``: seen on
    the server, without values. ``gone``: what the later shape has no more; nothing is dropped by a rollout."""

    table: TableName
    before: Before
    columns: tuple[Column, ...] = ()
    changes: tuple[Column, ...] = ()
    indexes: tuple[Index, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    gone: tuple[str, ...] = ()
    values: Mapping[str, Sequence[tuple[str | None, int]]] = field(default_factory=dict)
    statements: tuple[str, ...] = ()


def begin_text(seen: Beginning) -> str:
    """The runbook. It opens with the line that editors find their schema by."""
    return "\n".join([*_head(seen), *_contract(seen), *_mappings(seen), *_applications(seen)]) + "\n"


def _head(seen: Beginning) -> Iterator[str]:
    name = re.sub(r"[^a-z0-9_-]+", "-", seen.table.name.lower()).strip("-_")
    name = name if re.match(r"[a-z]", name) else f"t-{name}"
    yield "# yaml-language-server: $schema=schema.json"
    yield f"# Begun by rollout init. Every {MARK} wants a word of yours; lint stops on it until it is gone."
    yield "apiVersion: rollout/v1"
    yield f"name: {scalar(name[:40])}"
    yield f'why: "{MARK} why the change is made"'
    yield f'owner: "{MARK} who answers for it"'
    yield "table:"
    yield f"  schema: {scalar(seen.table.schema)}"
    yield f"  name: {scalar(seen.table.name)}"
    yield from before_lines(seen.before, seen.table.schema)
    yield ""


def _contract(seen: Beginning) -> Iterator[str]:
    collation, schema = seen.before.collation, seen.table.schema
    yield "contract:"
    yield from (f"  # {MARK} {what} is no more in the later shape; a rollout drops nothing" for what in seen.gone)
    parts = (
        ("columns", [column_line(c, collation) for c in seen.columns]),
        ("changes", [column_line(c, collation) for c in seen.changes]),
        ("indexes", [index_line(i) for i in seen.indexes]),
        ("foreign_keys", [foreign_key_line(f, schema) for f in seen.foreign_keys]),
    )
    for name, lines in parts:
        if lines:
            yield f"  {name}:"
            yield from (f"    - {line}" for line in lines)
    if not any(lines for _, lines in parts):
        yield "  columns:"
        yield f'    - {{name: "{MARK} a new column", type: varchar(32), writer: "{MARK} who writes it"}}'
    yield ""


def _mappings(seen: Beginning) -> Iterator[str]:
    proposed = counterparts(seen.columns, seen.before.columns)
    yield "mappings:" if proposed else f"mappings: []  # {MARK} how old and new values correspond"
    for new, old in proposed:
        yield f"  # {MARK} proposed because {old.name} is called and typed alike; evidence: {_evidence(seen, old)}"
        yield from _pair(seen, new, old)
    for column in seen.before.columns:
        if column.name.lower() in seen.values and all(column is not old for _, old in proposed):
            yield f"# {column.name} holds {_evidence(seen, column)}"
    yield ""


def _pair(seen: Beginning, new: Column, old: Column) -> Iterator[str]:
    values = [v for v, _ in seen.values.get(old.name.lower(), ()) if v is not None]
    if not values:
        yield "  - " + flow(
            (("old", scalar(old.name)), ("new", scalar(new.name)), ("forward", "copy"), ("backward", "copy"))
        )
        return
    same = ", ".join(f"{quoted(v)}: {quoted(v)}" for v in values)
    yield f"  - old: {scalar(old.name)}"
    yield f"    new: {scalar(new.name)}"
    yield f"    forward: {{values: {{{same}}}}}"
    yield f"    backward: {{values: {{{same}}}}}"


def counterparts(new: Sequence[Column], old: Sequence[Column]) -> list[tuple[Column, Column]]:
    """New columns with the old ones that they may take over from: called and typed alike, each in one pair only, the
    most alike first served; in the order of the new ones."""
    scored = [
        (difflib.SequenceMatcher(None, _words(n.name), _words(o.name)).ratio(), n, o)
        for n in new
        for o in old
        if _typed_alike(n, o) and not o.auto_increment and not o.on_update
    ]
    found: dict[str, tuple[Column, Column]] = {}
    for score, n, o in sorted(scored, key=lambda s: -s[0]):
        if score >= _ALIKE and n.name not in found and all(o is not other for _, other in found.values()):
            found[n.name] = (n, o)
    return [found[n.name] for n in new if n.name in found]


def _words(name: str) -> str:
    return re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).replace("_", " ").lower()


def _typed_alike(new: Column, old: Column) -> bool:
    text = (Family.TEXT, Family.ENUM)
    return new.type.family is old.type.family or (new.type.family in text and old.type.family in text)


def _evidence(seen: Beginning, column: Column) -> str:
    values = seen.values.get(column.name.lower())
    if not values:
        return "nobody looked at its values"
    shown = ", ".join(f"{'NULL' if v is None else _comment(v)} in {rows} rows" for v, rows in values[:_MOST_VALUES])
    return shown + (f" and {len(values) - _MOST_VALUES} more values" if len(values) > _MOST_VALUES else "")


def _comment(value: str) -> str:
    return repr(value)[:60]


def _applications(seen: Beginning) -> Iterator[str]:
    yield "applications:"
    if seen.statements:
        yield f"  # {MARK} seen on the server, whoever sent them; keep the old version's, add what was not seen"
        yield "  old:"
        yield from (f"    - {quoted(s)}" for s in seen.statements)
    else:
        yield f"  old: []  # {MARK} what the old version says to the table"
    yield f"  new: []  # {MARK} what the new version says to the table"


def is_marked(line: str) -> bool:
    """Whether a line of a runbook has a mark that nobody has answered."""
    return bool(_MARKED.search(line))


_MARKED = re.compile(r"""(?:\#|["']) ?\?\? """)
