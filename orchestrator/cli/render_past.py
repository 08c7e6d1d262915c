"""Where a rollout stands and how it came there, as tables for people and objects for machines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from orchestrator.cli.ink import paint
from orchestrator.cli.render import table
from orchestrator.model.facts import OldStatement, Reading
from orchestrator.model.outcome import Progress
from orchestrator.model.state import FORWARD, Event

if TYPE_CHECKING:
    from orchestrator.app.watch import Status

_MOST_SHOWN = 3


def status_words(seen: Status) -> dict[str, Any]:
    """Keys that others build on: rollout table phase state who_must_act next_command progress lag_ms drift read_percent
    new_writes meter. ``stuck``: held, still, silent, or null."""
    record = seen.record
    progress = seen.progress
    return {
        "rollout": seen.rollout,
        "table": seen.table,
        "phase": record.phase if record is not None else "",
        "state": record.state.value if record is not None else "new",
        "who_must_act": seen.advice.who,
        "next_command": seen.advice.command,
        "line": seen.advice.line,
        "stuck": seen.stuck.by.value if seen.stuck is not None else None,
        "progress": None
        if progress is None
        else {
            "done": progress.done,
            "total": progress.total,
            "estimated": progress.estimated,
            "unit": progress.unit,
            "rate_per_s": progress.rate_per_s,
            "eta_s": progress.eta_s,
            "throttled_s": progress.throttled_s,
            "note": progress.note,
        },
        "lag_ms": None if seen.lag_s is None else round(seen.lag_s * 1000),
        "drift": seen.drift,
        "read_percent": seen.read_percent,
        "new_writes": seen.new_writes,
        "meter": seen.meter,
        "old_readers": _old_words(seen.readers),
        "done": list(record.done) if record is not None else [],
        "epoch": record.epoch if record is not None else 0,
        "revision": record.revision if record is not None else 0,
    }


def status_text(seen: Status) -> str:
    record = seen.record
    lines = [f"{seen.rollout}  {seen.table}  {seen.advice.line}    {_who(seen.advice.who)}"]
    if seen.stuck is not None:
        lines.append(f" {paint('stuck')}: {seen.stuck}")
    rows = []
    for name in (*FORWARD, "repair", "rollback", "finish"):
        line = record.phase_record(name) if record is not None else None
        if line is None:
            if name in FORWARD:
                rows.append((name, "-", "", "", ""))
            continue
        state = "done" if record is not None and name in record.done else line.state.value
        if name in FORWARD and line.state.value == "done" and record is not None and name not in record.done:
            state = "undone"
        rows.append((name, paint(state), _clock(line.began), _took(line.began, line.ended), line.note))
    lines.append(table(rows, ("stage", "state", "began", "took", "note")))
    if seen.progress is not None:
        lines.append(_progress(seen.progress))
    lag = "unseen" if seen.lag_s is None else f"{seen.lag_s:.1f} s"
    drift = "not measured" if seen.drift is None else f"{seen.drift}"
    writes = "open" if seen.new_writes else "closed"
    lines.append(f" drift {drift}   lag {lag}   readers {seen.read_percent} %   new_writes {writes}")
    lines += _old_lines(seen.readers)
    lines.append(f" going back now would lose: {_meter(seen.meter)}")
    over = record is None or record.state.value in ("new", "finished")
    lines.append(f"Next: {seen.advice.command}" + ("" if over else "    Back: rollout rollback --dry-run"))
    return "\n".join(lines)


def _progress(told: Progress) -> str:
    about = "~" if told.estimated else ""
    eta = f", ETA {about}{told.eta_s:.0f} s" if told.eta_s is not None else ""
    of = f" of {about}{told.total:,}" if told.total else ""
    return f" {told.done:,}{of} {told.unit}, {told.rate_per_s:,.0f}/s{eta}  {told.note}".rstrip()


def _old_words(readers: Reading[tuple[OldStatement, ...]] | None) -> list[dict[str, Any]] | None:
    """None: nobody looked, or it cannot be seen."""
    if readers is None or readers.value is None:
        return None
    return [asdict(statement) for statement in readers.value]


def _old_lines(readers: Reading[tuple[OldStatement, ...]] | None) -> list[str]:
    """Who still needs old columns, the latest three."""
    if readers is None:
        return []
    if readers.value is None:
        return [f" old columns: who reads them cannot be seen: {readers.unseen}"]
    if not readers.value:
        return [" old columns: no sampled statement names them"]
    found = [f"   {_old_line(statement)}" for statement in readers.value[:_MOST_SHOWN]]
    more = f", the latest {_MOST_SHOWN}" if len(readers.value) > _MOST_SHOWN else ""
    return [f" old columns: named by {len(readers.value)} kinds of statements (sampled{more}):", *found]


def _old_line(of: OldStatement) -> str:
    does = [f"reads {', '.join(of.reads)}"] if of.reads else []
    does += [f"stores {', '.join(of.stores)}"] if of.stores else []
    does += ["reads every column"] if of.every and not of.reads else []
    by = f", by {', '.join(of.by[:2])}" if of.by else ""
    return f"{of.age_s:.0f} s ago, {of.count:,} times{by}: {' and '.join(does)}: {of.text[:100]}"


def _meter(meter: dict[str, Any] | None) -> str:
    if meter is None:
        return "not measured (rollout status --meter scans)"
    if not meter["rows"]:
        return f"nothing{meter['age']}"
    classes = ", ".join(f"{c['rows']} rows of class {c['class']}" for c in meter.get("classes", []))
    return f"{meter['rows']} rows hold what the old column cannot{f' ({classes})' if classes else ''}{meter['age']}"


def _who(who: str) -> str:
    return {"nobody": "nobody must act", "operator": "you must act", "human": "a human must look"}[who]


def history_words(event: Event) -> dict[str, Any]:
    return {
        "at": event.at.isoformat(),
        "who": event.who,
        "event": event.kind.value,
        "phase": event.phase,
        "state": event.state,
        "step": event.step,
        "note": event.note,
        "reason": event.reason,
        "figures": event.figures,
        "evidence": [list(row) for row in event.evidence],
        "revision": event.revision,
    }


def history_text(events: Sequence[Event]) -> str:
    rows = [(_clock(e.at), e.who, e.phase, e.kind.value, e.step, e.note) for e in events if e.kind.value != "intended"]
    return table(rows, ("when", "who", "stage", "what", "step", "note")) if rows else "nothing was begun"


def _clock(when: datetime) -> str:
    return when.astimezone().strftime("%m-%d %H:%M:%S")


def _took(began: datetime, ended: datetime | None) -> str:
    if ended is None:
        return ""
    seconds = (ended - began).total_seconds()
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
