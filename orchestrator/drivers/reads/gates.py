"""Takes samples of gates: drift by our own full pass, a number from SQL, a number or an exit code from a command."""

from __future__ import annotations

import threading
from collections.abc import Callable

from orchestrator.command import CommandFailed, run_command
from orchestrator.model.facts import Need
from orchestrator.model.outcome import Progress
from orchestrator.model.runbook import GateSpec
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.probe import NumberProbe
from orchestrator.mysql.site import Site
from orchestrator.ports import Sampling

_ENDS_WITHIN_S = 5.0


class Gates:
    """Implements ports.GateRunner. ``observer`` makes one of its own, whose scans go on as long as they are told to: it
    scans beside the observer by which the checks look."""

    def __init__(self, site: Site, observer: Callable[[Callable[[Progress], bool]], MysqlObserver]) -> None:
        self._probe = NumberProbe(site)
        self._ended = threading.Event()
        self._observer = observer(lambda _: not self._ended.is_set())
        self._threads: list[threading.Thread] = []

    def begin(self, gate: GateSpec) -> Sampling:
        """Begin one sample in a thread of its own. Not two of one gate at a time."""
        taken: list[float | str] = []
        thread = threading.Thread(target=lambda: taken.append(self.sample(gate)), name=f"gate {gate.name}", daemon=True)
        self._threads = [t for t in self._threads if t.is_alive()] + [thread]
        thread.start()

        def ask() -> float | str | None:
            if thread.is_alive():
                return None
            return taken[0] if taken else "the gate failed in a way that is a bug of rollout"

        return ask

    def sample(self, gate: GateSpec) -> float | str:
        """One sample, waited for."""
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

    def close(self) -> None:
        """End what is under way, as far as it can be ended, and close every session."""
        self._ended.set()
        for thread in self._threads:
            thread.join(_ENDS_WITHIN_S)
        self._observer.close()


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
