"""Renames three ways: what the file must say of each, what ddl and the way back make of one in place, who is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.contract.drift import compare
from orchestrator.contract.prisma.write import write_model
from orchestrator.contract.target import Target
from orchestrator.drivers.ddl.standing import standing
from orchestrator.engine.effects import settled
from orchestrator.engine.telling import rename_prices
from orchestrator.model.contract import Column, Contract, Index, IndexPart, Rename, RenameWay, TableName
from orchestrator.model.facts import Reading
from orchestrator.model.matrix import Failure, Matrix, ShapeName, Spoken
from orchestrator.model.outcome import Outcome, Result, Seen
from orchestrator.model.renaming import standing_after
from orchestrator.model.runbook import RollbackDdl, Runbook
from orchestrator.model.shape_diff import compare_shape
from orchestrator.model.step import AddIndex, RenameColumn, step_key
from orchestrator.model.types import parse_type
from orchestrator.mysql.sql.alter import alter
from orchestrator.runbook.lint import find
from orchestrator.runbook.load import load, parse
from orchestrator.runbook.proof import proof_path, proof_problems, proof_said, proof_text
from orchestrator.sandbox.places import runbooks_folder
from phases.ddl import Ddl
from phases.rollback import Rollback
from tests.support.shapes import plain_shape
from tests.support.world import Stage

TABLE = TableName("shop", "orders")
ENDED, FINISHED = Column("ended", parse_type("datetime")), Column("finished", parse_type("datetime"))
RENAME = Rename("ended", "finished", RenameWay.RENAME)
INDEX = Index("finished_idx", (IndexPart("finished"),))
CONTRACT = Contract(TABLE, (), renames=(RENAME,), indexes=(INDEX,))
TEXT = """\
apiVersion: rollout/v1
name: named
table: {schema: shop, name: orders, before: {columns: [{name: id, type: int}, {name: ended, type: datetime}]}}
contract:
  columns: [{name: state, type: varchar(9)}, {name: other, type: datetime}]
  renames: [{old: ended, new: finished, way: rename}]
mappings: [{new: state, forward: {sql: "'x'"}}]
waivers:
  - {rule: rename-in-place, reason: nobody says ended, evidence: read all of it, until: "2099-12-31"}
"""


def rules(text: str) -> list[str]:
    return [f.rule.id for f in find(parse(text, "a.yaml")) if f.refuses]


def test_a_rename_in_place_needs_a_waiver_with_the_name_and_evidence() -> None:
    assert rules(TEXT) == []
    assert rules(TEXT.replace(", evidence: read all of it", "")) == ["rename-evidence"]
    assert rules(TEXT.replace("nobody says ended", "nobody says it")) == ["rename-evidence"]
    assert rules(TEXT[: TEXT.index("waivers")]) == ["rename-in-place", "rename-evidence"]


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("way: rename", "way: mirror"),
        ("new: finished", "new: state"),
        ("new: finished, way: rename", "new: other, way: map"),
        ("sql: \"'x'\"", "sql: \"IF(ended IS NULL, 'a', 'b')\""),
        ("waivers:", "invariants: [{name: i, sql: ended IS NULL}]\nwaivers:"),
    ],
)
def test_a_rename_that_does_not_go_with_the_rest_is_a_finding(said: str, instead: str) -> None:
    assert "rename-fits" in rules(TEXT.replace(said, instead))


def test_a_map_and_a_mirror_need_no_waiver() -> None:
    bare = TEXT[: TEXT.index("waivers")]
    assert rules(bare.replace("way: rename", "way: map")) == []
    mirrored = bare.replace("new: finished, way: rename", "new: other, way: mirror")
    paired = mirrored.replace("mappings: [", "mappings: [{old: ended, new: other, forward: copy, backward: copy}, ")
    assert rules(paired) == []


def test_the_digest_knows_renames_and_leaves_other_contracts_as_they_were() -> None:
    renamed = parse(TEXT, "a.yaml")
    assert renamed.digest != parse(TEXT.replace("new: finished", "new: over"), "a.yaml").digest
    assert renamed.digest != parse(TEXT.replace("way: rename", "way: map"), "a.yaml").digest
    lock = (runbooks_folder() / "aijob.lock").read_text(encoding="utf-8")
    assert load(runbooks_folder() / "aijob.yaml").digest == lock.split("\n")[0]


def test_a_rename_is_missing_done_or_somebody_elses() -> None:
    missing = compare_shape(CONTRACT, plain_shape(TABLE, ENDED))
    assert (missing.renames_missing, missing.complete) == ((RENAME,), False)
    done = compare_shape(CONTRACT, plain_shape(TABLE, FINISHED, indexes=(INDEX,)))
    assert (done.renames_equal, done.complete) == ((RENAME,), True)
    for odd in (plain_shape(TABLE, ENDED, FINISHED), plain_shape(TABLE)):
        assert [d.name for d in compare_shape(CONTRACT, odd).different] == ["ended → finished"]


def test_ddl_renames_before_it_builds_what_names_the_new_name_and_counts_nothing_of_it() -> None:
    unique = replace(INDEX, unique=True)
    runbook = Runbook("r", replace(CONTRACT, indexes=(unique,)), "d", "", "r.yaml")
    stage = Stage()
    facts = replace(stage.observer.look(Ddl().entry_needs), shape=Reading(0.0, plain_shape(TABLE, ENDED)))
    stage.commands.next("ddl")
    record = replace(stage.record, done=(), done_steps=("try-ddl",), columns_added=())
    assert Ddl().problems(runbook, facts, record) == ()
    steps = [step_key(s) for s in Ddl().steps(runbook, facts, record)]
    assert steps == ["rename-column:ended", "add-index:finished_idx"]


STEP = RenameColumn(table=TABLE, old="ended", new="finished", family=(TABLE,))


def test_the_statement_is_instant_and_names_both() -> None:
    assert alter(STEP, "/* t */") == (
        "ALTER /* t */ TABLE `shop`.`orders` RENAME COLUMN `ended` TO `finished`, ALGORITHM=INSTANT"
    )


def test_a_crash_around_the_rename_is_seen_by_which_name_is_there() -> None:
    assert standing(STEP, plain_shape(TABLE, ENDED)).left == STEP
    assert standing(STEP, plain_shape(TABLE, FINISHED)).seen is Seen.PRESENT
    for odd in (plain_shape(TABLE, ENDED, FINISHED), plain_shape(TABLE)):
        assert standing(STEP, odd).seen is Seen.UNKNOWN


def test_the_way_back_is_the_same_rename_and_only_when_ddl_made_it() -> None:
    stage = Stage()
    stage.commands.next("ddl")
    runbook = Runbook("r", CONTRACT, "d", "", "r.yaml")
    dropping = replace(runbook, phases=replace(runbook.phases, rollback_ddl=RollbackDdl.DROP))
    shape = plain_shape(TABLE, FINISHED, indexes=(INDEX,))
    facts = replace(stage.observer.look(Rollback().needs), shape=Reading(0.0, shape))
    record = replace(stage.record, phase="rollback", columns_added=(), columns_renamed=())

    def back(of: Runbook) -> list[str]:
        return [step_key(s) for s in Rollback().steps(of, facts, record)][1:]

    assert back(dropping) == []
    build = AddIndex(table=TABLE, index=INDEX, final_lock_budget_s=1, tries=1, family=())
    for step in (STEP, build):
        record = settled(record, step, Outcome(Result.DONE))
    assert record.columns_renamed == ("ended",)
    assert back(dropping) == ["drop-index:finished_idx", "rename-column:finished"]
    assert back(runbook) == []
    for step in Rollback().steps(dropping, facts, record)[1:]:
        record = settled(record, step, Outcome(Result.DONE))
    assert (record.columns_renamed, record.done) == ((), ())


def test_drift_wants_the_new_names_and_prisma_maps_the_old_one() -> None:
    runbook = load(runbooks_folder() / "aijob-rename.yaml")
    before = standing_after(runbook.contract)
    assert before is not None
    names = {c.name for c in before.columns}
    assert {"finishedAt", "internalErrorMessage"} < names
    assert not {"completedAt", "errorMessage"} & names
    shape = plain_shape(TABLE, Column("id", parse_type("int")), ENDED)
    told = compare(parse(TEXT, "a.yaml").contract, Target("here", shape))
    assert {(d.kind.value, d.name) for d in told if d.name in ("ended", "finished")} == {
        ("contract-lacks", "ended"),
        ("target-lacks", "finished"),
    }
    mapped = parse(TEXT[: TEXT.index("waivers")].replace("way: rename", "way: map"), "a.yaml").contract
    assert 'finished DateTime? @map("ended")' in write_model(mapped)


def test_the_plan_says_what_each_way_costs() -> None:
    ways = tuple(Rename("a", f"b{n}", way) for n, way in enumerate(RenameWay))
    prices = rename_prices(replace(CONTRACT, renames=ways))
    assert [line.split(":")[0] for line in prices] == [
        "rename a → b0 (mirror)",
        "rename a → b1 (map)",
        "rename a → b2 (rename)",
    ]


def test_a_rename_in_place_is_refused_until_a_proof_of_this_contract_carries_it(tmp_path: Path) -> None:
    path = tmp_path / "named.yaml"
    path.write_text(TEXT, encoding="utf-8")
    runbook = load(path)
    assert [p.rule for p in proof_problems(runbook)] == ["rename-unproven"]
    said = Spoken("old", "SELECT ended FROM orders", reads=("ended",))
    good = Matrix(runbook.digest, "9.7.4", ("id", "finished", "ended"), (said,))
    for matrix, refused in (
        (replace(good, digest="0" * 64), ["rename-unproven"]),
        (good, []),
        (replace(good, failures=(Failure("old", ShapeName.EXPANDED, said.text, 1054, "x"),)), ["statement-fails"]),
        (replace(good, failures=(Failure("new", ShapeName.BEFORE, said.text, 1054, "x"),)), []),
    ):
        proof_path(str(path)).write_text(proof_text(matrix), encoding="utf-8")
        assert [p.rule for p in proof_problems(runbook)] == refused
    assert "1 statements tried on MySQL 9.7.4" in proof_said(runbook)


def test_a_failing_statement_of_a_proof_is_refused_by_its_words(tmp_path: Path) -> None:
    path = tmp_path / "plain.yaml"
    path.write_text(TEXT[: TEXT.index("  renames")] + TEXT[TEXT.index("mappings") :], encoding="utf-8")
    runbook = load(path)
    assert (proof_problems(runbook), proof_said(runbook)) == ((), "not proven (rollout compat)")
    failing = Failure("new", ShapeName.MIRRORED, "INSERT INTO orders VALUES (1)", 1136, "Column count")
    matrix = Matrix(runbook.digest, "9.7.4", ("id",), (), (failing,))
    proof_path(str(path)).write_text(proof_text(matrix), encoding="utf-8")
    (problem,) = proof_problems(runbook)
    assert problem.seen == "new, mirror on: 1136 Column count: INSERT INTO orders VALUES (1)"
