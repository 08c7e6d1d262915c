"""The entity diagram in Mermaid. Its grammar knows fewer names than MySQL: what it cannot say is written as near as may
be, with the name itself beside it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrator.adr.keys import relations
from orchestrator.adr.markdown import fenced
from orchestrator.adr.material import Material
from orchestrator.adr.words import Words
from orchestrator.model.contract import Column, ForeignKey, TableName
from orchestrator.model.walking_key import PRIMARY

_NOT_A_WORD = re.compile(r"[^A-Za-z0-9_]+")


def diagram(m: Material, w: Words) -> list[str]:
    """The table with all its columns, and every table that a foreign key ties to it."""
    return [w.diagram_intro, "", *fenced("mermaid", "\n".join(["erDiagram", *_relations(m), *_entities(m, w)]))]


def _word(name: str) -> str:
    """A word that the grammar takes: letters, digits and underscores, a letter first."""
    word = _NOT_A_WORD.sub("_", name)
    return word if word[:1].isalpha() and word[:1].isascii() else f"x_{word}"


def _text(text: str) -> str:
    return '"' + " ".join(text.replace('"', "'").split()) + '"'


def _relations(m: Material) -> Iterator[str]:
    own = {c.name.lower(): c for c in (*m.stood, *m.contract.columns)}
    for parent, child, key, _ in relations(m):
        optional = _optional(key, own) if child == m.contract.table else "SET NULL" in (key.on_delete, key.on_update)
        label = _text(f"{', '.join(key.columns)}: ON DELETE {key.on_delete}")
        yield f"  {_entity(m, parent)} {'|o' if optional else '||'}--o{{ {_entity(m, child)} : {label}"


def _optional(key: ForeignKey, own: dict[str, Column]) -> bool:
    return any(own[c.lower()].null for c in key.columns if c.lower() in own)


def _entity(m: Material, table: TableName) -> str:
    return _word(m.model if table == m.contract.table else table.name)


def _entities(m: Material, w: Words) -> Iterator[str]:
    table = m.contract.table
    others = dict.fromkeys(t for parent, child, _, _ in relations(m) for t in (parent, child) if t != table)
    name = _entity(m, table)
    shown = m.model if m.model == table.name else f"{m.model} ({table.name})"
    yield f"  {name}[{_text(shown)}] {{"
    for column in (*m.kept, *m.contract.columns, *m.left):
        yield f"    {_attribute(column, m, w)}"
    yield "  }"
    yield from (f"  {_word(t.name)}[{_text(t.name)}]" for t in others if _word(t.name) != t.name)


def _attribute(column: Column, m: Material, w: Words) -> str:
    keys = ", ".join(_key_signs(column, m))
    told = w.beside if column in m.left else "" if column in m.kept else w.added
    name = _word(column.name)
    note = "; ".join(t for t in (column.name if name != column.name else "", told) if t)
    kind = column.type.base if column.type.labels else str(column.type)
    typed = re.sub(r"[^A-Za-z0-9_()]+", "_", kind)
    return " ".join(x for x in (typed, name, keys, _text(note) if note else "") if x)


def _key_signs(column: Column, m: Material) -> Iterator[str]:
    name = column.name.lower()
    if any(name in {c.lower() for c in i.columns} for _, i in m.indexes if i.name == PRIMARY):
        yield "PK"
    if any(name in {c.lower() for c in f.columns} for f in (*m.before.foreign_keys, *m.contract.foreign_keys)):
        yield "FK"
    if any(name in {c.lower() for c in i.columns} for _, i in m.indexes if i.unique and i.name != PRIMARY):
        yield "UK"
