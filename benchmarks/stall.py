"""The application's longest wait while somebody holds the table for ten seconds and its shape is changed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.blocked import ground
from benchmarks.figures import Figure

_ROUNDS = 5
# The server's default: as an operator types it.
_LOCK_WAIT_TIMEOUT_S = 31_536_000


def stall() -> Sequence[Figure]:
    """The excess of the whole expand over an equal time without us; a naive ALTER is measured once beside it."""
    ours, bare = [], []
    with ground() as bench:
        for _ in range(_ROUNDS):
            bare.append(bench.waits(lambda: None).longest_s)
            ours.append(bench.waits(lambda: bench.walk(bench.up())).longest_s)
            bench.walk(bench.down())
        errors = bench.errors
        naive = bench.waits(lambda: bench.by_hand(bench.up()[:1], _LOCK_WAIT_TIMEOUT_S)).longest_s
    excess = [with_us - without for with_us, without in zip(ours, bare, strict=True)]
    note = f"{errors} errors; naive ALTER {naive:.2f} s (one run)"
    return (
        Figure(
            "stall", statistics.median(ours), "s", statistics.median(bare), note="longest wait, one 10 s transaction"
        ),
        Figure(
            "stall_excess", statistics.median(excess), "s", goal=0.25, note=f"worst round {max(excess):.3f}; {note}"
        ),
        Figure("stall_naive", naive, "s", statistics.median(bare), note="one ALTER as typed, one run"),
    )
