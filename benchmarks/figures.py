"""One figure of a benchmark, and how a table of them is printed and kept."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

OUT = Path(__file__).parent / "out" / "latest.json"


@dataclass(frozen=True, slots=True)
class Figure:
    """``value`` and ``baseline`` in ``unit``. ``goal`` is for ``ratio`` (or for ``value`` where there is no
    baseline), met
    when it is at most the goal, or at least with ``higher``. ``met`` is None where there is no goal."""

    name: str
    value: float
    unit: str
    baseline: float | None = None
    goal: float | None = None
    higher: bool = False
    against: str = ""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if not self.baseline else self.value / self.baseline

    @property
    def met(self) -> bool | None:
        judged = self.value if self.ratio is None or self.against == "value" else self.ratio
        if self.goal is None:
            return None
        return judged >= self.goal if self.higher else judged <= self.goal

    def words(self) -> dict[str, object]:
        kept = {k: v for k, v in asdict(self).items() if k not in ("higher", "against")}
        return kept | {"ratio": self.ratio, "met": self.met}


def interleaved(sides: Sequence[Callable[[], float]], rounds: int = 5) -> list[float]:
    """The median of each side over ``rounds`` rounds; within a round the sides run one after the other."""
    taken: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        # The side that goes first changes, so that none has always the warmer machine.
        order = range(len(sides)) if number % 2 == 0 else reversed(range(len(sides)))
        for at in order:
            taken[at].append(sides[at]())
    return [statistics.median(values) for values in taken]


def seconds_of(argv: Sequence[str], environment: dict[str, str] | None = None) -> float:
    """Wall seconds of a whole process. Raises CalledProcessError when it fails."""
    began = time.perf_counter()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - began


def peak_bytes(process: int | str = "self") -> float:
    """The most memory that the process had resident since its program began; 0 when it has ended.

    Not ``ru_maxrss``, which begins at the peak of the process that started it (proc(5): VmHWM)."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return next((float(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)


def keep(figures: Sequence[Figure]) -> None:
    """Write benchmarks/out/latest.json; figures of other benchmarks in it stay."""
    OUT.parent.mkdir(exist_ok=True)
    old = json.loads(OUT.read_text()) if OUT.exists() else []
    names = {f.name for f in figures}
    rows = [row for row in old if row["name"] not in names] + [f.words() for f in figures]
    OUT.write_text(json.dumps(rows, indent=1) + "\n")


def show(figures: Sequence[Figure]) -> None:
    """The table, on standard output."""
    heads = ("name", "value", "unit", "baseline", "ratio", "goal", "met", "note")
    rows = [heads]
    for f in figures:
        goal = "" if f.goal is None else f"{'≥' if f.higher else '≤'} {f.goal:g}"
        met = {True: "yes", False: "NO", None: ""}[f.met]
        base = "" if f.baseline is None else f"{f.baseline:.4g}"
        ratio = "" if f.ratio is None else f"{f.ratio:.3f}"
        rows.append((f.name, f"{f.value:.4g}", f.unit, base, ratio, goal, met, f.note))
    widths = [max(len(r[i]) for r in rows) for i in range(len(heads))]
    for row in rows:
        sys.stdout.write("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() + "\n")
