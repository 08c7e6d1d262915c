"""Tables for people and objects for machines, from the same values. Order: first line who must act, last line what to
type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from tabulate import tabulate

from orchestrator.cli.ink import paint
from orchestrator.model.advice import again
from orchestrator.model.facts import MissingPrivilege
from orchestrator.model.outcome import Outcome
from orchestrator.model.verdict import Problem, Verdict

if TYPE_CHECKING:
    from orchestrator.engine import Ended
    from orchestrator.engine.plan import Plan, PlannedStep


def table(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> str:
    """A plain table, indented by one; cells keep their text as it is."""
    drawn = tabulate(rows, headers=headers, tablefmt="plain", disable_numparse=True, preserve_whitespace=False)
    return "\n".join(f" {line}".rstrip() for line in drawn.splitlines())


def plan_words(plan: Plan) -> dict[str, Any]:
    """Keys that others build on: digest fingerprint stages[].steps[].sql budgets checks."""
    return {
        "rollout": plan.rollout,
        "digest": plan.digest,
        "fingerprint": plan.fingerprint,
        "stages": [
            {
                "name": s.name,
                "state": s.state,
                "what": s.what,
                "blocks": s.blocks,
                "takes": s.takes,
                "way_back": s.way_back,
                "problem": s.problem,
                "steps": [_step_words(x) for x in s.steps],
            }
            for s in plan.stages
        ],
        "budgets": [{"name": b.name, "need": b.need, "have": b.have, "fits": b.fits} for b in plan.budgets],
        "checks": checks_words(plan.verdicts),
        "problems": problem_words(plan.problems),
        "trial": plan.record.trial,
        "compat": plan.compat,
        "renames": list(plan.renames),
        "waivers": [{"rule": w.rule, "reason": w.reason, "until": w.until} for w in plan.waivers],
    }


def _step_words(step: PlannedStep) -> dict[str, Any]:
    cost = step.cost
    said = {"key": step.key, "sql": list(step.sql), "blocks": step.blocks, "way": step.way, "why": step.why}
    return said | {
        "seconds": [round(cost.low_s, 1), round(cost.high_s, 1)],
        "disk_bytes": cost.disk_bytes,
        "temporary_bytes": cost.temporary_bytes,
        "binlog_bytes": cost.binlog_bytes,
        "row_versions": cost.row_versions,
        "replicas_stand_still_s": round(cost.replica_s, 1),
    }


def problem_words(problems: Sequence[Problem]) -> list[dict[str, str]]:
    return [{"rule": p.rule, "seen": p.seen, "expected": p.expected, "next": p.next} for p in problems]


def plan_text(plan: Plan, *, sql: bool) -> str:
    parts = [_headline(plan)]
    rows = [(s.number or "", s.name, s.what, s.blocks, s.takes, s.way_back) for s in plan.stages]
    if rows:
        parts.append(table(rows, ("#", "stage", "what happens", "blocks the application", "takes", "way back")))
    parts += plan.remarks
    parts += [f" waived {w.rule}{f' until {w.until}' if w.until else ''}: {w.reason}" for w in plan.waivers]
    meter = plan.facts.meter.value if plan.facts.meter is not None else None
    if meter is not None:
        found = [(c.name, c.mapping, c.rows, " ".join(c.keys)) for c in meter.classes]
        lost = table(found, ("going back loses", "mapping", "rows", "sample keys"))
        parts.append(lost if found else " going back loses nothing")
    if plan.budgets:
        fits = {True: "yes", False: "NO", None: "cannot say"}
        needs = ((b.name, b.need, b.have, fits[b.fits]) for b in plan.budgets)
        parts.append(table(list(needs), ("budget", "need", "have", "fits")))
    parts += [checks_text(plan.verdicts)] if plan.verdicts else []
    if sql:
        parts += [_statements(s.name, x) for s in plan.stages for x in s.steps]
    else:
        parts.append("Statements, in full: rollout plan --sql    Save and bind: rollout plan -o FILE")
    if plan.problems:
        parts.append("\n".join(f" refused  {p.seen}" for p in plan.problems))
    elif plan.stages:
        parts.append(f"Next: {again(replace(plan.record, phase=plan.stages[0].name))}")
    else:
        parts.append("nothing of that is left to do")
    return "\n\n".join(parts)


def _headline(plan: Plan) -> str:
    facts = plan.facts
    server = facts.server.value if facts.server is not None else None
    size = facts.size.value if facts.size is not None else None
    where = (
        f"on {server.hostname}:{server.port}  MySQL {server.version_text}" if server is not None else "server unseen"
    )
    replicas = facts.replicas.value if facts.replicas is not None else None
    names = " ".join(r.name for r in replicas) if replicas else ("none" if replicas is not None else "unseen")
    rows = ""
    if size is not None:
        rows = f"  ~{size.rows_estimate:,} rows {(size.data_bytes + size.index_bytes) / 2**20:.0f} MiB"
    return (
        f"{plan.rollout}  {plan.record.table} {where}, replicas {names}{rows}  "
        f"contract {plan.digest[:8]}  fingerprint {plan.fingerprint.split(':')[0]}  nothing is written"
    )


def _statements(stage: str, step: PlannedStep) -> str:
    cost = step.cost
    way = [f"--   {step.way}: {step.why}"] if step.way and step.why else []
    uses = [f"{cost.low_s:.0f}-{cost.high_s:.0f} s"] * bool(cost.peak_bytes or cost.row_versions)
    uses += [f"{cost.row_versions} row version"] * bool(cost.row_versions)
    uses += [f"{cost.peak_bytes / 2**20:.0f} MiB"] * bool(cost.peak_bytes)
    uses += [f"every replica stands still up to {cost.replica_s:.0f} s"] * bool(cost.replica_s)
    used = [f"--   {', '.join(uses)}"] * bool(uses)
    lines = (s if s.startswith("--") else f"{s};" for s in step.sql)
    return "\n".join([f"-- {stage} {step.key}: blocks {step.blocks}", *way, *used, *lines])


def checks_words(verdicts: Sequence[Verdict]) -> list[dict[str, str]]:
    return [
        {
            "name": v.check,
            "verdict": v.judgement.value,
            "reason": v.reason,
            "seen": v.seen,
            "limit": v.limit,
            "next": v.next,
        }
        for v in verdicts
    ]


def checks_text(verdicts: Sequence[Verdict]) -> str:
    rows = [(v.check, v.seen, v.limit, paint(v.judgement.value), "" if v.good else v.next) for v in verdicts]
    return table(rows, ("check", "now", "limit", "verdict", ""))


def ended_text(ended: Ended) -> str:
    record = ended.record
    following = record.next_phase
    lines = [f"{record.id}  {record.phase}  {paint(record.state.value)}  {ended.note}".rstrip()]
    if record.state.value == "finished":
        lines.append("Next: rollout purge removes the history and the flag row, when nobody reads it any more")
    elif record.state.value == "rolled-back":
        lines.append(f"Next: rollout next --phase {following}" if following else "Next: rollout status")
    else:
        lines.append(f"Next: rollout next --phase {following}" if following else "Next: rollout finish")
    return "\n".join(lines)


def verify_words(outcome: Outcome) -> dict[str, Any]:
    """Keys that others build on: rows_table rows_compared mismatches classes samples seconds."""
    return {
        "rows_table": int(outcome.figures.get("rows_table", 0)),
        "rows_compared": int(outcome.figures.get("rows_compared", 0)),
        "mismatches": int(outcome.figures.get("mismatches", 0)),
        "classes": {_class_name(row): int(row[2]) for row in outcome.evidence},
        "samples": {_class_name(row): list(row[3:]) for row in outcome.evidence},
        "seconds": outcome.figures.get("seconds", 0.0),
        "note": outcome.note,
    }


def verify_text(outcome: Outcome) -> str:
    rows = [(*row[:3], " ".join(row[3:])) for row in outcome.evidence]
    shown = table(rows, ("class", "mapping", "rows", "sample keys")) if rows else ""
    words = verify_words(outcome)
    first = (
        f"{words['rows_compared']:,} of {words['rows_table']:,} rows compared, "
        f"{words['mismatches']} mismatches, {words['seconds']:.1f} s"
    )
    return "\n".join(part for part in (first, shown, outcome.note) if part)


def _class_name(row: Sequence[str]) -> str:
    """``status ↔ state: missing``; a class that belongs to no mapping stands alone."""
    return f"{row[1]}: {row[0]}" if row[1] else row[0]


def grants_words(privileges: Sequence[MissingPrivilege]) -> list[dict[str, object]]:
    return [{"privilege": p.privilege, "grant": p.grant, "why": p.why, "stages": list(p.stages)} for p in privileges]


def grants_text(needed: Sequence[MissingPrivilege]) -> str:
    """What a whole rollout takes, what only looking takes, and which stage each right is for."""
    looking = [p for p in needed if "plan" in p.stages]
    acting = [p for p in needed if "plan" not in p.stages]
    parts = ["-- to look (plan, status, check, verify)", *(p.grant for p in looking)]
    parts += ["", "-- and to act", *(f"{p.grant}  -- {', '.join(p.stages)}" for p in acting)]
    return "\n".join(parts)


def doctor_text(missing: Sequence[MissingPrivilege], problems: Sequence[Verdict]) -> str:
    parts = []
    if missing:
        parts.append(table([(m.privilege, m.why) for m in missing], ("missing", "needed for")))
        parts.append("\n".join(dict.fromkeys(m.grant.rstrip(";") + ";" for m in missing)))
    if problems:
        parts.append(table([(v.check, v.seen, v.limit, v.next) for v in problems], ("setting", "now", "wanted", "do")))
    return "\n\n".join(parts) or "the account and the server have all that is needed"
