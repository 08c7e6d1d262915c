"""The mirror goes up update first and comes down insert first, is ours alone, and hurts nobody on the way."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchestrator.drivers.shadow import TriggerDriver
from orchestrator.errors import PrivilegeMissing
from orchestrator.model.contract import Contract, Mapping, TableName, ValueMap
from orchestrator.model.outcome import Result, Seen
from orchestrator.model.step import InstallTrigger, RemoveMirror
from orchestrator.mysql.sql.mirror import trigger_name
from orchestrator.sandbox.server import Server
from orchestrator.settings import Secret
from tests.support.ddl import Application, Beats, column, held, plain_table, site_on
from tests.support.log import general_log, said
from tests.support.servers import script, sql

ID = "ddl-test"


def prepared(server: Server, schema: str) -> Contract:
    """``plain_table`` with a column ``state`` that mirrors ``b``."""
    table = plain_table(server, schema)
    script(server, "ALTER TABLE t ADD COLUMN state VARCHAR(20) NULL", schema)
    forward = ValueMap((("x", "new"), ("y", "done")))
    backward = ValueMap((("new", "x"), ("done", "y")))
    return Contract(table, (column("state", "varchar(20)"),), mappings=(Mapping("state", "b", forward, backward),))


def triggers_of(server: Server, table: TableName) -> list[tuple[str, str, str]]:
    rows = sql(
        server,
        "SELECT TRIGGER_NAME, SQL_MODE, DEFINER FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = %s"
        " AND EVENT_OBJECT_TABLE = %s ORDER BY TRIGGER_NAME",
        (table.schema, table.name),
    )
    return [(str(a), str(b), str(c)) for a, b, c in rows]


def names_of(server: Server, table: TableName) -> set[str]:
    return {name for name, _, _ in triggers_of(server, table)}


def steps(contract: Contract) -> tuple[InstallTrigger, InstallTrigger, RemoveMirror]:
    table = contract.table
    return (
        InstallTrigger(table=table, event="update", family=(table,)),
        InstallTrigger(table=table, event="insert", family=(table,)),
        RemoveMirror(table=table, accepted=(), family=(table,)),
    )


def up(server: Server, contract: Contract) -> TriggerDriver:
    driver = TriggerDriver(site_on(server, contract))
    for step in steps(contract)[:2]:
        outcome = driver.apply(step, Beats())
        assert outcome.result is Result.DONE, outcome
    return driver


def test_the_pair_stands_and_mirrors(primary: Server, schema: str) -> None:
    contract = prepared(primary, schema)
    driver = TriggerDriver(site_on(primary, contract))
    update, insert, remove = steps(contract)
    assert [driver.observe(s, Beats()) for s in (update, insert, remove)] == [Seen.ABSENT, Seen.ABSENT, Seen.PRESENT]
    assert driver.apply(update, Beats()).result is Result.DONE
    assert [driver.observe(s, Beats()) for s in (update, insert, remove)] == [Seen.PRESENT, Seen.ABSENT, Seen.PARTIAL]
    assert driver.apply(insert, Beats()).result is Result.DONE
    assert [driver.observe(s, Beats()) for s in (update, insert, remove)] == [Seen.PRESENT, Seen.PRESENT, Seen.ABSENT]
    ((_, mode, definer), (_, other_mode, _)) = triggers_of(primary, contract.table)
    assert (mode, other_mode) == ("", "")
    assert definer.startswith("rollout@")
    script(primary, "INSERT INTO t (id, b) VALUES (10, 'y'); UPDATE t SET b = 'y' WHERE id = 1", schema)
    assert sql(primary, f"SELECT state FROM {schema}.t WHERE id IN (1, 10)") == [("done",), ("done",)]


def test_installing_again_changes_nothing(primary: Server, schema: str) -> None:
    contract = prepared(primary, schema)
    driver = up(primary, contract)
    before = triggers_of(primary, contract.table)
    assert driver.apply(steps(contract)[0], Beats()).note == "was there already"
    assert triggers_of(primary, contract.table) == before


def test_a_trigger_of_ours_that_somebody_changed_is_made_anew(primary: Server, schema: str) -> None:
    contract = prepared(primary, schema)
    driver = up(primary, contract)
    name = trigger_name(ID, "update")
    script(
        primary,
        f"DROP TRIGGER `{name}`; CREATE TRIGGER `{name}` BEFORE UPDATE ON t FOR EACH ROW SET NEW.state = 'wrong'",
        schema,
    )
    update = steps(contract)[0]
    assert driver.observe(update, Beats()) is Seen.PARTIAL
    assert driver.apply(update, Beats()).result is Result.DONE
    assert driver.observe(update, Beats()) is Seen.PRESENT


def test_the_mirror_comes_down_whole_and_nothing_else_does(primary: Server, schema: str) -> None:
    contract = prepared(primary, schema)
    script(primary, "CREATE TRIGGER theirs BEFORE UPDATE ON t FOR EACH ROW SET NEW.a = NEW.a", schema)
    driver, remove = up(primary, contract), steps(contract)[2]
    shown = [text for text in driver.describe(remove) if text.startswith("DROP")]
    assert [trigger_name(ID, e) in text for e, text in zip(("insert", "update"), shown, strict=True)] == [True, True]
    assert driver.apply(remove, Beats()).result is Result.DONE
    assert names_of(primary, contract.table) == {"theirs"}
    assert driver.observe(remove, Beats()) is Seen.PRESENT
    assert driver.apply(remove, Beats()).note == "was there already"


def test_half_a_mirror_comes_down_too(primary: Server, schema: str) -> None:
    contract = prepared(primary, schema)
    driver, remove = up(primary, contract), steps(contract)[2]
    script(primary, f"DROP TRIGGER `{trigger_name(ID, 'insert')}`", schema)
    assert driver.observe(remove, Beats()) is Seen.PARTIAL
    assert driver.apply(remove, Beats()).result is Result.DONE
    assert names_of(primary, contract.table) == set()


def test_what_is_shown_is_what_runs(primary: Server, schema: str) -> None:
    contract = prepared(primary, schema)
    driver = TriggerDriver(site_on(primary, contract))
    shown = [text for step in steps(contract)[:2] for text in driver.describe(step)]
    with general_log(primary):
        up(primary, contract)
        ran = said(primary)
    assert [text for text in shown if text not in ran] == []


def test_a_holder_keeps_the_mirror_waiting_and_the_application_goes_on(primary: Server, schema: str) -> None:
    contract = prepared(primary, schema)
    driver = TriggerDriver(site_on(primary, contract, max_wait_s=1.5))
    with held(primary, "BEGIN", f"SELECT * FROM {schema}.t") as blocker, Application(primary, contract.table) as app:
        outcome = driver.apply(steps(contract)[0], Beats())
    assert outcome.result is Result.HELD
    assert str(blocker.thread_id()) in outcome.note
    assert outcome.figures["tries"] == 0
    assert app.errors == []
    assert app.longest_wait_s < 0.9
    assert names_of(primary, contract.table) == set()


def test_abandoning_an_installation_leaves_no_trigger_of_it(primary: Server, schema: str) -> None:
    contract = prepared(primary, schema)
    driver = up(primary, contract)
    insert = steps(contract)[1]
    assert driver.abandon(insert, Beats()).result is Result.DONE
    assert names_of(primary, contract.table) == {trigger_name(ID, "update")}
    assert driver.observe(insert, Beats()) is Seen.ABSENT


def test_a_server_that_does_not_trust_us_with_triggers_says_what_is_missing(primary: Server, schema: str) -> None:
    contract = prepared(primary, schema)
    script(
        primary,
        f"CREATE USER modest IDENTIFIED BY 'modest'; GRANT ALL ON {schema}.* TO modest;"
        "GRANT PROCESS ON *.* TO modest; GRANT SELECT ON performance_schema.* TO modest",
    )
    site = site_on(primary, contract)
    modest = replace(site, settings=replace(site.settings, user="modest", password=Secret("modest")))
    try:
        with pytest.raises(PrivilegeMissing) as seen:
            TriggerDriver(modest).apply(steps(contract)[0], Beats())
    finally:
        script(primary, "DROP USER modest")
    assert "log_bin_trust_function_creators" in seen.value.next
    assert names_of(primary, contract.table) == set()
