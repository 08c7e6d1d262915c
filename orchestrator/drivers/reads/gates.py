"""Takes samples of gates: drift by our own full pass, a number from SQL, a number or an exit code from a command."""

from __future__ import annotations

import shlex
import subprocess

from orchestrator.model.facts import Need
from orchestrator.model.runbook import GateSpec
from orchestrator.mysql.probe import NumberProbe
from orchestrator.mysql.site import Site
from orchestrator.ports import Observer
from orchestrator.settings import environment_for_commands


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
    """The number that the command prints; without one its exit code (0 passes a ``max: 0``). No shell."""
    try:
        ended = subprocess.run(
            shlex.split(gate.argument),
            capture_output=True,
            text=True,
            timeout=gate.timeout_s,
            env=environment_for_commands(ROLLOUT_GATE=gate.name),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {gate.timeout_s:g} s"
    except (OSError, ValueError) as error:
        return f"cannot be run: {error}"
    printed = ended.stdout.strip()
    if not printed:
        return float(ended.returncode)
    if ended.returncode != 0:
        return f"exit code {ended.returncode}: {(ended.stderr or printed).strip()[:200]}"
    try:
        return float(printed.splitlines()[-1])
    except ValueError:
        return f"{printed[:60]!r} is not a number"
