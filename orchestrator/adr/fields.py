"""Every field of the model with its ten properties, and the columns that stay beside it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.adr.markdown import code, table
from orchestrator.adr.material import Material, Own
from orchestrator.adr.words import Words
from orchestrator.model.contract import Column, Expression, Mapping
from orchestrator.model.matrix import SHAPES, VERSIONS, Access
from orchestrator.model.types import ColumnType, Family

_QUOTED = frozenset({Family.TEXT, Family.ENUM, Family.SET, Family.TEMPORAL, Family.TIME, Family.BINARY})


def fields(m: Material, w: Words, own: Own) -> list[str]:
    """Two tables of one form: the model's fields, and what is older and stays."""
    model = (*m.kept, *m.contract.columns)
    counts = {"count": len(model), "kept": len(m.kept), "new": len(m.contract.columns), "left": len(m.left)}
    lines = [w.fields_intro.format(model=m.model, **counts), "", *table(w.field_head, _rows(model, m, w, own))]
    if m.left:
        lines += [f"### {w.left_title}", "", w.left_intro.format(**counts), ""]
        lines += table(w.field_head, _rows(m.left, m, w, own))
    return lines


def _rows(columns: Sequence[Column], m: Material, w: Words, own: Own) -> Iterator[list[str]]:
    for number, column in enumerate(columns, 1):
        yield [
            str(number),
            code(m.fields[column.name.lower()]),
            code(column.name),
            code(_kind(column.type)),
            _length(column.type, w),
            w.yes if column.null else w.no,
            _default(column, w),
            ", ".join(sign for sign, i in m.indexes if column.name.lower() in {c.lower() for c in i.columns}) or w.none,
            _writer(column, m, w, own),
            _replaced(column, m, w),
            _removal(column, m, w, own),
        ]


def _kind(of: ColumnType) -> str:
    """The type without its length."""
    if of.labels:
        return str(of)
    return of.base + (" unsigned" if of.unsigned else "")


def _length(of: ColumnType, w: Words) -> str:
    """Characters, bytes, fraction digits, or precision and scale, as the type counts."""
    if of.family is Family.INTEGER:
        least, most = of.integer_range
        return f"{(most - least).bit_length() // 8} B"
    if of.byte_limit is not None:
        return f"{of.byte_limit} B"
    if of.length is None:
        return w.none
    return f"{of.length},{of.scale}" if of.scale is not None else str(of.length)


def _default(column: Column, w: Words) -> str:
    words = []
    if column.auto_increment:
        words.append(code("AUTO_INCREMENT"))
    elif column.generated is not None:
        words.append(code(f"AS ({column.generated})"))
    elif column.default is not None:
        literal = not column.default.is_expression and column.type.family in _QUOTED
        words.append(code(f"'{column.default.text}'" if literal else column.default.text))
    else:
        words.append(code("NULL") if column.null else w.none)
    if column.on_update:
        words.append(code("ON UPDATE"))
    return ", ".join(words)


def _writer(column: Column, m: Material, w: Words, own: Own) -> str:
    """As the runbook says it, else the versions that were seen writing it."""
    if column.writer:
        return own(column.writer)
    writes = (Access.WRITES, Access.BOTH)
    seen = [
        w.versions[v]
        for v in VERSIONS
        if m.matrix is not None and any(m.matrix.access(v, s, column.name) in writes for s in SHAPES)
    ]
    return w.comma.join(seen) or w.none


def _replaced(column: Column, m: Material, w: Words) -> str:
    """For a new column what it comes from; for an old one of a pair its counterpart."""
    for mapping in m.contract.mappings:
        if mapping.new.lower() == column.name.lower():
            return _source(mapping)
        if mapping.is_pair and (mapping.old or "").lower() == column.name.lower():
            return f"↔ {code(mapping.new)}"
    renamed = (r.old for r in m.contract.renames_in_place if r.new.lower() == column.name.lower())
    return next((f"← {code(old)}" for old in renamed), w.none)


def _source(mapping: Mapping) -> str:
    if mapping.is_pair:
        return f"↔ {code(mapping.old or '')}"
    return f"← {code(mapping.forward.sql if isinstance(mapping.forward, Expression) else mapping.old or '')}"


def _removal(column: Column, m: Material, w: Words, own: Own) -> str:
    if column not in m.left:
        return w.stays + (f"{w.semicolon}{own(column.retire)}" if column.retire else "")
    if column.retire:
        return own(column.retire)
    successor = next((p.new for p in m.contract.pairs if (p.old or "").lower() == column.name.lower()), None)
    return w.removed_later.format(new=code(successor)) if successor else w.stays_beside
