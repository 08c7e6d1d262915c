"""NAME.proof: the read/write matrix that ``rollout compat`` found, beside the runbook that it was found for.

Made by us and read strictly: a plan refuses by it, and a decision record shows it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from orchestrator.model.matrix import Failure, Hazard, HazardKind, Matrix, ShapeName, Spoken
from orchestrator.model.runbook import Runbook
from orchestrator.model.verdict import Problem, ProblemKind
from orchestrator.runbook.sealed import Kind, read_sealed, refused, sealed_text
from orchestrator.runbook.source import read_source

_MOST_SHOWN = 5
# Every statement of two files of SQL, once for each shape in which it fails.
_MOST_BYTES = 64 * 1_048_576
_PROOF = Kind("a proof that rollout compat wrote", "find it again: rollout compat")


class _Form(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _SpokenForm(_Form):
    version: Literal["old", "new"]
    text: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class _FailureForm(_Form):
    version: Literal["old", "new"]
    shape: ShapeName
    statement: str
    number: int
    text: str


class _HazardForm(_Form):
    version: Literal["old", "new"]
    kind: HazardKind
    statement: str
    told: str


class _MatrixForm(_Form):
    digest: str
    server: str
    columns: tuple[str, ...]
    statements: tuple[_SpokenForm, ...]
    failures: tuple[_FailureForm, ...]
    hazards: tuple[_HazardForm, ...]
    unproven: tuple[str, ...]


def proof_path(runbook: str) -> Path:
    """Where the proof of that runbook lies: beside it."""
    return Path(runbook).with_suffix(".proof")


def proof_words(matrix: Matrix) -> dict[str, object]:
    """The matrix as plain values; the same matrix gives the same."""
    return {
        "digest": matrix.digest,
        "server": matrix.server,
        "columns": list(matrix.columns),
        "statements": [
            {"version": s.version, "text": s.text, "reads": list(s.reads), "writes": list(s.writes)}
            for s in matrix.statements
        ],
        "failures": [
            {
                "version": f.version,
                "shape": f.shape.value,
                "statement": f.statement,
                "number": f.number,
                "text": f.text,
                "refuses": f.refuses,
            }
            for f in matrix.failures
        ],
        "hazards": [
            {"version": h.version, "kind": h.kind.value, "statement": h.statement, "told": h.told}
            for h in matrix.hazards
        ],
        "unproven": list(matrix.unproven),
    }


def proof_text(matrix: Matrix) -> str:
    """The proof as it is written."""
    return sealed_text(proof_words(matrix))


def read_proof(text: str, path: str) -> Matrix:
    """The proof in that text. Raises FileFindings when it is none, or was changed by hand."""
    _, body = read_sealed(text, path, _PROOF)
    try:
        form = _MatrixForm.model_validate(body)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise refused(path, 2, f"{where} is not what a proof holds", _PROOF) from None
    return Matrix(
        digest=form.digest,
        server=form.server,
        columns=form.columns,
        statements=tuple(Spoken(s.version, s.text, s.reads, s.writes) for s in form.statements),
        failures=tuple(Failure(f.version, f.shape, f.statement, f.number, f.text) for f in form.failures),
        hazards=tuple(Hazard(h.version, h.kind, h.statement, h.told) for h in form.hazards),
        unproven=form.unproven,
    )


def proof_problems(runbook: Runbook) -> tuple[Problem, ...]:
    """What the proof beside the runbook refuses: a statement that fails where its version runs, and a rename in place
    that no proof of this very contract carries. Raises FileFindings."""
    matrix = proof_beside(runbook)
    known = matrix if matrix is not None and matrix.digest == runbook.digest else None
    if known is not None and known.refusals:
        failing = "; ".join(str(f) for f in known.refusals[:_MOST_SHOWN])
        more = f"; and {len(known.refusals) - _MOST_SHOWN} more" if len(known.refusals) > _MOST_SHOWN else ""
        expected = "no statement that fails where its version runs"
        next_ = "change the statement or the contract, then: rollout compat"
        return (Problem(ProblemKind.RUNBOOK, "statement-fails", f"{failing}{more}", expected, next_),)
    if known is None and runbook.contract.renames_in_place:
        names = ", ".join(f"{r.old} → {r.new}" for r in runbook.contract.renames_in_place)
        seen = f"nothing proves that every version survives the rename in place of {names}"
        expected = "a proof of this contract that no declared statement fails"
        return (Problem(ProblemKind.RUNBOOK, "rename-unproven", seen, expected, "rollout compat"),)
    return ()


def proof_said(runbook: Runbook) -> str:
    """What the last proof says, in one line for a plan. Raises FileFindings."""
    matrix = proof_beside(runbook)
    if matrix is None:
        return "not proven (rollout compat)"
    if matrix.digest != runbook.digest:
        return "proven for another contract (rollout compat)"
    failing = f"{len(matrix.refusals)} failures" if matrix.refusals else "none fails where its version runs"
    unproven = f", {len(matrix.unproven)} things not proven" if matrix.unproven else ""
    return f"{len(matrix.statements)} statements tried on MySQL {matrix.server}, {failing}{unproven}"


def proof_beside(runbook: Runbook) -> Matrix | None:
    """The proof that lies beside the runbook, of whatever contract it is; None when there is none.

    Raises FileFindings when what lies there is none.
    """
    path = proof_path(runbook.path)
    if not runbook.path or not path.is_file():
        return None
    return read_proof(read_source(path, "a proof", most_bytes=_MOST_BYTES), str(path))
