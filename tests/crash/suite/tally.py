"""What a run of the suite counts and finds, and the table that shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tabulate import tabulate


@dataclass
class Tally:
    """``deaths`` by (what was done, who was struck and when). ``findings``: what did not hold, each with its seed."""

    deaths: Counter[tuple[str, str]] = field(default_factory=Counter)
    tries: int = 0
    lives: int = 0
    findings: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.deaths.total()

    def add(self, others: Iterable[Tally]) -> None:
        for other in others:
            self.deaths += other.deaths
            self.tries += other.tries
            self.lives += other.lives
            self.findings += other.findings

    def __str__(self) -> str:
        columns = sorted({struck for _, struck in self.deaths})
        moves = sorted({move for move, _ in self.deaths})
        rows = [[m, *(self.deaths[(m, c)] for c in columns), sum(self.deaths[(m, c)] for c in columns)] for m in moves]
        rows.append(["all", *(sum(self.deaths[(m, c)] for m in moves) for c in columns), self.total])
        return tabulate(rows, headers=["while", *columns, "all"])
