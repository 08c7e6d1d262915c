"""What every test may ask for: a real primary and replica, a fresh schema on it, and hypothesis profiles."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.server import Server
from tests.support.servers import guarded_pair, script
from tests.support.state import state_schema

settings.register_profile("dev", max_examples=60, deadline=None)
settings.register_profile("ci", max_examples=100, deadline=None, derandomize=True, print_blob=True)
settings.register_profile(
    "long", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


def pytest_configure() -> None:
    """SIGTERM ends the run as Ctrl-C does, so that fixtures are torn down. Whoever was started in the background, or
    under nohup, ignores SIGINT or SIGHUP, and so would all that it starts: a handler is not handed down."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


_LONG = frozenset({"crash", "walk"})


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before -m selects by the mark
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """A test that needs the servers is an integration test, whether it says so or not. The longest files come first:
    one that began last would leave the other workers without work."""
    for item in items:
        if "pair" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.integration)
    yield
    items.sort(key=lambda item: not any(mark.name in _LONG for mark in item.iter_markers()))


@pytest.fixture(scope="session")
def pair() -> Iterator[Pair]:
    """A running primary and replica, shared by the whole run: leave their global settings as they were."""
    with guarded_pair() as running:
        yield running


@pytest.fixture(scope="session")
def primary(pair: Pair) -> Server:
    """The primary of the pair."""
    return pair.primary


@pytest.fixture(scope="session")
def replica(pair: Pair) -> Server:
    """The replica of the pair."""
    return pair.replica


@pytest.fixture
def schema(primary: Server) -> Iterator[str]:
    """The name of an empty database on the primary; it, and the tool's own ``_rollout``, are gone after the test."""
    name = f"t_{uuid.uuid4().hex[:12]}"
    # The server remembers so many kinds of statements, each once for each schema: a full book would be blind.
    script(
        primary,
        f"TRUNCATE performance_schema.events_statements_summary_by_digest;"
        f" CREATE DATABASE {name} DEFAULT CHARACTER SET utf8mb4",
    )
    yield name
    # A session that the test forgot may hold a metadata lock; the drop must not wait for it for ever.
    script(
        primary,
        f"SET SESSION lock_wait_timeout = 30; DROP DATABASE IF EXISTS {name}; DROP DATABASE IF EXISTS _rollout",
    )


@pytest.fixture
def schema_name(primary: Server) -> Iterator[str]:
    """The name of a state schema that nobody else uses; gone after the test."""
    with state_schema(primary) as name:
        yield name
