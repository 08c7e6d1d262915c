"""A part of the detection table (all of it: ``make bench ONLY=detection``): each corruption is found and named, and
nothing else is, also under traffic."""

from __future__ import annotations

import pytest

from benchmarks.corruption import KEYS, Cells, KeyKind
from benchmarks.detection import fill_cells
from orchestrator.sandbox.pair import Pair

SMALL = ("varchar unicode_ci", "composite, mixed")


@pytest.mark.parametrize("kind", [k for k in KEYS if k.name in SMALL], ids=lambda k: k.name)
def test_every_corruption_is_found_and_nothing_else(pair: Pair, kind: KeyKind) -> None:
    cells = Cells()
    fill_cells(kind, pair, cells)
    assert [name for (name, _), found in cells.found.items() if not found] == []
    assert cells.false_alarms == []
    assert len(cells.found) > 50
