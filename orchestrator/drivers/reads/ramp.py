"""The ramp: raises the flags step by step, watches while it holds, and takes readers back in the moment that it must.

The flags are a dead man's switch: while this driver watches it renews them; when it dies they expire on the server.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.drivers.reads.analysis import Analysis
from orchestrator.model.gate import GateRun
from orchestrator.model.outcome import Outcome, Progress, Result, Seen, Signal, SignalKind, goes_on, stopped_by
from orchestrator.model.step import (
    CloseRollout,
    KeepFlags,
    LowerFlags,
    MeasureBaselines,
    OpenWrites,
    ReadsStep,
    SetPercent,
    WatchReaders,
)
from orchestrator.model.window import Window
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql import flag as flag_sql
from orchestrator.ports import Beat, Flags, GateRunner

_TICK_S = 0.25
# A row is written each time: often enough to notice within a second that somebody lowered it.
_RENEW_S = 1.0
_ANSWER_S = 2.0
_STAYS = "-- on_watcher_loss: stay: the flags never expire; when nobody watches, readers stay on the new column"


class RampDriver:
    """Driver of ReadsStep."""

    def __init__(self, site: Site, flags: Flags, gates: GateRunner) -> None:
        self._runbook = site.runbook
        self._schema = site.settings.state_schema
        self._clock = site.clock
        self._flags = flags
        self._gates = gates

    def describe(self, step: ReadsStep) -> Sequence[str]:
        match step:
            case OpenWrites():
                lines = (
                    *flag_sql.describe_open(self._runbook.id, step.ttl_s, self._schema),
                    *self._flags.beside(True, 0),
                )
                return lines if step.ttl_s is not None else (*lines, _STAYS)
            case SetPercent():
                lasts = "never expiring" if step.ttl_s is None else "renewed on every beat"
                hours = self._runbook.phases.reads_window
                within = f"begins within {hours}; " if hours is not None else ""
                held = f"-- {within}hold {step.hold_s:g} s, gates: {', '.join(step.gates)}; {lasts}"
                row = flag_sql.describe_percent(self._runbook.id, step.percent, step.ttl_s, self._schema)
                return (*row, *self._flags.beside(True, step.percent), held)
            case KeepFlags():
                return flag_sql.describe_keep(self._runbook.id, self._runbook.phases.percents[-1], self._schema)
            case WatchReaders():
                lasts = "until finish" if step.seconds is None else f"{step.seconds:g} s"
                return (f"-- {lasts} under watch, gates at a lower rate: {', '.join(step.gates)}",)
            case LowerFlags():
                return (*self._flags.beside(False, 0), *flag_sql.describe_lower(self._runbook.id, self._schema))
            case MeasureBaselines():
                return tuple(f"-- sample {name}: {self._runbook.gate(name).argument or 'drift'}" for name in step.gates)
            case CloseRollout():
                return flag_sql.describe_keep(self._runbook.id, 100, self._schema)

    def apply(self, step: ReadsStep, beat: Beat) -> Outcome:
        match step:
            case OpenWrites():
                self._flags.open(beat.epoch, step.ttl_s)
                return Outcome(Result.DONE, "new_writes is open, readers are at 0 %")
            case SetPercent():
                return self._hold(step, beat)
            case KeepFlags():
                last = self._runbook.phases.percents[-1]
                if not self._flags.keep(beat.epoch, last):
                    return self._lost(beat)
                return Outcome(Result.DONE, f"readers are on the new column ({last} %), the flag does not expire")
            case WatchReaders():
                return self._keep_watch(step, beat)
            case LowerFlags():
                self._flags.lower(beat.epoch)
                return Outcome(Result.DONE, f"readers are at 0 %, new_writes is closed: {step.why}")
            case MeasureBaselines():
                return self._measure(step, beat)
            case CloseRollout():
                self._flags.keep(beat.epoch, 100)
                return Outcome(Result.DONE, "the flag row stays at 100 %, never expiring, until rollout purge")

    def observe(self, step: ReadsStep, beat: Beat) -> Seen:
        """Everything here may be done again; a percent step must be held again, so it is never found done."""
        if isinstance(step, LowerFlags):
            flag = self._flags.read()
            return Seen.ABSENT if flag.raised else Seen.PRESENT
        return Seen.ABSENT

    def abandon(self, step: ReadsStep, beat: Beat) -> Outcome:
        if isinstance(step, OpenWrites | SetPercent | KeepFlags):
            self._flags.lower(None)
            return Outcome(Result.DONE, "readers are at 0 %, new_writes is closed")
        return Outcome(Result.DONE, "nothing is half done")

    def _measure(self, step: MeasureBaselines, beat: Beat) -> Outcome:
        """Take ``count`` samples of each gate that compares with its past; the mean is the baseline."""
        figures: dict[str, float] = {}
        for name in step.gates:
            run = GateRun(self._runbook.gate(name))
            wanted = run.spec.count if run.spec.max_increase is not None else 1
            while len(run.samples) < wanted:
                signal = self._wait(beat, run.due_at, Progress(note=f"measuring {name}"))
                if signal is not None:
                    return stopped_by(signal)
                sampling = self._gates.begin(run.spec)
                while (taken := sampling()) is None:
                    progress = Progress(done=self._gates.rows_seen, note=f"measuring {name}")
                    signal = self._wait(beat, self._clock.monotonic() + _TICK_S, progress)
                    if signal is not None:
                        return stopped_by(signal)
                run = run.with_sample(taken, self._clock.monotonic())
            values = [s.value for s in run.samples if s.value is not None]
            if len(values) < wanted:
                return Outcome(
                    Result.HELD,
                    f"gate {name} cannot say: {run.samples[-1].problem}",
                    "a number from every gate before anything moves",
                    f"try the gate by hand: {run.spec.argument}",
                )
            if run.spec.max is not None and values[-1] > run.spec.max:
                return Outcome(
                    Result.HELD, f"gate {name} fails before anything moved: {values[-1]:g} > {run.spec.max:g}"
                )
            figures[name] = sum(values) / len(values)
        shown = ", ".join(f"{name} {value:g}" for name, value in figures.items())
        return Outcome(Result.DONE, f"baselines: {shown or 'no gate'}", figures=figures)

    def _wait(self, beat: Beat, until: float, progress: Progress) -> Signal | None:
        """Beat until ``until``; the signal that ends the step, or None."""
        while True:
            signal = beat(progress)
            if not goes_on(signal):
                return signal
            left_s = until - self._clock.monotonic()
            if left_s <= 0:
                return None
            self._clock.sleep(min(_TICK_S, left_s))

    def _hold(self, step: SetPercent, beat: Beat) -> Outcome:
        """Outside of the window the step waits where readers are, watched as ever; then it is made, and held."""
        began = self._clock.monotonic()
        window = self._runbook.phases.reads_window
        if window is not None and window.opens_in_s(self._clock.now()) > 0:
            stands = self._flags.read().read_percent
            waited = self._watch(replace(step, percent=stands), beat, f"{step.percent} % waits for {window}", window)
            if waited.result is not Result.DONE:
                return waited
        self._flags.set_percent(beat.epoch, step.percent, step.ttl_s)
        said = f"; it was said: {self._flags.said}" if self._flags.said else ""
        held = self._watch(step, beat, f"{step.percent} %")
        if held.result is not Result.DONE:
            return held
        figures = {"percent": float(step.percent), "held_s": self._clock.monotonic() - began}
        return replace(held, note=f"{held.note}{said}", figures=figures)

    def _watch(self, step: SetPercent, beat: Beat, words: str, window: Window | None = None) -> Outcome:
        """Renew, listen and judge until the hold time is over and every gate passes, or until ``window`` opens."""
        analysis = Analysis(self._runs(step), self._gates)
        held_s, last = 0.0, self._clock.monotonic()
        renewed_at = last
        while True:
            signal = beat(self._progress(held_s, step.hold_s, words, analysis))
            if not goes_on(signal):
                return self._down(beat, signal)
            now = self._clock.monotonic()
            if now - renewed_at >= _RENEW_S:
                renewed_at = now
                if not self._flags.renew(beat.epoch, step.percent, step.ttl_s):
                    return self._lost(beat)
            # Time in which a check holds is no time in which the step was proven.
            held_s, last = (held_s + now - last if signal.kind is SignalKind.GO else held_s), now
            analysis.look(now)
            if analysis.bad:
                return self._failed(beat, analysis)
            if window is not None:
                if window.opens_in_s(self._clock.now()) <= 0 and analysis.at_rest:
                    return Outcome(Result.DONE)
            elif held_s >= step.hold_s and analysis.passes:
                return Outcome(Result.DONE, f"{step.percent} % held {held_s:.0f} s")
            self._clock.sleep(_TICK_S)

    def _keep_watch(self, step: WatchReaders, beat: Beat) -> Outcome:
        """As a percent step is watched, at the lower rate; the flag does not expire here, and is not renewed."""
        analysis = Analysis(self._runs(step), self._gates, slow=True)
        passed_s, last = 0.0, self._clock.monotonic()
        while True:
            signal = beat(self._progress(passed_s, step.seconds or 0.0, "watched", analysis))
            if not goes_on(signal):
                return stopped_by(signal)
            now = self._clock.monotonic()
            passed_s, last = (passed_s + now - last if signal.kind is SignalKind.GO else passed_s), now
            analysis.look(now)
            if analysis.bad:
                return self._failed(beat, analysis)
            if step.seconds is not None and passed_s >= step.seconds and analysis.passes:
                return Outcome(Result.DONE, f"{passed_s:.0f} s under watch", figures={"seconds": passed_s})
            self._clock.sleep(_TICK_S)

    def _progress(self, passed_s: float, wanted_s: float, words: str, analysis: Analysis) -> Progress:
        """Seconds of the step; when these are over and a pass over the rows is not, its rows."""
        note = f"{words}  {analysis.words}"
        if passed_s >= wanted_s > 0 and analysis.in_a_pass:
            return Progress(done=self._gates.rows_seen, note=f"{note}, by a pass over every row", elapsed_s=passed_s)
        return Progress(round(passed_s), round(wanted_s), "s", 1.0, note, elapsed_s=passed_s)

    def _runs(self, step: SetPercent | WatchReaders) -> list[GateRun]:
        return [GateRun(self._runbook.gate(name), dict(step.baselines).get(name)) for name in step.gates]

    def _failed(self, beat: Beat, analysis: Analysis) -> Outcome:
        self._flags.lower(beat.epoch)
        words = "; ".join(f"gate {r.spec.name}: {r.word.value} ({r.samples[-1]})" for r in analysis.bad)
        limits = "; ".join(f"{r.spec.name} within {r.evidence[2]}" for r in analysis.bad)
        return Outcome(Result.BACK, words, expected=limits, evidence=tuple(r.evidence for r in analysis.runs))

    def _down(self, beat: Beat, signal: Signal) -> Outcome:
        """The flags go down before anything else is done, whoever asked."""
        self._flags.lower(beat.epoch)
        return stopped_by(signal)

    def _lost(self, beat: Beat) -> Outcome:
        """The row is not as we left it: expired, or lowered by somebody. Whoever did it may have left a request."""
        until = self._clock.monotonic() + _ANSWER_S
        signal = self._wait(beat, until, Progress(note="the flag is not ours any more"))
        self._flags.lower(beat.epoch)
        if signal is not None:
            return stopped_by(signal)
        return Outcome(
            Result.BACK,
            "the flag expired or was lowered by somebody else while it was watched",
            "a flag that only this rollout moves, renewed in time",
        )
