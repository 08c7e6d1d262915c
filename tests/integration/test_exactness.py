"""Two values that differ by as little as they can are two values: for every kind of column that a mapping may fill."""

from __future__ import annotations

import pytest

from orchestrator.drivers.rows import CompareDriver, FillDriver
from orchestrator.model.contract import Column, Contract, Copy, Mapping, TableName
from orchestrator.model.outcome import Result
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import Compare, Fill
from orchestrator.model.types import parse_type
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.site import Site
from orchestrator.sandbox.server import Server
from tests.support.rows import ROLLOUT, ToldBeat, begin_rollout
from tests.support.servers import script
from tests.support.state import settings_of

# name: type, two values that differ, as SQL
APART = {
    "null-and-empty": ("varchar(20)", "NULL", "''"),
    "case": ("varchar(20)", "'Dd'", "'dd'"),
    "trailing-blank": ("varchar(20)", "'e'", "'e '"),
    "accent": ("varchar(20)", "'e'", "'é'"),
    "composed-accent": ("varchar(20)", "_utf8mb4 x'c3a9'", "_utf8mb4 x'65cc81'"),
    "nothing-of-width": ("varchar(20)", "'e'", "_utf8mb4 x'65e2808d'"),
    "nul": ("varchar(20)", "'e'", "'e\\0'"),
    "latin1-case": ("varchar(20) character set latin1", "'É'", "'é'"),
    "truncated-text": ("text", "REPEAT('x', 4000)", "REPEAT('x', 3999)"),
    "float-minus-zero": ("float", "0e0", "-0e0"),
    "double-minus-zero": ("double", "0e0", "-0e0"),
    "float-last-bit": ("float", "16777215", "16777214"),
    "double-last-bit": ("double", "0.1e0 + 0.2e0", "0.3e0"),
    "decimal-30-digits": ("decimal(30,10)", "12345678901234567890.0000000001", "12345678901234567890.0000000002"),
    "bigint-beyond-doubles": ("bigint unsigned", "18446744073709551615", "18446744073709551614"),
    "json-number-form": ("json", "'1'", "'1.0'"),
    "json-number-form-within": ("json", "'{\"a\": [1]}'", "'{\"a\": [1.0]}'"),
    "json-minus-zero": ("json", "'0.0'", "'-0.0'"),
    "json-null": ("json", "'null'", "NULL"),
    "json-string-and-date": ("json", "CAST(DATE'2024-01-01' AS JSON)", "'\"2024-01-01\"'"),
    "json-case": ("json", "'\"a\"'", "'\"A\"'"),
    "bit-in-a-blob": ("blob", "x'00ff00'", "x'00fe00'"),
    "blob-trailing-zero": ("varbinary(20)", "x'00'", "x'0000'"),
    "bit": ("bit(9)", "b'1'", "b'100000001'"),
    "enum": ("enum('a','b')", "1", "2"),
    "set": ("set('a','b')", "'a,b'", "'a'"),
    "microsecond": ("datetime(6)", "'2024-01-01 00:00:00.000001'", "'2024-01-01'"),
    "hour-of-a-zone": ("timestamp(6) null", "'2024-07-01 10:00:00'", "'2024-07-01 12:00:00'"),
    "time": ("time(6)", "'-838:59:59'", "'838:59:59'"),
    "year": ("year", "0", "2000"),
}  # fmt: skip
# The server takes these for equal and does not store one over the other: they are shown, and are no mismatch.
OTHER_FORM = ["json-number-form", "json-number-form-within", "json-minus-zero"]


def site_of(server: Server, table: TableName) -> Site:
    def new(name: str, kind: str) -> Column:
        base, _, charset = kind.removesuffix(" null").partition(" character set ")
        return Column(f"n{name}", parse_type(base), charset=charset or None)

    columns = tuple(new(str(n), kind) for n, (kind, _, _) in enumerate(APART.values()))
    mappings = tuple(Mapping(f"n{n}", f"o{n}", Copy(), Copy()) for n, _ in enumerate(APART))
    contract = Contract(table=table, columns=columns, mappings=mappings)
    return Site(settings_of(server), Runbook(ROLLOUT, contract, "d" * 64, "", "rollout.yaml"), SystemClock())


@pytest.mark.parametrize("relation", ["old-is-truth", "corresponds"])
def test_the_smallest_difference_of_every_kind_is_found_mended_and_then_gone(
    primary: Server, schema: str, relation: str
) -> None:
    """One row for each kind, in which only that kind's pair differs."""
    table = TableName(schema, "apart")
    ddl = ", ".join(f"o{n} {kind}, n{n} {kind}" for n, (kind, _, _) in enumerate(APART.values()))
    script(primary, f"CREATE TABLE apart (id INT PRIMARY KEY, {ddl})", schema)
    for n, (_, old, new) in enumerate(APART.values()):
        script(
            primary,
            f"SET NAMES utf8mb4; SET sql_mode = ''; INSERT INTO apart (id, o{n}, n{n}) VALUES ({n}, {old}, {new})",
            schema,
        )
    begin_rollout(primary)
    site = site_of(primary, table)
    step = Compare(table=table, walk=1, purpose="verify", relation=relation, target_time_s=0.5)  # type: ignore[arg-type]  # one of the two truths
    found = CompareDriver(site).apply(step, ToldBeat())
    named = {mapping: " ".join(keys) for name, mapping, _, *keys in found.evidence if name != "lossy-ok"}
    noted = [name for n, name in enumerate(APART) if ("other-form", f"o{n} ↔ n{n}", "1", str(n)) in found.evidence]
    assert noted == OTHER_FORM
    hidden = [name for n, name in enumerate(APART) if named.get(f"o{n} ↔ n{n}") != str(n)]
    assert hidden == []
    assert found.figures["mismatches"] == len(APART) - len(OTHER_FORM)
    if relation == "corresponds":
        return
    fill = Fill(table=table, walk=1, pass_name="backfill", target_time_s=60.0, max_batch_rows=100)
    filled = FillDriver(site).apply(fill, ToldBeat())
    assert filled.result is Result.DONE, filled
    again = CompareDriver(site).apply(step, ToldBeat())
    assert again.result is Result.DONE, again.evidence
    assert filled.figures["rows_changed"] == len(APART) - len(OTHER_FORM)
    again = CompareDriver(site).apply(step, ToldBeat())
    assert again.result is Result.DONE, again.evidence
