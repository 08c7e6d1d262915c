"""Takes samples of gates: rows and the mirror by our own look, a number from SQL or Prometheus, or from a command."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from orchestrator.command import CommandFailed, run_command
from orchestrator.drivers.reads.prometheus import PrometheusProbe
from orchestrator.model.facts import DriftFacts, Facts, MirrorFacts, Need, Reading
from orchestrator.model.gate import GateRun
from orchestrator.model.outcome import Progress
from orchestrator.model.runbook import OWN_GATES, PASSES, GateSpec
from orchestrator.model.verdict import Judgement, Verdict
from orchestrator.mysql.observer import MysqlObserver
from orchestrator.mysql.probe import NumberProbe
from orchestrator.mysql.site import Site
from orchestrator.ports import Sampling

_ENDS_WITHIN_S = 5.0
# What a sample may take above its time-outs before nobody waits for it any more.
_GRACE_S = 2.0


class Gates:
    """Implements ports.GateRunner. ``observer`` makes one. Each gate of ours has one of its own: they look at the same
    time, beside each other and beside the checks."""

    def __init__(self, site: Site, observer: Callable[[], MysqlObserver]) -> None:
        self._runbook = site.runbook
        self._sql = NumberProbe(site)
        self._prometheus = PrometheusProbe(site.runbook.prometheus)
        self._ended = threading.Event()
        self._observers = {kind: observer() for kind in OWN_GATES}
        self._rows = dict.fromkeys(OWN_GATES, 0)
        self._threads: dict[str, threading.Thread] = {}
        self._clock = site.clock

    @property
    def rows_seen(self) -> int:
        return sum(self._rows.values())

    def _goes_on(self, kind: str, progress: Progress) -> bool:
        self._rows[kind] = progress.done
        return not self._ended.is_set()

    def begin(self, gate: GateSpec) -> Sampling:
        """Begin one sample in a thread of its own; while an earlier one of the gate is still under way there is none.

        A sample that does not come is one that says nothing, but for our own passes, which may be as long as the table.
        """
        taken: list[float | str] = []
        earlier = self._threads.get(gate.name)
        if earlier is not None and earlier.is_alive():
            return lambda: "its last sample is still under way"
        thread = threading.Thread(target=self._take, args=(gate, taken), name=f"gate {gate.name}", daemon=True)
        self._threads[gate.name] = thread
        thread.start()
        late_s = gate.timeout_s * (2 if gate.sample_size else 1) + _GRACE_S
        late_at = float("inf") if gate.kind in PASSES else self._clock.monotonic() + late_s

        def ask() -> float | str | None:
            if not thread.is_alive():
                return taken[0] if taken else "the gate failed in a way that is a bug of rollout"
            return f"no answer within {late_s:g} s" if self._clock.monotonic() > late_at else None

        return ask

    def _take(self, gate: GateSpec, taken: list[float | str]) -> None:
        try:
            taken.append(self.sample(gate))
        finally:
            # Whoever closed did not wait for us: what we opened again behind its back is ours to close.
            if self._ended.is_set() and gate.kind in OWN_GATES:
                self._observers[gate.kind].close()

    def sample(self, gate: GateSpec) -> float | str:
        """One sample, waited for: the number, or why there is none. A number that is made of too few events is none."""
        if gate.sample_size:
            events = self._asked(gate, gate.sample_size)
            if isinstance(events, str):
                return f"how many events it is made of cannot be told: {events}"
            if not events >= gate.min_sample_size:
                return f"made of {events:g} events, {gate.min_sample_size:g} are wanted"
        return self._asked(gate, gate.argument)

    def _asked(self, gate: GateSpec, question: str) -> float | str:
        match gate.kind:
            case "drift":
                return _counted(self._look("drift", Need.DRIFT).drift)
            case "invariants":
                return _counted(self._look("invariants", Need.INVARIANTS).invariants)
            case "mirror":
                return _missed(self._look("mirror", Need.MIRROR).mirror)
            case "sql":
                return self._sql.read(question, gate.timeout_s)
            case "prometheus":
                return self._prometheus.read(question, gate.timeout_s)
            case "command":
                return _run(gate, question)
            case _:
                return f"there is no gate of kind {gate.kind}"

    def _look(self, kind: str, need: Need) -> Facts:
        return self._observers[kind].look(frozenset({need}), partial(self._goes_on, kind))

    def tried(self) -> tuple[Verdict, ...]:
        """Each gate of the runbook, sampled once: its present value against its limit, before anybody relies on it.
        What is measured against a baseline passes with any number."""
        return tuple(_verdict(g, self.sample(g)) for g in self._runbook.gates)

    def close(self) -> None:
        """End what is under way, as far as it can be ended, and close every session. Whatever hangs is waited for
        ``_ENDS_WITHIN_S`` in all."""
        self._ended.set()
        until = self._clock.monotonic() + _ENDS_WITHIN_S
        for thread in self._threads.values():
            thread.join(max(0.0, until - self._clock.monotonic()))
        for observer in self._observers.values():
            observer.close()


def _verdict(gate: GateSpec, got: float | str) -> Verdict:
    run = GateRun(gate, baseline=0.0 if gate.max is None else None).with_sample(got, 0.0)
    name, seen, by_hand = f"gate {gate.name}", str(run.samples[0]), f"try by hand: {gate.argument}"
    if run.samples[0].value is None:
        why = run.samples[0].problem
        return Verdict(name, Judgement.UNSEEN, f"{name} cannot say: {why}", why, "one number", by_hand)
    if gate.max is None:
        return Verdict(name, Judgement.PASS, f"{name} {seen}", seen, f"its baseline + {gate.max_increase or 0:.0%}")
    if run.samples[0].value > gate.max:
        return Verdict(name, Judgement.HOLD, f"{name} {seen} > {gate.max:g}", seen, f"{gate.max:g}", by_hand)
    return Verdict(name, Judgement.PASS, f"{name} {seen}", seen, f"{gate.max:g}")


def _counted(reading: Reading[DriftFacts] | None) -> float | str:
    """How many rows are wrong."""
    if reading is None or reading.value is None:
        return (reading.unseen if reading is not None else "") or "nobody looked"
    return float(reading.value.mismatches)


def _missed(reading: Reading[MirrorFacts] | None) -> float | str:
    """0 while the mirror stands as it was installed, else 1."""
    if reading is None or reading.value is None:
        return (reading.unseen if reading is not None else "") or "nobody looked"
    return float(not reading.value.intact)


def _run(gate: GateSpec, command: str) -> float | str:
    """The number that the command prints; without one its exit code (0 passes a ``max: 0``)."""
    try:
        ended = run_command(command, gate.timeout_s, ROLLOUT_GATE=gate.name)
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
