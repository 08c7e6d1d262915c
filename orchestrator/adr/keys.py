"""Indexes with the statements that they serve, and what becomes of rows when their relatives go. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.adr.markdown import bullets, code, codes, table
from orchestrator.adr.material import Material, Own
from orchestrator.adr.words import Words
from orchestrator.model.contract import ForeignKey, Index, IndexPart, TableName
from orchestrator.model.walking_key import PRIMARY


def indexes(m: Material, w: Words, own: Own) -> list[str]:
    """All indexes of the table afterwards, and below them the statements that each serves."""
    served = [
        f"**{sign}** · {w.versions_short[q.version]} {q.number}{w.colon}{code(q.text)}"
        for sign, index in m.indexes
        for q in m.served.get(index.name, ())
        if index.name != PRIMARY
    ]
    lines = [w.indexes_intro.format(count=len(m.contract.indexes), section=w.ddl_title), ""]
    lines += table(w.index_head, _index_rows(m, w, own))
    return [*lines, w.served_intro, "", *bullets(served)] if served else lines


def _index_rows(m: Material, w: Words, own: Own) -> Iterator[list[str]]:
    added = {i.name for i in m.contract.indexes}
    for sign, index in m.indexes:
        yield [
            sign,
            code(index.name),
            codes((_part(p) for p in index.parts), w.comma),
            w.yes if index.unique else w.no,
            w.added if index.name in added else w.stands,
            own(index.serves) or w.none,
            _served(index, m, w),
        ]


def _part(part: IndexPart) -> str:
    shown = f"({part.expression})" if part.expression is not None else part.column
    return shown + (f"({part.prefix})" if part.prefix else "") + (" DESC" if part.descending else "")


def _served(index: Index, m: Material, w: Words) -> str:
    queries = m.served.get(index.name, ())
    if queries and index.name == PRIMARY:
        return w.serves_many.format(count=len(queries))
    if queries:
        return w.comma.join(f"{w.versions_short[q.version]} {q.number}" for q in queries)
    key = next((k for k in _keys(m) if index.columns[: len(k.columns)] == k.columns), None)
    if key is not None:
        return w.serves_key.format(key=code(key.name))
    return w.serves_unique if index.unique and index.name != PRIMARY else w.serves_nothing


def _keys(m: Material) -> tuple[ForeignKey, ...]:
    return (*m.before.foreign_keys, *m.contract.foreign_keys)


def relations(m: Material) -> Iterator[tuple[TableName, TableName, ForeignKey, bool]]:
    """(parent, child, key, whether it is added) of every foreign key from and into the table."""
    table_ = m.contract.table
    for key in m.before.foreign_keys:
        yield key.references, table_, key, False
    for key in m.contract.foreign_keys:
        yield key.references, table_, key, True
    for held, key in m.before.children:
        yield table_, held, key, False


def deletes(m: Material, w: Words, own: Own) -> list[str]:
    """The delete rule of every relation, each with what it means and why."""
    rows = []
    for number, (parent, child, key, added) in enumerate(relations(m), 1):
        rule = key.on_delete.replace("NO ACTION", "RESTRICT")
        columns = codes(key.columns, w.comma)
        effect = w.effects[rule].format(parent=code(parent.name), child=code(child.name), columns=columns)
        rows.append(
            [
                str(number),
                f"{code(parent.name)} → {code(child.name)}",
                code(key.name),
                code(key.on_delete),
                code(key.on_update),
                w.added if added else w.stands,
                effect,
                own(key.why) or w.none,
            ]
        )
    return [w.deletes_intro.format(count=len(rows)), "", *table(w.delete_head, rows)] if rows else [w.no_relations, ""]
