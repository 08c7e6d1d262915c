"""How old and new values correspond, both ways. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.adr.markdown import code, codes, table
from orchestrator.adr.material import Material, Own
from orchestrator.adr.words import Words
from orchestrator.model.contract import Copy, Expression, Mapping, Transform, Unmapped, ValueMap


def mappings(m: Material, w: Words, own: Own) -> list[str]:
    """Value maps as tables, all else as formulas."""
    maps = [x for x in m.contract.mappings if isinstance(x.forward, ValueMap) or isinstance(x.backward, ValueMap)]
    others = [x for x in m.contract.mappings if x not in maps]
    lines = [w.mappings_intro, ""] if m.contract.mappings else [w.no_mappings, ""]
    for mapping in maps:
        lines += _value_map(mapping, w, own)
    if others:
        rows = [_formula(x, w, own) for x in others]
        lines += [f"### {w.formulas_title}", "", *table(w.formula_head, rows)]
    return lines


def _value_map(mapping: Mapping, w: Words, own: Own) -> list[str]:
    lines = [f"### {code(mapping.old or '')} {'↔' if mapping.is_pair else '→'} {code(mapping.new)}", ""]
    lines += _direction(mapping.forward, (mapping.old or "", mapping.new), w)
    if mapping.backward is not None:
        lines += _direction(mapping.backward, (mapping.new, mapping.old or ""), w)
    if alone := without_counterpart(mapping):
        lines += [w.no_counterpart.format(values=codes(alone, w.comma), old=code(mapping.old or "")), ""]
    if mapping.why:
        lines += [f"{w.why}{w.colon}{own(mapping.why)}", ""]
    if mapping.is_pair:
        lines += [w.conflict[mapping.on_conflict.value], ""]
    return lines


def _direction(transform: Transform, names: tuple[str, str], w: Words) -> list[str]:
    """One way of a mapping; ``names``: the column that is read, and the one that is given."""
    if not isinstance(transform, ValueMap):
        return [f"{code(names[1])} = {_formula_text(transform, names[0], w)}", ""]
    head = [code(names[0]), f"→ {code(names[1])}"]
    rows = [[_value(old), _value(new)] for old, new in transform.values]
    told = w.unmapped_kept if transform.unmapped is Unmapped.KEEP else w.unmapped_refused
    return [*table(head, rows), told, ""]


def _value(value: str | None) -> str:
    return code("NULL") if value is None else code(value) if value else "''"


def without_counterpart(mapping: Mapping) -> Sequence[str]:
    """New values that no old value becomes: to the old application they are something else."""
    if not (isinstance(mapping.forward, ValueMap) and isinstance(mapping.backward, ValueMap)):
        return ()
    reached = {new for _, new in mapping.forward.values}
    return [new for new, _ in mapping.backward.values if new is not None and new not in reached]


def _formula(mapping: Mapping, w: Words, own: Own) -> list[str]:
    kind = w.follows if mapping.follows else w.pair if mapping.is_pair else w.derived
    backward = w.none if mapping.backward is None else _formula_text(mapping.backward, mapping.new, w)
    return [
        code(mapping.old) if mapping.old else w.none,
        code(mapping.new),
        _formula_text(mapping.forward, mapping.old or "", w),
        backward,
        kind,
        own(mapping.why) or w.none,
    ]


def _formula_text(transform: Transform, source: str, w: Words) -> str:
    match transform:
        case Copy():
            return w.copied.format(column=code(source))
        case Expression(sql=sql):
            return code(sql)
        case ValueMap(values=values):
            return w.comma.join(f"{_value(a)} → {_value(b)}" for a, b in values)
