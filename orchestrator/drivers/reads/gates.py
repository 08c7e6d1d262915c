"""Takes samples of gates: drift by our own full pass, a number from SQL, a number or an exit code from a command."""

from __future__ import annotations

from orchestrator.command import CommandFailed, run_command
from orchestrator.model.facts import Need
from orchestrator.model.runbook import GateSpec
from orchestrator.mysql.probe import NumberProbe
from orchestrator.mysql.site import Site
from orchestrator.ports import Observer


class Gates:
    """Implements ports.GateRunner."""

    def __init__(self, site: Site, observer: Observer) -> None:
        self._probe = NumberProbe(site)
        self._observer = observer

    def sample(self, gate: GateSpec) -> float | str:
        match gate.kind:
            case "drift":
                reading = self._observer.look(frozenset({Need.DRIFT})).drift
                if reading is None or reading.value is None:
                    return reading.unseen if reading is not None else "nobody looked"
                return float(reading.value.mismatches)
            case "sql":
                return self._probe.read(gate.argument, gate.timeout_s)
            case "command":
                return _run(gate)
            case _:
                return f"there is no gate of kind {gate.kind}"


def _run(gate: GateSpec) -> float | str:
    """The number that the command prints; without one its exit code (0 passes a ``max: 0``)."""
    try:
        ended = run_command(gate.argument, gate.timeout_s, ROLLOUT_GATE=gate.name)
    except CommandFailed as failed:
        return str(failed)
    printed = ended.out.strip()
    if not printed:
        return float(ended.code)
    if ended.code != 0:
        return f"exit code {ended.code}: {(ended.err or printed).strip()[:200]}"
    try:
        return float(printed.splitlines()[-1])
    except ValueError:
        return f"{printed[:60]!r} is not a number"
