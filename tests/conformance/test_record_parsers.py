"""What a decision record shows of diagrams and schemas is taken by the programs that will draw and read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from orchestrator.app.decision import WORDS, record_page
from orchestrator.contract.drift import compare
from orchestrator.contract.prisma import read_models
from orchestrator.contract.stood import expanded
from orchestrator.contract.target import Source
from orchestrator.model.contract import Contract
from orchestrator.model.runbook import Runbook
from orchestrator.runbook.load import load
from tests.support.contracts import contracts
from tests.support.npm import asking
from tests.support.prisma import prisma_engine

ROOT = Path(__file__).resolve().parents[2]
RUNBOOKS = sorted(p for p in (ROOT / "runbooks").glob("*.yaml") if load(p).contract.before is not None)
EXAMPLES = 300 if settings.default.max_examples > 100 else 15
_MERMAID = ROOT / "tests" / "support" / "mermaid_parser.mjs"
_RELATED = 'erDiagram\n  A ||--o{ B : "a: ON DELETE CASCADE"\n'


@pytest.fixture(scope="module")
def mermaid() -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    with asking(_MERMAID, "mermaid") as ask:
        yield ask


def block(path: Path, language: str, kind: str) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```$", record_page(load(path), language), re.MULTILINE | re.DOTALL)
    return str(found)


def all_columns(contract: Contract) -> set[str]:
    return {c.name for c in expanded(contract).columns}


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda p: p.stem)
def test_mermaid_reads_every_column_and_relation(
    mermaid: Callable[[dict[str, Any]], dict[str, Any]], path: Path
) -> None:
    contract = load(path).contract
    before = contract.before
    assert before is not None
    for language in WORDS:
        drawn = mermaid({"text": block(path, language, "mermaid")})
        assert "error" not in drawn, drawn["error"]
        entities = {name: [a["name"] for a in of] for name, of in drawn["entities"].items()}
        (columns,) = (of for of in entities.values() if of)
        assert set(columns) == all_columns(contract)
        keys = [*before.foreign_keys, *contract.foreign_keys, *(key for _, key in before.children)]
        assert drawn["relations"] == [f"{', '.join(k.columns)}: ON DELETE {k.on_delete}" for k in keys]


def test_mermaid_refuses_what_is_no_diagram(mermaid: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    assert mermaid({"text": _RELATED})["relations"] == ["a: ON DELETE CASCADE"]
    assert "Parse error on line 2" in mermaid({"text": _RELATED.replace("--", "-")})["error"]


@settings(max_examples=EXAMPLES)
@given(contract=contracts("app"))
def test_mermaid_reads_a_table_of_any_names(
    mermaid: Callable[[dict[str, Any]], dict[str, Any]], contract: Contract
) -> None:
    text = record_page(Runbook("r", contract, "d" * 64, "", "none.yaml"), "zh")
    (shown,) = re.findall(r"^```mermaid\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    drawn = mermaid({"text": shown})
    assert "error" not in drawn, drawn["error"] + shown
    assert {len(of) for of in drawn["entities"].values()} == {0, len(all_columns(contract))}


def test_prisma_takes_the_schema_and_it_is_the_contract() -> None:
    path = ROOT / "runbooks" / "aijob.yaml"
    contract = load(path).contract
    text = block(path, "en", "prisma")
    with prisma_engine() as prisma:
        assert "error" not in prisma.ask(text)
    tables = {t.shape.table.name: t for t in read_models([Source("adr.prisma", text)], contract.table.schema)}
    assert compare(contract, tables[contract.table.name]) == ()
