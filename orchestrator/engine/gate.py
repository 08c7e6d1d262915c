"""The wait before a step: nothing is begun until every check that is due passes on fresh facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.engine.judging import Judge, refusal, refused
from orchestrator.model.outcome import Outcome, Progress, Result
from orchestrator.model.step import KeepFlags, SetPercent, Step, step_class
from orchestrator.model.verdict import Judgement, Verdict
from orchestrator.ports import Clock, Watcher

if TYPE_CHECKING:
    from orchestrator.engine.pulse import Pulse

_POLL_S = 0.5


def wait_for_checks(judge: Judge, clock: Clock, watcher: Watcher, pulse: Pulse, step: Step) -> Outcome | None:
    """None when the step may begin; else PAUSED (somebody asked), BACK, or HELD after ``max_wait``.

    Raises the refusal's own error when a check refuses: nothing was begun. Percent steps are not awaited here, because
    their flag must be renewed while they wait: their driver beats, and the same checks are judged on its beats.
    """
    if isinstance(step, SetPercent | KeepFlags):
        return None
    began = clock.monotonic()
    while True:
        asked = pulse.requested()
        if asked is not None:
            return Outcome(Result.PAUSED, asked.reason)
        bad = [v for v in judge.before(step_class(step), *pulse.besides, stage=pulse.record.phase) if not v.good]
        if not bad:
            return None
        if pulse.may_go_back and any(v.goes_back and v.judgement is not Judgement.UNSEEN for v in bad):
            return Outcome(Result.BACK, _reasons(bad), evidence=_evidence(bad))
        if refusing := refused(bad):
            raise refusal(refusing)
        waited_s = clock.monotonic() - began
        if waited_s >= judge.limits.max_wait_s:
            return Outcome(
                Result.HELD,
                f"{_reasons(bad)} (waited {waited_s:.0f} s)",
                expected="; ".join(f"{v.check}: {v.limit}" for v in bad),
                next="; ".join(dict.fromkeys(v.next for v in bad if v.next)),
                evidence=_evidence(bad),
            )
        pulse.told(Progress(note=f"waits: {_reasons(bad)}", unit="", throttled_s=waited_s, elapsed_s=waited_s))
        watcher.waiting(pulse.record, bad, waited_s)
        clock.sleep(_POLL_S)


def _reasons(verdicts: list[Verdict]) -> str:
    return "; ".join(v.reason for v in verdicts)


def _evidence(verdicts: list[Verdict]) -> tuple[tuple[str, ...], ...]:
    return tuple((v.check, v.seen, v.limit, v.judgement.value) for v in verdicts)
