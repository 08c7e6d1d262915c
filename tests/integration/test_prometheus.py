"""Gates that ask Prometheus: what each answer means, and that only one finite number of one series is ever judged."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from orchestrator.drivers.reads.prometheus import CA, TOKEN, URL, PrometheusProbe
from orchestrator.model.gate import GateRun, GateWord
from orchestrator.model.runbook import GateSpec, PrometheusSource
from tests.support.prometheus import (
    GARBAGE,
    INFINITE,
    NAN,
    NINE,
    NOTHING,
    SEVERAL,
    ZERO,
    answering,
    certificate,
    free_port,
    prometheus,
    say,
)

pytestmark = pytest.mark.integration
ONCE = GateSpec("errors", "prometheus", max=1.0, count=1, failure_limit=1, inconclusive_limit=1)
GOOD = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0"]}]}}'


def asked(url: str, query: str = ZERO, timeout_s: float = 5.0, **env: str) -> float | str:
    return PrometheusProbe(PrometheusSource(url), env).read(query, timeout_s)


def word(sample: float | str) -> GateWord:
    return GateRun(ONCE).with_sample(sample, 0.0).word


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tmp_path_factory.mktemp("prometheus")) as url:
        yield url


@pytest.mark.parametrize(("query", "number"), [(ZERO, 0.0), (NINE, 9.0), ("3", 3.0)])
def test_one_series_or_a_scalar_is_a_number(server: str, query: str, number: float) -> None:
    assert asked(server, query) == number
    assert word(number) is (GateWord.PASS if number <= 1 else GateWord.FAIL)


@pytest.mark.parametrize("query", [NAN, INFINITE])
def test_what_is_no_finite_number_is_never_judged(server: str, query: str) -> None:
    number = asked(server, query)
    assert isinstance(number, float)
    assert not math.isfinite(number)
    assert word(number) is GateWord.CANNOT_SAY


@pytest.mark.parametrize(
    ("query", "why"),
    [
        (NOTHING, "no series matches: an empty answer is not 0"),
        (SEVERAL, "2 series instead of one number: aggregate"),
        (GARBAGE, "Prometheus answers 400 bad_data: "),
        ('"text"', "a string instead of one number"),
        ("up[5m]", "a matrix instead of one number"),
    ],
)
def test_an_answer_that_is_not_one_number_says_what_it_is(server: str, query: str, why: str) -> None:
    said = asked(server, query)
    assert isinstance(said, str)
    assert said.startswith(why)
    assert word(said) is GateWord.CANNOT_SAY


def test_a_server_that_is_gone_cannot_say() -> None:
    assert asked(f"http://127.0.0.1:{free_port()}") == "Prometheus cannot be reached: Connection refused"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"<html>sign in</html>", "no answer of Prometheus"),
        (b"", "no answer of Prometheus"),
        (b"[" * 100_000, "no answer of Prometheus"),
        (b'{"status":"success"}', "no answer of Prometheus"),
        (GOOD.replace(b'"0"', b"0"), "no answer of Prometheus"),
        (GOOD.replace(b'"0"', b'"many"'), "no answer of Prometheus"),
        (GOOD[:-1] + b',"warnings":["a store is gone"]}', "Prometheus warns that the answer may not be whole: a store"),
        (GOOD + b" " * (1 << 21), "the answer is longer than 1 MiB"),
    ],
)
def test_garbage_is_no_number(body: bytes, why: str) -> None:
    with answering(lambda h: say(h, 200, body)) as url:
        assert str(asked(url)).startswith(why)


def _silent(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.recv(1)


def _dripping(handler: BaseHTTPRequestHandler) -> None:
    """One byte at a time: no single read ever takes too long."""
    handler.send_response(200)
    handler.end_headers()
    until = time.monotonic() + 5
    while time.monotonic() < until:
        handler.wfile.write(b" ")
        time.sleep(0.02)


@pytest.mark.parametrize("answer", [_silent, _dripping])
def test_a_server_that_takes_too_long_is_left_in_time(answer: object) -> None:
    with answering(answer) as url:  # type: ignore[arg-type]
        began = time.monotonic()
        assert str(asked(url, timeout_s=0.3)).startswith("Prometheus gave no")
        assert time.monotonic() - began < 2


def test_tls_is_believed_only_from_an_authority_that_was_named(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with prometheus(tmp_path, (cert, key)) as url:
        assert str(asked(url)).startswith("Prometheus cannot be reached: its certificate is not believed: self-signed")
        assert asked(url, **{CA: str(cert)}) == 0.0
        assert PrometheusProbe(PrometheusSource(url, str(cert)), {}).read(NINE, 5.0) == 9.0
    assert str(asked("https://127.0.0.1:1", **{CA: str(tmp_path / "none")})).startswith("Prometheus cannot be asked: ")


def test_the_token_comes_from_the_environment_and_goes_to_the_server_only() -> None:
    seen: list[str | None] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers["Authorization"])
        say(handler, 200 if seen[-1] == "Bearer mark-71" else 401, GOOD)

    with answering(answer) as url:
        assert asked(url) == f"Prometheus does not let us ask (401): look at {TOKEN}"
        assert asked("http://127.0.0.1:1", **{TOKEN: "mark-71", URL: url}) == 0.0
    assert seen == [None, "Bearer mark-71"]
    assert asked("http://prometheus.invalid", **{TOKEN: "mark-71"}) == (
        "the token is not sent over plain http to another machine: use https"
    )


def test_a_redirect_is_told_and_not_followed() -> None:
    asked_for: list[str] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        asked_for.append(handler.path)
        handler.send_response(302)
        handler.send_header("Location", "/elsewhere")
        handler.end_headers()

    with answering(answer) as url:
        assert str(asked(url, **{TOKEN: "mark-71"})).startswith("Prometheus answers with a redirect (302)")
    assert len(asked_for) == 1


@pytest.mark.parametrize(
    ("url", "why"),
    [("", "no Prometheus is named"), ("file:///etc/passwd", "the address of Prometheus begins with file")],
)
def test_without_a_usable_address_it_cannot_say(url: str, why: str) -> None:
    assert str(asked(url)).startswith(why)
