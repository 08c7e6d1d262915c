"""The same runbook with waits of seconds, for a demonstration or a test: same contract, same digest."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from orchestrator.model.runbook import GateSpec, Runbook
from orchestrator.runbook.emit import document
from orchestrator.runbook.load import load
from orchestrator.runbook.source import read_source
from orchestrator.runbook.tree import read_document
from orchestrator.runbook.units import show_duration


def shorten(runbook: Runbook, seconds: float = 3.0) -> Runbook:
    """Every soak, hold and quiet time is at most ``seconds``; poll, ttl, gates and the longest wait shrink with them.

    The ttl stays at 10 s or more: it must outlive a beat on a slow machine, or a ramp would expire while it is watched.
    """
    phases = runbook.phases
    short = replace(
        phases,
        soak_s=min(phases.soak_s, seconds),
        hold_s=min(phases.hold_s, seconds),
        verify_soak_s=min(phases.verify_soak_s, seconds),
        rollback_quiet_s=min(phases.rollback_quiet_s, seconds),
        finish_quiet_s=min(phases.finish_quiet_s, seconds),
        poll_s=min(phases.poll_s, round(max(0.2, seconds / 10), 3)),
        ttl_s=min(phases.ttl_s, max(10.0, 3 * seconds)),
    )
    return replace(
        runbook,
        phases=short,
        limits=replace(runbook.limits, max_wait_s=min(runbook.limits.max_wait_s, max(30.0, 10 * seconds))),
        gates=tuple(_short_gate(g, seconds) for g in runbook.gates),
    )


def _short_gate(gate: GateSpec, seconds: float) -> GateSpec:
    """The samples that are judged fit into one hold."""
    interval_s = min(gate.interval_s, round(max(0.2, seconds / (gate.count + 1)), 3))
    return replace(gate, interval_s=interval_s, timeout_s=min(gate.timeout_s, max(1.0, seconds)))


def write_short_copy(source: Path, target: Path, seconds: float = 3.0, flagd: Path | None = None) -> Runbook:
    """Write the runbook with the waits of ``shorten`` to ``target``, and load it from there: same contract and digest.
    ``flagd``: applications ask that flagd file instead of the flag row.

    Raises RunbookError when ``source`` cannot be loaded.
    """
    short = shorten(load(source), seconds)
    # What was read is kept by the reader: changed is a copy.
    tree: Any = deepcopy(read_document(read_source(source), str(source)).value)
    for path, value_s in _waits(short).items():
        *above, key = path
        node = tree
        for part in above:
            if part not in node:
                node[part] = {}
            node = node[part]
        node[key] = show_duration(value_s)
    if flagd is not None:
        elsewhere = {"driver": "flagd", "flagd": {"file": str(flagd)}, "on_watcher_loss": "stay"}
        tree["phases"]["read_switch"].update(elsewhere)
    for written, gate in zip(tree.get("gates") or (), short.gates, strict=True):
        written["interval"], written["timeout"] = show_duration(gate.interval_s), show_duration(gate.timeout_s)
    target.write_text(document(tree), encoding="utf-8")
    return load(target)


def _waits(short: Runbook) -> dict[tuple[str, ...], float]:
    phases = short.phases
    return {
        ("phases", "shadow_write", "soak"): phases.soak_s,
        ("phases", "read_switch", "hold"): phases.hold_s,
        ("phases", "read_switch", "ttl"): phases.ttl_s,
        ("phases", "read_switch", "poll"): phases.poll_s,
        ("phases", "verify", "soak"): phases.verify_soak_s,
        ("phases", "rollback", "quiet"): phases.rollback_quiet_s,
        ("phases", "finish", "quiet"): phases.finish_quiet_s,
        ("checks", "max_wait"): short.limits.max_wait_s,
    }
