"""Our reader of Prisma schemas sees what Prisma's own engine sees, and what we write, the engine takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from orchestrator.contract.drift import compare
from orchestrator.contract.prisma import read_models
from orchestrator.contract.prisma.write import write_schema
from orchestrator.contract.target import Source, Target
from orchestrator.model.contract import Contract
from orchestrator.runbook.load import load
from tests.support.contracts import contract_of, contracts
from tests.support.prisma import Engine, prisma_engine, seen_by_engine, seen_by_us

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = sorted((ROOT / "tests" / "data" / "prisma").glob("*.prisma"))
RUNBOOKS = sorted(p for p in (ROOT / "runbooks").glob("*.yaml") if load(p).contract.before is not None)
EXAMPLES = 300 if settings.default.max_examples > 100 else 60


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with prisma_engine() as running:
        yield running


def read(text: str, schema: str = "app") -> dict[str, Target]:
    return {t.shape.table.name: t for t in read_models([Source("schema.prisma", text)], schema)}


def same_to_both(engine: Engine, text: str, schema: str = "app") -> dict[str, Target]:
    """Read it twice; every table must be the same to both."""
    answer = engine.ask(text)
    assert "error" not in answer, answer["error"] + text
    theirs, ours = seen_by_engine(answer["dmmf"]), read(text, schema)
    without_keys = 'relationMode = "prisma"' in text
    # The engine keeps silent about models with @@ignore; their tables are there all the same.
    assert set(ours) - set(theirs) == set(re.findall(r"model (\w+) \{[^}]*@@ignore", text))
    for table, model in theirs.items():
        seen = seen_by_us(ours[table], model)
        unsupported = set(seen["columns"]) - set(model["columns"])
        columns = {n: (null, labels) for n, (null, _, labels) in model["columns"].items()}
        assert {n: c for n, c in seen["columns"].items() if n not in unsupported} == columns
        assert seen["indexes"] == model["indexes"]
        keys = [] if without_keys else [(a, t, b) for a, t, b, _ in model["keys"]]
        assert seen["keys"] == keys
        _defaults_and_rules(ours[table], model)
    return ours


def _defaults_and_rules(target: Target, model: dict[str, Any]) -> None:
    columns = {c.name: c for c in target.shape.columns}
    for name, (_, default, _) in model["columns"].items():
        column = columns[name]
        assert column.auto_increment == (default == "autoincrement"), name
        if default in ("", "cuid", "uuid", "nanoid", "autoincrement"):
            assert column.default is None, name
        elif default in ("now", "dbgenerated"):
            assert column.default is not None, name
    rules = {columns: rule for columns, _, _, rule in model["keys"] if rule is not None}
    for key in target.shape.foreign_keys:
        said = rules.get(key.columns)
        wanted = {"Cascade": "CASCADE", "SetNull": "SET NULL", None: None}.get(said, "RESTRICT")
        assert wanted in (None, key.on_delete), key


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda p: p.stem)
def test_our_reader_sees_what_the_engine_sees(engine: Engine, path: Path) -> None:
    assert same_to_both(engine, path.read_text(encoding="utf-8")), "a schema without a table"


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda p: p.stem)
def test_the_schema_of_a_runbook_is_taken_by_the_engine_and_is_the_contract(engine: Engine, path: Path) -> None:
    contract = load(path).contract
    tables = same_to_both(engine, write_schema(contract), contract.table.schema)
    assert compare(contract, tables[contract.table.name]) == ()


@settings(max_examples=EXAMPLES)
@given(contract=contracts("app", said_by_prisma=True))
def test_a_contract_written_for_prisma_reads_back_as_itself(engine: Engine, contract: Contract) -> None:
    tables = same_to_both(engine, write_schema(contract))
    assert compare(contract, tables["t"]) == ()


def test_a_schema_in_many_files_is_one(engine: Engine) -> None:
    text = (ROOT / "tests" / "data" / "prisma" / "shop.prisma").read_text(encoding="utf-8")
    # The comment that opens a block stays with it.
    files = [part for part in re.split(r"\n(?=(?:/// |model |enum ))", text.replace("\n/// Who buys.", "")) if part]
    assert "error" not in engine.ask(*files)
    sources = [Source(f"{at}.prisma", file) for at, file in enumerate(files)]
    whole, split = read(text), {t.shape.table.name: t for t in read_models(sources, "app")}
    assert {n: t.shape for n, t in split.items()} == {n: t.shape for n, t in whole.items()}
    assert len({t.where for t in split.values()}) == len(split)


MUTATED = [
    ("@db.VarChar(320)", "@db.VarChar(321)", "column", "email", "varchar(321)"),
    ("name      String?", "name      String", "column", "name", "NULL is no"),
    ("@default(BUYER)", "@default(SELLER)", "column", "role", "'seller'"),
    ('@map("seller")', '@map("Seller")', "column", "role", "'Seller'"),
    ("@default(true)", "", "column", "active", "default is none"),
    ('@default(now()) @map("created_at")', '@map("created_at")', "column", "created_at", "default is none"),
    ('@map("updated_at")', "", "column", "updated_at", "the target does not have it"),
    ("name(length: 20)", "name(length: 21)", "index", "customer_name_idx", "name(21)"),
    ("sort: Desc", "sort: Asc", "index", "customer_name_idx", "created_at)"),
    ('@unique(map: "customer_email_uq")', "", "index", "customer_email_uq", "the target does not have it"),
    (
        "references: [id], onDelete: Cascade)",
        "references: [id])",
        "relation",
        "Profile.Profile_customerId_fkey",
        "RESTRICT",
    ),
]


@pytest.mark.parametrize(("old", "new", "thing", "name", "words"), MUTATED, ids=range(len(MUTATED)))
def test_one_change_of_a_schema_is_told_with_its_line(old: str, new: str, thing: str, name: str, words: str) -> None:
    text = (ROOT / "tests" / "data" / "prisma" / "shop.prisma").read_text(encoding="utf-8")
    contract = contract_of(read(text)["customers"].shape)
    assert text.count(old) == 1
    found = compare(contract, read(text.replace(old, new))["customers"])
    first = found[0]
    assert (first.thing, first.name) == (thing, name), found
    assert words in first.told
    assert first.line > 10
    assert len(found) == (2 if "does not have it" in words and thing == "column" else 1)


def test_names_of_prisma_are_no_missing_tables(engine: Engine) -> None:
    """B146: names alone are a warning, columns are not."""
    contract = load(ROOT / "runbooks" / "orders.yaml").contract
    before = contract.before
    assert before is not None
    text = write_schema(contract, "OrderItem").replace("orders_tenant_status_idx", "idx_order")
    target = same_to_both(engine, text, "shop")["orders"]
    found = compare(contract, target)
    assert [(d.kind.value, d.kind.fails, d.name) for d in found] == [("name", False, "orders_tenant_status_idx")]
    more = compare(replace(contract, columns=contract.columns[:-1]), target)
    assert any(d.kind.fails and d.thing == "column" for d in more)
