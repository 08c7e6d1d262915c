"""Laws of a gate's word over its samples."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.model.gate import GateRun, GateWord
from orchestrator.model.runbook import GateSpec

SPEC = GateSpec(name="g", kind="sql", max=1.0, interval_s=2.0, count=5, failure_limit=3, inconclusive_limit=2)
SAMPLES = st.lists(st.one_of(st.floats(0, 2), st.just("no answer")), max_size=12)


def run(samples: list[float | str], spec: GateSpec = SPEC, baseline: float | None = None) -> GateRun:
    gate = GateRun(spec, baseline)
    for at, sample in enumerate(samples):
        gate = gate.with_sample(sample, float(at))
    return gate


def test_no_sample_is_no_pass() -> None:
    assert run([]).word is GateWord.WAITING


def test_a_last_sample_over_the_limit_is_no_pass() -> None:
    assert run([0.0, 0.0, 5.0]).word is GateWord.WAITING


def test_it_fails_at_the_failure_limit_within_the_last_count() -> None:
    assert run([5.0, 5.0]).word is GateWord.WAITING
    assert run([5.0, 0.0, 5.0, 0.0, 5.0]).word is GateWord.FAIL
    assert run([5.0, 5.0, 0.0, 0.0, 0.0, 0.0]).word is GateWord.PASS


def test_silence_never_passes_and_becomes_cannot_say() -> None:
    assert run([0.0, "no answer"]).word is GateWord.WAITING
    assert run([0.0, "no answer", "no answer"]).word is GateWord.CANNOT_SAY


def test_no_number_is_silence() -> None:
    assert run([math.nan]).samples[0].value is None
    assert run([math.inf, -math.inf]).word is GateWord.CANNOT_SAY


def test_an_increase_is_measured_against_the_baseline_and_without_one_cannot_be_said() -> None:
    rising = GateSpec(name="g", kind="sql", max_increase=0.1, count=1, failure_limit=1)
    assert run([110.0], rising, baseline=100.0).word is GateWord.PASS
    assert run([111.0], rising, baseline=100.0).word is GateWord.FAIL
    assert run([0.0], rising, baseline=None).word is GateWord.CANNOT_SAY


def test_the_next_sample_is_due_one_interval_later() -> None:
    assert GateRun(SPEC).with_sample(0.0, 10.0).due_at == 12.0


@given(SAMPLES)
def test_a_pass_has_a_good_last_sample_and_fewer_failures_than_the_limit(samples: list[float | str]) -> None:
    gate = run(samples)
    if gate.word is GateWord.PASS:
        last = samples[-SPEC.count :]
        assert last[-1] != "no answer"
        assert float(last[-1]) <= 1.0
        assert sum(1 for s in last if s != "no answer" and float(s) > 1.0) < SPEC.failure_limit
        assert sum(1 for s in last if s == "no answer") < SPEC.inconclusive_limit
