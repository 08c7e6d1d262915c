"""The verbs on the contract: what a person, or a pull request, waits for."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, interleaved, seconds_of
from orchestrator.cli.ground import raise_sandbox
from orchestrator.contract.prisma.write import HEAD, write_model
from orchestrator.runbook.load import load
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.sandbox.template import OPERATOR

_ROLLOUT = str(Path(sys.executable).with_name("rollout"))
_MODELS = 200
_STATEMENTS = 40


def lint_file() -> Sequence[Figure]:
    """``rollout lint`` of the AiJob runbook, the whole command."""
    runbook = str(runbooks_folder() / "aijob.yaml")
    (seconds,) = interleaved([lambda: seconds_of([_ROLLOUT, "-f", runbook, "lint"])], rounds=9)
    return (Figure("lint_file", seconds, "s", goal=0.4),)


def drift_prisma() -> Sequence[Figure]:
    """``rollout drift --prisma`` on a schema of 200 models, the whole command."""
    runbook = runbooks_folder() / "aijob.yaml"
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        schema = Path(folder) / "schema.prisma"
        schema.write_text(many_models(runbook), encoding="utf-8")
        command = [_ROLLOUT, "-f", str(runbook), "drift", "--prisma", str(schema)]
        (seconds,) = interleaved([lambda: seconds_of(command)], rounds=7)
    return (Figure("drift_prisma", seconds, "s", goal=1.0, note=f"{_MODELS} models"),)


def compat() -> Sequence[Figure]:
    """``rollout compat`` of the AiJob runbook with forty statements, all shapes, the whole command, on a sandbox."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = raise_sandbox(Path(folder) / "pair", None, 1_000, 1)
        try:
            runbook = Path(folder) / "aijob.yaml"
            shutil.copy(runbooks_folder() / "aijob.yaml", runbook)
            contract = load(runbook).contract
            missing = _STATEMENTS - len(contract.old_statements) - len(contract.new_statements)
            more = Path(folder) / "more.sql"
            more.write_text(
                "".join(
                    f"SELECT id, status FROM AiAnalysisJob WHERE sessionId = ? LIMIT {n};\n" for n in range(missing)
                )
            )
            environment = os.environ | {
                "ROLLOUT_HOST": pair.primary.host,
                "ROLLOUT_PORT": str(pair.primary.port),
                "ROLLOUT_USER": OPERATOR.user,
                "ROLLOUT_PASSWORD": OPERATOR.password,
            }
            command = [_ROLLOUT, "-f", str(runbook), "compat", "--old", str(more)]
            (seconds,) = interleaved([lambda: seconds_of(command, dict(environment))])
        finally:
            pair.remove()
    return (Figure("compat", seconds, "s", goal=10.0, note=f"{_STATEMENTS} statements, 5 shapes"),)


def many_models(runbook: Path) -> str:
    """The runbook's own model among others that are as large as models are."""
    own = write_model(load(runbook).contract, "AiJob")
    fields = "\n".join(f'  field{n} String? @map("field_{n}") @db.VarChar({n + 10})' for n in range(20))
    others = [
        f"model Other{n} {{\n  id Int @id @default(autoincrement())\n{fields}\n  @@index([field1, field2])\n}}\n"
        for n in range(_MODELS - own.count("model "))
    ]
    return HEAD + "\n" + own + "\n" + "\n".join(others)
