"""A table of two million rows walked end to end by the installed command: seconds and peak memory of each stage, beside
the same walk of a hundred thousand rows."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from benchmarks.backfill import FEW_ROWS, INDEXES, MANY_ROWS, make, settings_of
from benchmarks.figures import Figure, peak_bytes
from benchmarks.load import ROLLOUT, STAGES, environment, write_runbook
from orchestrator.mysql.session import Session
from orchestrator.sandbox.pair import Pair, start_pair

_LOOK_EVERY_S = 0.02


def walk() -> Sequence[Figure]:
    """The whole walk and back; one run each."""
    with tempfile.TemporaryDirectory(prefix="bench-large-") as folder:
        pair = start_pair(Path(folder) / "pair")
        try:
            write_runbook(Path(folder))
            few, many = (_walked(pair, Path(folder), rows) for rows in (FEW_ROWS, MANY_ROWS))
        finally:
            pair.remove()
    told = ", ".join(f"{stage} {seconds:.0f} s" for stage, (seconds, _) in many.items())
    peaks = [max(peak for _, peak in side.values()) for side in (many, few)]
    return (
        Figure("walk_large", sum(s for s, _ in many.values()), "s", note=f"{MANY_ROWS:,} rows: {told}"),
        Figure("walk_large_memory", peaks[0], "bytes", peaks[1], goal=1.05, note=f"÷ {FEW_ROWS:,} rows"),
    )


def _walked(pair: Pair, folder: Path, rows: int) -> dict[str, tuple[float, float]]:
    """Seconds and peak bytes of each stage."""
    settings = settings_of(pair.primary)
    with closing(Session(settings, role="bench", timeout_s=1800.0)) as session:
        make(session, settings, rows, INDEXES)
        session.execute("DROP DATABASE _rollout")
    found: dict[str, tuple[float, float]] = {}
    for stage in STAGES:
        began = time.monotonic()
        process = subprocess.Popen(
            [ROLLOUT, *stage, "-y"],
            env=environment(pair, folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        peak = 0.0
        while process.poll() is None:
            peak = max(peak, peak_bytes(process.pid))
            time.sleep(_LOOK_EVERY_S)
        assert process.returncode == 0, f"{' '.join(stage)} ended with {process.returncode}"
        seconds = time.monotonic() - began
        found[stage[-1]] = seconds, peak
        sys.stderr.write(f"  {rows:,} rows, {stage[-1]}: {seconds:.1f} s, {peak / 2**20:.0f} MiB\n")
    return found
