"""Samples of the gates that throttle, taken beside the work: a slow command must not keep a beat waiting."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.model.facts import GateSample
from orchestrator.model.runbook import GateSpec
from orchestrator.ports import Clock, GateRunner, Sampling

_POLL_S = 0.02
# A beat does not come while the first samples are awaited: a gate without one by then holds for a while.
_FIRST_S = 10.0


class Samples:
    """Each gate is sampled again ``interval_s`` after its last sample, when somebody asks."""

    def __init__(self, gates: Sequence[GateSpec], runner: GateRunner, clock: Clock) -> None:
        self._gates = tuple(gates)
        self._runner = runner
        self._clock = clock
        self._last: dict[str, GateSample] = {}
        self._running: dict[str, Sampling] = {}

    def latest(self) -> tuple[GateSample, ...]:
        """The last sample of each gate. The first question waits for the first samples, ten seconds at most."""
        until = self._clock.monotonic() + min(_FIRST_S, max((g.timeout_s for g in self._gates), default=0.0) + 1.0)
        first = not self._last
        while True:
            for gate in self._gates:
                self._look(gate)
            if not first or len(self._last) == len(self._gates) or self._clock.monotonic() > until:
                return tuple(self._last.values())
            self._clock.sleep(_POLL_S)

    def _look(self, gate: GateSpec) -> None:
        now = self._clock.monotonic()
        running = self._running.get(gate.name)
        if running is None:
            last = self._last.get(gate.name)
            if last is None or now - last.at >= gate.interval_s:
                self._running[gate.name] = self._runner.begin(gate)
            return
        got = running()
        if got is not None:
            del self._running[gate.name]
            words = isinstance(got, str)
            self._last[gate.name] = GateSample(gate.name, None if words else float(got), str(got) if words else "", now)
