"""The same runbook with waits of seconds, for a demonstration or a test: same contract, same digest, same text."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.model.runbook import GateSpec, Runbook


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
