"""The read/write matrix, stage by stage, and how both columns move together while both applications run. Pure."""

from __future__ import annotations

from orchestrator.adr.markdown import bullets, code, codes, table
from orchestrator.adr.material import Material
from orchestrator.adr.words import Words
from orchestrator.model.contract import Winner
from orchestrator.model.matrix import RUNS, SHAPES, STAGE_SHAPES, VERSIONS, Access, Failure, Matrix, ShapeName
from orchestrator.model.state import FINISH


def matrix(m: Material, w: Words) -> list[str]:
    """What each version does to each column in each shape; without a proof of this contract only that it is missing."""
    if m.matrix is None:
        return [w.not_proven.format(runbook=m.runbook.id), ""]
    found = m.matrix
    said = {"statements": len(found.statements), "server": found.server, "shapes": len(SHAPES)}
    stages = [
        [code(stage), w.comma.join(w.shapes[s.value] for s in shapes), w.comma.join(_running(stage, shapes, w))]
        for stage, shapes in STAGE_SHAPES.items()
    ]
    lines = [w.proven.format(**said), "", *table(w.stage_shape_head, stages), w.matrix_legend, ""]
    lines += _cells(m, found, w)
    return [*lines, *_troubles(found, w)]


def _running(stage: str, shapes: tuple[ShapeName, ...], w: Words) -> list[str]:
    """The versions that may run in the stage; the old one is gone before the rollout is finished."""
    left = VERSIONS if stage != FINISH else ("new",)
    return [w.versions[v] for v in left if any(s in RUNS[v] for s in shapes)]


def _cells(m: Material, found: Matrix, w: Words) -> list[str]:
    seen = [(v, s) for v in VERSIONS for s in SHAPES if s in RUNS[v]]
    head = [w.column, *(f"{w.versions_short[v]} · {w.shapes[s.value]}" for v, s in seen), w.rollout_writes]
    rows = [
        [code(c), *(_SIGNS[found.access(v, s, c)] or w.none for v, s in seen), _ours(c, m, w)] for c in found.columns
    ]
    return table(head, rows)


_SIGNS = {
    Access.NONE: "",
    Access.READS: "R",
    Access.WRITES: "W",
    Access.BOTH: "RW",
    Access.FAILS: "✗",
}


def _ours(column: str, m: Material, w: Words) -> str:
    """By what of ours the column is written."""
    for mapping in m.contract.mappings:
        if mapping.new.lower() == column.lower():
            return w.filled_and_mirrored if mapping.is_pair or mapping.follows else w.filled
        if mapping.is_pair and (mapping.old or "").lower() == column.lower():
            return w.mirrored
    return w.none


def _troubles(found: Matrix, w: Words) -> list[str]:
    lines: list[str] = []
    refused = [_failure(f, w) for f in found.refusals]
    lines += [w.refusals, "", *bullets(refused)] if refused else [w.no_refusals, ""]
    hazards = [f"{w.versions[h.version]}{w.colon}{code(h.statement)} ({h.kind.value})" for h in found.hazards]
    lines += [w.hazards, "", *bullets(hazards)] if hazards else []
    lines += [w.unproven, "", *bullets(found.unproven)] if found.unproven else []
    named = {name for s in found.statements for name in s.names}
    unnamed = [c for c in found.columns if c not in named]
    lines += [w.unnamed.format(columns=codes(unnamed, w.comma)), ""] if unnamed else []
    return lines


def _failure(of: Failure, w: Words) -> str:
    where = f"{w.versions[of.version]}, {w.shapes[of.shape.value]}"
    return f"{where}{w.colon}{code(of.error)}{w.colon}{code(of.statement)}"


def mirror(m: Material, w: Words) -> list[str]:
    """Who keeps both columns in step, by which rules."""
    contract = m.contract
    if not contract.mappings:
        return [w.no_mirror, ""]
    pairs = [f"{code(p.old or '')} ↔ {code(p.new)}" for p in contract.pairs]
    follows = [d.new for d in contract.derived if d.follows]
    once = [d.new for d in contract.derived if not d.follows]
    older = [p.new for p in contract.pairs if p.on_conflict is Winner.OLD]
    rules = [
        w.mirror_triggers.format(triggers=codes(m.triggers, w.comma)) if m.triggers else w.mirror_double_writes,
        w.mirror_pairs.format(pairs=w.comma.join(pairs)) if pairs else "",
        w.mirror_follows.format(columns=codes(follows, w.comma)) if follows else "",
        w.mirror_once.format(columns=codes(once, w.comma)) if once else "",
    ]
    if m.triggers:
        rules += w.mirror_rules
        rules += [w.mirror_conflict_old.format(columns=codes(older, w.comma))] if older else []
        rules.append(w.mirror_trial)
    return [w.mirror_intro, "", *bullets(rules)]
