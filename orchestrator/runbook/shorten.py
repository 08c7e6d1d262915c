"""The same runbook with waits of seconds, for a demonstration or a test: same contract, same digest, same text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ruamel.yaml import YAML

from orchestrator.model.runbook import GateSpec, Runbook
from orchestrator.runbook.load import load


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
        poll_s=min(phases.poll_s, max(0.2, seconds / 10)),
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
    interval_s = min(gate.interval_s, max(0.2, seconds / (gate.count + 1)))
    return replace(gate, interval_s=interval_s, timeout_s=min(gate.timeout_s, max(1.0, seconds)))


def write_short_copy(source: Path, target: Path, seconds: float = 3.0) -> Runbook:
    """Write the runbook with the waits of ``shorten`` to ``target``, and load it from there. Same contract, same digest.

    Raises RunbookError when ``source`` cannot be loaded.
    """
    short = shorten(load(source), seconds)
    yaml = YAML()
    tree = yaml.load(source.read_text(encoding="utf-8"))
    phases, settings = tree["phases"], short.phases
    phases["shadow_write"]["soak"] = _s(settings.soak_s)
    phases["verify"]["soak"] = _s(settings.verify_soak_s)
    phases["rollback"]["quiet"] = _s(settings.rollback_quiet_s)
    phases["finish"]["quiet"] = _s(settings.finish_quiet_s)
    reads = phases["read_switch"]
    reads["hold"], reads["ttl"], reads["poll"] = _s(settings.hold_s), _s(settings.ttl_s), _s(settings.poll_s)
    tree["checks"]["max_wait"] = _s(short.limits.max_wait_s)
    for written, gate in zip(tree.get("gates") or (), short.gates, strict=True):
        written["interval"] = _s(gate.interval_s)
    with target.open("w", encoding="utf-8") as file:
        yaml.dump(tree, file)
    return load(target)


def _s(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
