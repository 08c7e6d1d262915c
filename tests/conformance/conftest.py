"""Both stores, under one name: a test that takes ``world`` runs on the memory store and on a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from orchestrator.mysql.clock import SystemClock
from orchestrator.ports import Store
from orchestrator.store.memory import MemoryStore
from orchestrator.store.mysql import MysqlStore
from orchestrator.store.place import LeaseTimes
from tests.support.state import settings_of, state_schema

TIMES = LeaseTimes(heartbeat_s=0.05, renew_s=0.1, silence_s=3.0, dead_s=10.0, idle_s=4)


@dataclass(frozen=True)
class World:
    """``actor`` gives the store as one more process would have it."""

    actor: Callable[[], Store]


@pytest.fixture(params=["memory", pytest.param("mysql", marks=pytest.mark.integration)])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        one = MemoryStore(SystemClock(), times=TIMES)
        yield World(lambda: one)
        return
    server = request.getfixturevalue("primary")
    stores: list[MysqlStore] = []
    with state_schema(server) as schema:

        def actor() -> Store:
            stores.append(MysqlStore(settings_of(server, schema), SystemClock(), times=TIMES))
            return stores[-1]

        actor().install()
        yield World(actor)
        for store in stores:
            store.close()


@pytest.fixture
def store(world: World) -> Store:
    return world.actor()
