"""The read/write matrix says for each cell what is known of it, and its file is believed only as we wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.model.findings import FileFindings
from orchestrator.model.matrix import (
    RUNS,
    SHAPES,
    STAGE_SHAPES,
    Access,
    Failure,
    Hazard,
    HazardKind,
    Matrix,
    ShapeName,
    Spoken,
)
from orchestrator.model.state import FORWARD
from orchestrator.runbook.load import load
from orchestrator.runbook.proof import proof_text, read_proof
from orchestrator.sandbox.places import runbooks_folder

READ = Spoken("old", "SELECT b FROM t WHERE a = ?", reads=("a", "b"))
WRITE = Spoken("old", "UPDATE t SET b = ? WHERE a = ?", reads=("a",), writes=("b",))
NEW = Spoken("new", "UPDATE t SET n = ? WHERE a = ?", reads=("a",), writes=("n",))
GONE = Failure("old", ShapeName.MIRRORED, WRITE.text, 1054, "Unknown column 'b' in 'field list'")
MATRIX = Matrix("d" * 64, "9.7.4", ("a", "b", "n"), (READ, WRITE, NEW))


def test_a_cell_is_what_all_statements_of_the_version_do_together() -> None:
    assert MATRIX.access("old", ShapeName.EXPANDED, "a") is Access.READS
    assert MATRIX.access("old", ShapeName.EXPANDED, "b") is Access.BOTH
    assert MATRIX.access("old", ShapeName.EXPANDED, "n") is Access.NONE
    assert MATRIX.access("new", ShapeName.EXPANDED, "n") is Access.WRITES


def test_a_failure_marks_the_columns_of_its_statement_in_its_shape_alone() -> None:
    failing = replace(MATRIX, failures=(GONE,))
    assert failing.access("old", ShapeName.MIRRORED, "b") is Access.FAILS
    assert failing.access("old", ShapeName.EXPANDED, "b") is Access.BOTH
    assert failing.access("new", ShapeName.MIRRORED, "n") is Access.WRITES


def test_only_a_version_that_runs_in_a_shape_refuses_by_failing_there() -> None:
    early = Failure("new", ShapeName.BEFORE, NEW.text, 1054, "Unknown column 'n' in 'field list'")
    assert replace(MATRIX, failures=(GONE, early)).refusals == (GONE,)
    assert MATRIX.access("new", ShapeName.BEFORE, "a") is Access.NONE


def test_every_stage_passes_through_shapes_in_which_the_old_application_runs() -> None:
    assert set(STAGE_SHAPES) == {*FORWARD, "rollback", "finish"}
    assert {shape for shapes in STAGE_SHAPES.values() for shape in shapes} == set(SHAPES) == RUNS["old"]


def test_a_proof_comes_back_as_it_was_written() -> None:
    hazard = Hazard("old", HazardKind.SELECT_STAR, "SELECT * FROM t", "it will have three more columns")
    whole = replace(MATRIX, failures=(GONE,), hazards=(hazard,), unproven=("CALL p(): a procedure",))
    assert read_proof(proof_text(whole), "a.proof") == whole
    assert proof_text(read_proof(proof_text(whole), "a.proof")) == proof_text(whole)


@pytest.mark.parametrize(
    ("before", "after"),
    [('"reads"', '"raeds"'), ("9.7.4", "9.7.5"), ("{", "["), ("\n", "")],
)
def test_a_proof_that_was_changed_by_hand_is_none(before: str, after: str) -> None:
    with pytest.raises(FileFindings):
        read_proof(proof_text(MATRIX).replace(before, after), "a.proof")


@pytest.mark.parametrize("path", sorted(runbooks_folder().glob("*.proof")), ids=lambda p: p.stem)
def test_the_shipped_proofs_are_of_the_contracts_as_they_stand(path: Path) -> None:
    runbook = load(path.with_suffix(".yaml"))
    proof = read_proof(path.read_text(encoding="utf-8"), str(path))
    assert proof.digest == runbook.digest
    assert proof.refusals == ()
    assert [s.text for s in proof.statements if s.version == "old"] == list(runbook.contract.old_statements)
    assert [s.text for s in proof.statements if s.version == "new"] == list(runbook.contract.new_statements)
