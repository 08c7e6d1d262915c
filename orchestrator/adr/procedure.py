"""How the change is released without downtime, and how each stage is left again. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.adr.markdown import bullets, code, codes, fenced, numbered, table
from orchestrator.adr.material import Material
from orchestrator.adr.values import without_counterpart
from orchestrator.adr.words import Words, moment
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import FINISH, FORWARD


def release(m: Material, w: Words) -> list[str]:
    """What is done before the first stage, the stages with their gates, and the end."""
    said = _settings(m, w)
    stages = dict(w.stages) | ({} if m.triggers or not m.contract.mappings else {"shadow-write": w.stage_double_writes})
    rows = [_stage(name, stages[name], said) for name in (*FORWARD, FINISH)]
    return [
        w.release_intro,
        "",
        *numbered(s.format(**said) for s in w.release_steps),
        f"### {w.stages_title}",
        "",
        *table(w.stage_head, rows),
    ]


def _stage(name: str, texts: tuple[str, ...], said: dict[str, str]) -> list[str]:
    command = "rollout finish" if name == FINISH else f"rollout next --phase {name}"
    return [code(name), code(command), *(text.format(**said) for text in texts)]


def _settings(m: Material, w: Words) -> dict[str, str]:
    """What the sentences name of the runbook's settings."""
    phases, limits = m.runbook.phases, m.runbook.limits
    return {
        "runbook": f"{m.runbook.id}.yaml",
        "target": moment(phases.target_time_s),
        "soak": moment(phases.soak_s),
        "hold": moment(phases.hold_s),
        "percents": " → ".join(f"{p}" for p in phases.percents),
        "gates": codes(phases.gates, w.comma) or w.none,
        "poll": moment(phases.poll_s),
        "verify_soak": moment(phases.verify_soak_s),
        "quiet": moment(phases.finish_quiet_s),
        "back_quiet": moment(phases.rollback_quiet_s),
        "lag": moment(limits.replication_lag_s),
        "age": moment(limits.transaction_age_s),
        "invariants": str(len(m.contract.invariants)),
        "section": w.ddl_title,
        "old_untouched": w.old_untouched if m.triggers or not m.contract.mappings else "",
        "watcher": (w.watcher_stays if phases.stays else w.watcher_back).format(ttl=moment(phases.ttl_s)),
        "ddl_back": w.ddl_dropped if phases.rollback_ddl is RollbackDdl.DROP else w.ddl_kept,
    }


def rollback(m: Material, w: Words) -> list[str]:
    """By itself, by hand, all the way; and what would be lost by it."""
    said = _settings(m, w)
    lines = [w.rollback_itself.format(**said), "", *table(w.rollback_head, _ways(said, w))]
    lines += [w.rollback_order, "", *numbered(s.format(**said) for s in w.rollback_steps)]
    lost = bullets(_lost(m, w))
    lines += [w.meter, "", *lost] if lost else []
    if m.back:
        lines += [w.back_ddl, "", *fenced("sql", "\n".join(f"{s};" for p in m.back for s in p.sql))]
    return lines


def _ways(said: dict[str, str], w: Words) -> Iterator[list[str]]:
    targets = ("read-switch", "shadow-write", "backfill", "ddl", "")
    for target in targets:
        command = f"rollout rollback --to {target}" if target else "rollout rollback"
        yield [code(f"{command} --dry-run"), w.rollback_ways[target].format(**said)]


def _lost(m: Material, w: Words) -> Iterator[str]:
    """What only new columns know."""
    for pair in m.contract.pairs:
        if alone := without_counterpart(pair):
            values = codes(alone, w.comma)
            yield w.lost_values.format(new=code(pair.new), values=values, old=code(pair.old or ""))
    mapped = {p.new.lower() for p in m.contract.pairs} | {d.new.lower() for d in m.contract.derived}
    alone_columns = [c.name for c in m.contract.columns if c.name.lower() not in mapped]
    if alone_columns:
        yield w.lost_columns.format(columns=codes(alone_columns, w.comma))
