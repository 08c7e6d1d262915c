"""The read/write matrix as tables for people and as one object for machines."""

from __future__ import annotations

from typing import Any

from orchestrator.cli.render import table
from orchestrator.model.matrix import RUNS, SHAPES, STAGE_SHAPES, VERSIONS, Access, Matrix, Version
from orchestrator.runbook.proof import proof_words


def matrix_text(matrix: Matrix) -> str:
    """For each version a row for each column that it names and a column for each shape; then what fails, what no error
    shows, and what could not be proven."""
    parts = [_version(matrix, v) for v in VERSIONS if any(s.version == v for s in matrix.statements)]
    if matrix.refusals:
        parts.append("\n".join(f" fails    {f}" for f in matrix.refusals))
    if matrix.hazards:
        parts.append(
            "\n".join(f" hazard   {h.version}: {h.kind.value}: {h.told}: {h.statement}" for h in matrix.hazards)
        )
    if matrix.unproven:
        parts.append("\n".join(f" unproven {line}" for line in matrix.unproven))
    return "\n\n".join(parts) or "no statement is declared: nothing is proven"


def _version(matrix: Matrix, version: Version) -> str:
    rows = []
    for column in matrix.columns:
        cells = [_cell(matrix, version, column, at) for at in range(len(SHAPES))]
        if any(c not in ("", "-") for c in cells):
            rows.append((column, *cells))
    return table(rows, (f"{version} application", *(s.value for s in SHAPES)))


def _cell(matrix: Matrix, version: Version, column: str, at: int) -> str:
    shape = SHAPES[at]
    return matrix.access(version, shape, column).value if shape in RUNS[version] else "-"


def matrix_words(matrix: Matrix, proof: str, same: bool) -> dict[str, Any]:
    """The proof, and the matrix by version, shape and column; cells that hold nothing are left out."""
    cells = {
        version: {
            shape.value: {
                column: access.value
                for column in matrix.columns
                if (access := matrix.access(version, shape, column)) is not Access.NONE
            }
            for shape in SHAPES
            if shape in RUNS[version]
        }
        for version in VERSIONS
    }
    stages = {stage: [s.value for s in shapes] for stage, shapes in STAGE_SHAPES.items()}
    failing = [str(f) for f in matrix.refusals]
    return proof_words(matrix) | {
        "matrix": cells,
        "stages": stages,
        "refused": failing,
        "proof": proof,
        "same": same,
    }
