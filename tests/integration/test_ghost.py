"""A change by a real gh-ost: what it does to the table, what it leaves, and who gives the cut-over."""

from __future__ import annotations

from orchestrator.model.outcome import Result, Seen
from orchestrator.sandbox.pair import Pair
from tests.support.ddl import Application, Beats
from tests.support.ghost import beside, driver_for, files, needs_real, orders, site_for, type_of, wider
from tests.support.servers import sql, wait_caught_up

pytestmark = needs_real


def test_the_table_is_swapped_under_traffic_and_only_the_old_one_stays(pair: Pair, schema: str) -> None:
    table = orders(pair.primary, schema)
    driver, beats = driver_for(site_for(pair.primary, table)), Beats()
    with Application(pair.primary, table) as application:
        outcome = driver.apply(wider(table), beats)
    assert outcome.result is Result.DONE, outcome
    assert application.errors == []
    assert type_of(pair.primary, table, "small") == "bigint"
    assert type_of(pair.primary, table, "state") == "varchar(20)"
    assert sql(pair.primary, f"SELECT COUNT(*) FROM {table}") == [(500,)]
    assert set(beside(pair.primary, table)) == {"_orders_del"}
    assert "_orders_del" in outcome.note
    assert files() == []
    assert driver.observe(wider(table)) is Seen.PRESENT
    assert beats.longest_silence_s < 2
    print(outcome, application.longest_wait_s)
    wait_caught_up(pair)
