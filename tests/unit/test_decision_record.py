"""The decision record has all its parts, says the same in both languages, and the committed one is current."""

from __future__ import annotations

import re
from pathlib import Path
from string import Formatter
from typing import Any, get_args

import pytest
from msgspec.structs import fields, replace

from orchestrator.adr.material import untranslated
from orchestrator.adr.page import page
from orchestrator.adr.words import moment
from orchestrator.app.decision import WORDS, material, record_page
from orchestrator.errors import RunbookError, UsageError
from orchestrator.model.contract import Contract, Rename, RenameWay
from orchestrator.model.matrix import Failure, Hazard, HazardKind, Matrix, ShapeName, Spoken
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import AddingStep, CountDuplicates, GhostAlter, ProveForeignKey
from orchestrator.runbook.load import load
from orchestrator.runbook.proof import proof_text

ROOT = Path(__file__).resolve().parents[2]
RUNBOOKS = sorted(p for p in (ROOT / "runbooks").glob("*.yaml") if p.stem != "template")
COMMITTED = ROOT / "docs" / "architecture"
LANGUAGES = tuple(WORDS)


@pytest.fixture(scope="module")
def runbook() -> Runbook:
    return load(ROOT / "runbooks" / "aijob.yaml")


def section(text: str, number: int) -> str:
    return re.split(r"^## \d+\. ", text, flags=re.MULTILINE)[number]


def rows(text: str) -> list[list[str]]:
    """The cells of every row of every table, without heads and rules."""
    found: list[list[str]] = []
    lines = text.splitlines()
    for at, line in enumerate(lines):
        heads = at + 1 < len(lines) and lines[at + 1].startswith("|---")
        if line.startswith("| ") and not heads:
            found.append([c.strip().replace("\\|", "|") for c in re.split(r"(?<!\\)\|", line)[1:-1]])
    return found


def codes(text: str) -> list[str]:
    return re.findall(r"`[^`]+`", text)


@pytest.mark.parametrize(("language", "suffix"), [("en", ".md"), ("zh", ".zh.md")])
def test_the_committed_record_is_current(runbook: Runbook, language: str, suffix: str) -> None:
    standing = (COMMITTED / f"adr-002-ai-job-database-expand{suffix}").read_text(encoding="utf-8")
    assert standing == record_page(runbook, language), "run: rollout -f runbooks/aijob.yaml adr FILE --lang LANG"


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda p: p.stem)
def test_both_languages_have_one_structure(path: Path) -> None:
    english, chinese = (record_page(load(path), language) for language in ("en", "zh"))
    for form in (r"^#+", r"^\|", r"^- ", r"^\d+\. ", r"^```\w*"):
        assert len(re.findall(form, english, re.MULTILINE)) == len(re.findall(form, chinese, re.MULTILINE)), form
    assert [len(r) for r in rows(english)] == [len(r) for r in rows(chinese)]
    blocks = re.compile(r"^```(sql|prisma)$.*?^```$", re.MULTILINE | re.DOTALL)
    assert [m.group() for m in blocks.finditer(english)] == [m.group() for m in blocks.finditer(chinese)]


def _templates(value: Any) -> list[Any]:
    """What is put into each text, in order."""
    if isinstance(value, str):
        return sorted({name for _, name, _, _ in Formatter().parse(value) if name is not None})
    items = sorted(value.items()) if hasattr(value, "items") else enumerate(value)
    return [(key, _templates(text)) for key, text in items]


def test_both_word_tables_are_put_the_same_into() -> None:
    english, chinese = WORDS["en"], WORDS["zh"]
    for field in fields(english):
        assert _templates(getattr(english, field.name)) == _templates(getattr(chinese, field.name)), field.name


def test_nothing_of_the_shipped_record_is_left_untranslated(runbook: Runbook) -> None:
    assert untranslated(runbook, "zh") == ()
    assert untranslated(runbook, "en") == ()
    stale = replace(runbook, why="something else")
    assert untranslated(stale, "zh") == ("something else",)
    assert "Something else。" in record_page(stale, "zh")


def test_every_field_stands_with_ten_properties(runbook: Runbook) -> None:
    contract = runbook.contract
    found = rows(section(record_page(runbook, "en"), 3))
    assert {len(row) for row in found} == {11}
    assert not any(cell == "" for row in found for cell in row)
    named = {row[2].strip("`"): row for row in found}
    model, beside = found[:34], found[34:]
    assert [r[2].strip("`") for r in model] == ["id", "userId", "createdAt", *(c.name for c in contract.columns)]
    assert {r[2].strip("`") for r in beside} == _stood(contract) - {"id", "userId", "createdAt"}
    for column in contract.columns:
        row = named[column.name]
        assert row[3].strip("`") == column.type.base
        assert row[5] == ("yes" if column.null else "no")
        assert row[6].strip("`'") == (column.default.text if column.default is not None else "NULL")
    assert named["publicErrorMessage"][4] == "512"
    assert named["timeoutMs"][3:5] == ["`bigint`", "8 B"]
    assert named["createdAt"][7] == "S1, I1, I2, I3"
    assert named["lifecycleStatus"][8:] == ["mapping", "↔ `status`", "stays; takes over from status"]
    assert named["targetId"][9] == "← `COALESCE(answerId, sessionId)`"
    assert named["retryCount"][9:] == [
        "↔ `attemptCount`",
        "a later contract, when nothing reads it any more (`attemptCount` takes over)",
    ]


def _stood(contract: Contract) -> set[str]:
    assert contract.before is not None
    return {c.name for c in contract.before.columns}


def test_every_index_has_its_queries_and_one_without_is_said(runbook: Runbook) -> None:
    text = section(record_page(runbook, "en"), 4)
    found = {row[0]: row for row in rows(text)}
    assert [r[0] for r in found.values() if r[4] == "new"] == [f"I{n}" for n in range(1, 8)]
    assert found["I3"][2] == "`queueName`, `lifecycleStatus`, `createdAt`"
    assert {sign: found[sign][6] for sign in ("I1", "I2", "I3", "I4", "I5", "I6")} == {
        "I1": "new 11",
        "I2": "new 10",
        "I3": "new 3",
        "I4": "new 12",
        "I5": "new 14",
        "I6": "new 13",
    }
    assert found["I7"][6] == "no declared statement; it serves the foreign key `AiAnalysisJob_snapshotId_fkey`"
    assert f"- **I3** · new 3: `{runbook.contract.new_statements[2]}`" in text


def test_every_relation_has_its_delete_rule(runbook: Runbook) -> None:
    found = [(r[1].replace("`", ""), r[3].strip("`"), r[4].strip("`")) for r in rows(_deletes(runbook))]
    assert found == [
        ("User → AiAnalysisJob", "CASCADE", "CASCADE"),
        ("Snapshot → AiAnalysisJob", "RESTRICT", "RESTRICT"),
        ("AiAnalysisJob → AiAnalysisJob", "SET NULL", "RESTRICT"),
        ("AiAnalysisJob → Artifact", "CASCADE", "CASCADE"),
        ("AiAnalysisJob → UsageLog", "SET NULL", "CASCADE"),
    ]


def _deletes(runbook: Runbook) -> str:
    return section(record_page(runbook, "en"), 5)


def test_statuses_are_mapped_both_ways_with_the_reason(runbook: Runbook) -> None:
    text = section(record_page(runbook, "en"), 6)
    forward = "| `processing` | `running` |"
    backward = "| `locked` | `processing` |"
    assert text.index(forward) < text.index(backward)
    assert "Without a counterpart in `status`: `locked`, `cancelled`." in text
    assert "Why: processing → running, not → locked: a reaper sends locked jobs" in text
    assert "原因：processing 映射为 running 而非 locked" in section(record_page(runbook, "zh"), 6)


def test_the_terms_of_the_field_are_used_in_chinese(runbook: Runbook) -> None:
    text = record_page(runbook, "zh")
    for term in (
        "物理表策略",
        "字段定义",
        "索引",
        "删除策略",
        "状态映射表",
        "新旧字段读写矩阵",
        "影子写",
        "实体关系图",
        "DDL 草图与锁风险",
        "Prisma 草图",
        "零停机发布流程",
        "回滚流程",
    ):
        assert re.search(rf"^## \d+\. {term}$", text, re.MULTILINE), term
    for name in ("Prisma 字段名", "物理列名", "类型", "长度", "可空", "默认值", "索引", "写入来源", "旧字段映射"):
        assert f"| {name} |" in text
    assert "| 未来删除阶段 |" in text


READ = "SELECT id, status FROM AiAnalysisJob WHERE userId = ?"
WRITE = "UPDATE AiAnalysisJob SET lifecycleStatus = ? WHERE id = ?"


def proof(digest: str) -> Matrix:
    return Matrix(
        digest,
        "9.7.4",
        ("id", "userId", "status", "lifecycleStatus"),
        (Spoken("old", READ, ("id", "userId", "status")), Spoken("new", WRITE, ("id",), ("lifecycleStatus",))),
    )


def test_the_matrix_is_that_of_the_proof(runbook: Runbook) -> None:
    text = page(replace(material(runbook), matrix=proof(runbook.digest)), WORDS["en"])
    cells = {row[0].strip("`"): row[1:] for row in rows(section(text, 7))}
    assert cells["status"] == ["R", "R", "R", "R", "R", "–", "–", "–", "mirrored"]
    assert cells["lifecycleStatus"] == ["–", "–", "–", "–", "–", "W", "W", "W", "filled, mirrored"]
    assert cells["read-switch"] == ["mirror on", "old application, new application"]
    assert cells["finish"] == ["mirror on, after ddl", "new application"]
    assert "No declared statement fails in a shape in which its version runs." in text
    assert "| Proof of compatibility | `rollout -f aijob.yaml compat`, on MySQL 9.7.4 |" in text


def test_a_statement_that_fails_is_shown_where_it_fails(runbook: Runbook) -> None:
    gone = Failure("old", ShapeName.MIRRORED, READ, 1054, "Unknown column 'status' in 'field list'")
    star = Hazard("old", HazardKind.SELECT_STAR, "SELECT * FROM AiAnalysisJob", "it gives more columns")
    failing = replace(proof(runbook.digest), failures=(gone,), hazards=(star,), unproven=("CALL p()",))
    whole = page(replace(material(runbook), matrix=failing), WORDS["en"])
    assert "| Status | refused: a statement fails where its version runs |" in whole
    text = section(whole, 7)
    cells = {row[0].strip("`"): row[1:] for row in rows(text)}
    assert cells["status"][:5] == ["R", "R", "✗", "R", "R"]
    assert f"- old application, mirror on: `1054 Unknown column 'status' in 'field list'`: `{READ}`" in text
    assert "- old application: `SELECT * FROM AiAnalysisJob` (select-star)" in text
    assert "- CALL p()" in text
    assert "No declared statement names" not in text, "each column of this proof is named"


def test_a_proof_of_another_contract_is_none(runbook: Runbook, tmp_path: Path) -> None:
    file = tmp_path / "aijob.yaml"
    file.write_text(runbook.text, encoding="utf-8")
    for digest, proven in (("0" * 64, False), (runbook.digest, True)):
        file.with_suffix(".proof").write_text(proof_text(proof(digest)), encoding="utf-8")
        text = record_page(load(file), "en")
        assert ("missing for this contract" in text) is not proven


def test_the_record_of_a_drop_has_its_statements_and_of_a_copy_its_command() -> None:
    orders = record_page(load(ROOT / "runbooks" / "orders.yaml"), "en")
    back = section(orders, 13)
    assert "DROP INDEX `orders_tenant_state_idx`, ALGORITHM=INPLACE, LOCK=NONE;" in back
    assert "DROP COLUMN `attempt_count`, ALGORITHM=INSTANT;" in back
    readings = record_page(load(ROOT / "runbooks" / "readings.yaml"), "en")
    assert "gh-ost --alter=" in section(readings, 10)
    assert "The whole table is copied or rebuilt once" in section(readings, 2)
    assert "Made wider, so that every value fits unchanged: `sensor_no`, `amount`." in section(readings, 2)


def test_a_record_needs_what_stood_before(runbook: Runbook) -> None:
    blind = replace(runbook, contract=replace(runbook.contract, before=None))
    with pytest.raises(RunbookError) as caught:
        record_page(blind, "en")
    assert "does not say what stood before" in caught.value.seen


def test_a_language_without_words_is_refused(runbook: Runbook) -> None:
    with pytest.raises(UsageError) as caught:
        record_page(runbook, "fr")
    assert caught.value.expected == "one of en, zh"


def test_a_rename_is_shown_by_its_way() -> None:
    runbook = load(ROOT / "runbooks" / "aijob-rename.yaml")
    text = record_page(runbook, "en")
    assert "- `completedAt` becomes `finishedAt` in place, at once and for everybody." in section(text, 2)
    assert "- 11 existing columns keep their names" in section(text, 2)
    assert [r[2] for r in rows(section(text, 10)) if r[1] == "rename `completedAt` → `finishedAt`"] == ["`INSTANT`"]
    renamed = next(r for r in rows(section(text, 3)) if r[2] == "`finishedAt`")
    assert renamed[9] == "← `completedAt`"
    called = Rename("resultJson", "result", RenameWay.MAP)
    beside = Rename("retryCount", "attemptCount", RenameWay.MIRROR)
    mapped = replace(runbook, contract=replace(runbook.contract, renames=(called, beside)))
    text = record_page(mapped, "en")
    assert "- `resultJson` is called `result` in the model only" in section(text, 2)
    assert "- `retryCount` gets the name `attemptCount` by a new column beside it" in section(text, 2)
    assert next(r for r in rows(section(text, 3)) if r[2] == "`resultJson`")[1] == "`result`"
    assert 'result Json? @map("resultJson")' in section(text, 11)


def test_durations_are_written_in_the_unit_that_keeps_them_whole() -> None:
    assert [moment(s) for s in (0.25, 1, 90, 300, 1.5)] == ["250 ms", "1 s", "90 s", "5 min", "1.5 s"]


@pytest.mark.parametrize("language", sorted(WORDS))
def test_every_step_that_a_record_can_show_has_its_words(language: str) -> None:
    shown = (*get_args(AddingStep), ProveForeignKey, CountDuplicates, GhostAlter)
    assert {str(kind.__struct_config__.tag) for kind in shown} <= WORDS[language].steps.keys()


@pytest.mark.parametrize("language", sorted(WORDS))
def test_a_record_of_double_writes_tells_of_no_trigger(runbook: Runbook, language: str) -> None:
    w, doubled = WORDS[language], replace(runbook, phases=replace(runbook.phases, shadow="flag"))
    found = page(material(doubled), w)
    assert w.mirror_double_writes in found
    assert w.stage_double_writes[1] in found
    assert "_rollout_aijob_b" not in found
    for untrue in (w.old_untouched.strip(), w.mirror_trial, *w.mirror_rules, w.stages["shadow-write"][1]):
        assert untrue not in found


def test_a_failure_that_no_error_shows_is_told_by_its_text(runbook: Runbook) -> None:
    of = proof(runbook.digest)
    silent = Failure("old", ShapeName.EXPANDED, "SELECT * FROM a NATURAL JOIN b", 0, "it joins by other columns")
    found = page(replace(material(runbook), matrix=replace(of, failures=(silent,))), WORDS["en"])
    assert "`it joins by other columns`" in found
