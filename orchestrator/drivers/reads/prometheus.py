"""One number from Prometheus, by its HTTP API (`/api/v1/query`), and what each other answer means.

No series, several series, NaN and infinities, warnings, errors, silence and garbage are all *no number*, each with its
own words: an empty answer is never taken for 0. The token comes from the environment alone, and is sent neither over
plain HTTP to another machine nor to wherever a redirect points. Proxies of the environment are not used.
"""

from __future__ import annotations

import json
import os
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from orchestrator.model.runbook import PrometheusSource
from orchestrator.settings import Secret

URL, TOKEN, CA = "ROLLOUT_PROMETHEUS_URL", "ROLLOUT_PROMETHEUS_TOKEN", "ROLLOUT_PROMETHEUS_CA"
_MOST_BYTES = 1 << 20
_SHOWN = 120
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class _NoAnswer(Exception):
    """There is no number; the text says why in a few words."""


class PrometheusProbe:
    """Asks one server. What the environment says (``ROLLOUT_PROMETHEUS_URL``, ``_TOKEN``, ``_CA``) goes before the
    runbook."""

    def __init__(self, source: PrometheusSource, env: Mapping[str, str] | None = None) -> None:
        env = os.environ if env is None else env
        self._url = (env.get(URL) or source.url).rstrip("/")
        self._ca = env.get(CA) or source.ca
        self._token = Secret(env.get(TOKEN, ""))
        self._open: OpenerDirector | None = None

    def read(self, query: str, timeout_s: float) -> float | str:
        """The number (NaN and infinities as they are), or in words why there is none. Never raises for what the server
        does; ends within ``timeout_s`` once the name of the server is resolved."""
        try:
            return _number(self._asked(query, timeout_s))
        except _NoAnswer as none:
            return str(none)

    def _asked(self, query: str, timeout_s: float) -> bytes:
        if not self._url:
            raise _NoAnswer(f"no Prometheus is named: set prometheus.url in the runbook, or {URL}")
        try:
            address = urlsplit(self._url)
            away = address.scheme != "https" and address.hostname not in _LOOPBACK
        except ValueError as error:
            raise _NoAnswer(f"the address of Prometheus cannot be read: {error}") from error
        if address.scheme not in ("http", "https"):
            raise _NoAnswer(f"the address of Prometheus begins with {address.scheme or 'nothing'}, not with https")
        if self._token and away:
            raise _NoAnswer("the token is not sent over plain http to another machine: use https")
        words = urlencode({"query": query, "timeout": f"{max(1, round(timeout_s * 1000))}ms"})
        request = Request(f"{self._url}/api/v1/query?{words}", headers={"Accept": "application/json"})
        if self._token:
            request.add_unredirected_header("Authorization", f"Bearer {self._token.reveal()}")
        return self._answer(request, timeout_s)

    def _answer(self, request: Request, timeout_s: float) -> bytes:
        until = time.monotonic() + timeout_s
        try:
            with self._opener().open(request, timeout=timeout_s) as response:
                return _body(response, until, timeout_s)
        except HTTPError as error:
            with error:
                raise _NoAnswer(_refused(error)) from error
        except TimeoutError as error:
            raise _NoAnswer(f"Prometheus gave no answer within {timeout_s:g} s") from error
        except URLError as error:
            if isinstance(error.reason, TimeoutError):
                raise _NoAnswer(f"Prometheus gave no answer within {timeout_s:g} s") from error
            raise _NoAnswer(f"Prometheus cannot be reached: {_told(error.reason)}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise _NoAnswer(f"Prometheus cannot be asked: {_told(error)}") from error

    def _opener(self) -> OpenerDirector:
        """Made once: reading the machine's authorities takes longer than most answers."""
        if self._open is None:
            context = ssl.create_default_context(cafile=self._ca or None)
            self._open = build_opener(ProxyHandler({}), _NoRedirect(), HTTPSHandler(context=context))
        return self._open


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> None:
        """An address that moved is told, not followed."""


def _body(response: HTTPResponse, until: float, timeout_s: float) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.read1(1 << 16):
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise _NoAnswer("the answer is longer than 1 MiB: it is no number")
        if time.monotonic() > until:
            raise _NoAnswer(f"Prometheus gave no whole answer within {timeout_s:g} s")
    return b"".join(parts)


def _refused(error: HTTPError) -> str:
    if error.code in (401, 403):
        return f"Prometheus does not let us ask ({error.code}): look at {TOKEN}"
    if 300 <= error.code < 400:
        return f"Prometheus answers with a redirect ({error.code}), which is not followed: correct its address"
    try:
        told = json.loads(error.read(_MOST_BYTES))
        return f"Prometheus answers {error.code} {told['errorType']}: {told['error']}"[: 2 * _SHOWN]
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return f"Prometheus answers {error.code} {error.reason}"


def _number(body: bytes) -> float:
    """The one value of an answer. Raises _NoAnswer for everything that is not exactly one."""
    try:
        answer = json.loads(body)
        if answer["status"] != "success":
            raise _NoAnswer(f"Prometheus answers {answer.get('errorType')}: {answer.get('error')}"[: 2 * _SHOWN])
        if warned := answer.get("warnings"):
            raise _NoAnswer(f"Prometheus warns that the answer may not be whole: {str(warned[0])[:_SHOWN]}")
        kind, result = answer["data"]["resultType"], answer["data"]["result"]
        if kind == "vector" and len(result) != 1:
            raise _NoAnswer(_not_one(result))
        if kind not in ("vector", "scalar"):
            raise _NoAnswer(f"a {kind} instead of one number")
        _, value = result[0]["value"] if kind == "vector" else result
        if not isinstance(value, str):
            raise _NoAnswer(f"no answer of Prometheus: {body[:_SHOWN]!r}")
        return float(value)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise _NoAnswer(f"no answer of Prometheus: {body[:_SHOWN]!r}") from error


def _not_one(result: list[Any]) -> str:
    if not result:
        return "no series matches: an empty answer is not 0 (or vector(0) makes it one, where that is meant)"
    return f"{len(result)} series instead of one number: aggregate them with sum(), max() or avg()"


def _told(error: object) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)[:_SHOWN] or type(error).__name__
