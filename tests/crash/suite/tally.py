"""What a run of the suite counts and finds, and the table that shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tabulate import tabulate

from tests.crash.suite.mortal import Moment


@dataclass
class Tally:
    """``deaths`` by (what was done, who was struck and when). ``findings``: what did not hold, each with its seed.
    ``blows``: the moments that were met, in order, each with its statement."""

    deaths: Counter[tuple[str, str]] = field(default_factory=Counter)
    tries: int = 0
    lives: int = 0
    findings: list[str] = field(default_factory=list)
    blows: list[tuple[str, str]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.deaths.total()

    def struck(self, doing: str, moment: Moment, statement: str) -> None:
        self.deaths[(doing, f"{moment.victim.value} {moment.edge.value}")] += 1
        self.blows.append((f"{doing}, {moment}", statement))

    def add(self, others: Iterable[Tally]) -> None:
        for other in others:
            self.deaths += other.deaths
            self.tries += other.tries
            self.lives += other.lives
            self.findings += other.findings
            self.blows += other.blows

    def __str__(self) -> str:
        columns = sorted({struck for _, struck in self.deaths})
        moves = sorted({move for move, _ in self.deaths})
        rows = [[m, *(self.deaths[(m, c)] for c in columns), sum(self.deaths[(m, c)] for c in columns)] for m in moves]
        rows.append(["all", *(sum(self.deaths[(m, c)] for m in moves) for c in columns), self.total])
        return tabulate(rows, headers=["while", *columns, "all"])
