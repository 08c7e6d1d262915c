"""Law 8: what a fill and a comparison need does not grow with the table."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from orchestrator.drivers.rows import CompareDriver, FillDriver
from orchestrator.model.outcome import GO, Outcome, Progress, Result, Signal
from orchestrator.sandbox.server import Server
from tests.support.orders import compare, fill, make_orders, site
from tests.support.rows import begin_rollout
from tests.support.servers import script, sql

FEW, MANY = 2_000, 20_000
# Of the many rows one key each would be far more than this.
SLACK_BYTES = 150_000


class Deaf:
    """A beat that remembers nothing, so that the test itself does not grow."""

    epoch = 1

    def __call__(self, progress: Progress) -> Signal:
        return GO


@dataclass(frozen=True)
class Cost:
    peak_bytes: int
    connections: int


def cost(server: Server, work: Callable[[], Outcome]) -> Cost:
    """The most memory that the work held at a time, and how many connections it opened."""

    def opened() -> int:
        return int(sql(server, "SHOW GLOBAL STATUS LIKE 'Connections'")[0][1])

    gc.collect()
    before = opened()
    tracemalloc.start()
    try:
        assert work().result is Result.DONE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return Cost(peak, opened() - before - 1)


@pytest.mark.parametrize("work", ["fill", "compare"])
def test_memory_and_connections_do_not_grow_with_the_table(primary: Server, schema: str, work: str) -> None:
    begin_rollout(primary)

    def measured(rows: int) -> Cost:
        script(primary, "DROP TABLE IF EXISTS orders; DELETE FROM _rollout.position", schema)
        make_orders(primary, schema, rows)
        filling = FillDriver(site(primary, schema))
        if work == "fill":
            return cost(primary, lambda: filling.apply(fill(schema, rows=500), Deaf()))
        assert filling.apply(fill(schema, rows=5000), Deaf()).result is Result.DONE
        return cost(primary, lambda: CompareDriver(site(primary, schema)).apply(compare(schema, "verify"), Deaf()))

    measured(FEW)  # what is loaded only once is loaded now
    few, many = measured(FEW), measured(MANY)
    assert many.connections == few.connections <= 2
    assert many.peak_bytes < few.peak_bytes + SLACK_BYTES
