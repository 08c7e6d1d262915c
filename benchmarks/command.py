"""What a command costs before it does anything, and how long the whole demonstration takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, interleaved, seconds_of
from orchestrator.cli.ground import raise_sandbox
from orchestrator.sandbox.places import runbooks_folder
from orchestrator.sandbox.template import OPERATOR

_ROLLOUT = str(Path(sys.executable).with_name("rollout"))


def help_() -> Sequence[Figure]:
    """``rollout --help`` ÷ an interpreter that imports typer."""
    ours, bare = interleaved(
        [lambda: seconds_of([_ROLLOUT, "--help"]), lambda: seconds_of([sys.executable, "-c", "import typer"])], rounds=9
    )
    return (
        Figure("help", ours, "s", bare, goal=2.0, note="÷ python -c 'import typer'"),
        Figure("help_seconds", ours, "s", goal=0.25, note="on a quiet machine"),
    )


def status() -> Sequence[Figure]:
    """``rollout status`` on a sandbox."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        pair = raise_sandbox(Path(folder) / "pair", None, 1_000, 1)
        try:
            environment = os.environ | {
                "ROLLOUT_HOST": pair.primary.host,
                "ROLLOUT_PORT": str(pair.primary.port),
                "ROLLOUT_USER": OPERATOR.user,
                "ROLLOUT_PASSWORD": OPERATOR.password,
                "ROLLOUT_RUNBOOK": str(runbooks_folder() / "aijob.yaml"),
            }
            subprocess.run([_ROLLOUT, "next", "--phase", "ddl", "-y"], env=environment, check=True, capture_output=True)
            (seconds,) = interleaved([lambda: seconds_of([_ROLLOUT, "status"], dict(environment))], rounds=7)
        finally:
            pair.remove()
    return (Figure("status", seconds, "s", goal=0.5),)


def demo() -> Sequence[Figure]:
    """The whole demonstration at 20,000 and 100,000 rows; one run each."""
    figures = []
    for rows, goal in ((20_000, 180.0), (100_000, 360.0)):
        ended = subprocess.run(
            [_ROLLOUT, "demo", "--rows", str(rows), "--json"], check=True, capture_output=True, text=True
        )
        words = json.loads(ended.stdout)
        note = f"lost {words['lost_writes']} drift {words['drift']} errors {words['app_errors']}"
        figures.append(Figure(f"demo_{rows}", words["seconds"], "s", goal=goal, note=note))
        figures.append(
            Figure(
                f"demo_{rows}_stall",
                words["max_stall_ms"] - words["baseline_stall_ms"],
                "ms",
                goal=250.0,
                note=f"{words['max_stall_ms']:.0f} with us, {words['baseline_stall_ms']:.0f} without",
            )
        )
    return figures
