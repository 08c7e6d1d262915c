"""DDL while somebody is in the way: the application's longest wait, the sum of its waits, and what the split costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from benchmarks.blocked import ground
from benchmarks.figures import Figure
from orchestrator.model.step import AddForeignKey, AddIndex, ExclusiveDdlStep

# On a smaller table nobody minds; here the statements take some seconds.
_MATTERS_ROWS = 200_000


def ddl_stall() -> Sequence[Figure]:
    """For each kind of statement: the excess of the longest wait over an interleaved run without us."""
    with ground() as bench:
        up, figures = bench.up(), []
        indexes = [s for s in up if isinstance(s, AddIndex)]
        keys = [s for s in up if isinstance(s, AddForeignKey)]
        down = bench.down()
        parts: tuple[tuple[str, Callable[[], None], Callable[[], None]], ...] = (
            ("columns", lambda: bench.walk(up[:1]), lambda: None),
            ("index", lambda: bench.walk(indexes[:1]), lambda: bench.walk(indexes[1:])),
            ("foreign_key", lambda: bench.walk(keys[:1]), lambda: bench.walk(keys[1:])),
            ("triggers", bench.install, bench.remove),
        )
        for name, work, after in parts:
            bare = bench.waits(lambda: None).longest_s
            ours = bench.waits(work).longest_s
            after()
            note = f"one run of 10 s; {ours:.3f} s with us, {bare:.3f} s without"
            figures.append(Figure(f"ddl_stall_{name}", ours - bare, "s", goal=0.25, note=note))
        bench.walk(down)
        impatient = bench.waits(lambda: bench.by_hand(up[:1], 1)).longest_s
        bench.walk(down[-1:])
        naive = bench.waits(lambda: bench.by_hand(up[:1], 3600)).longest_s
        bench.walk(down[-1:])
    errors = Figure("ddl_stall_errors", float(bench.errors), "", goal=0, note="errors of the application in all runs")
    beside = (
        Figure("ddl_stall_timeout_1", impatient, "s", note="columns with lock_wait_timeout=1 and retries, one run"),
        Figure("ddl_stall_naive", naive, "s", note="columns as typed, one run"),
    )
    return (*figures, *beside, errors)


def ddl_stall_sum() -> Sequence[Figure]:
    """The sum of the waits over 0.1 s of the worst thread: a known holder costs nothing."""
    with ground() as bench:
        up, down = bench.up(), bench.down()

        def twice(run: Callable[[Sequence[ExclusiveDdlStep]], None]) -> float:
            def work() -> None:
                run(up[:1])
                with bench.held():
                    run(up[1:])

            total = bench.waits(work).sum_s
            bench.walk(down)
            return total

        bare = bench.waits(lambda: None).sum_s
        ours = twice(bench.walk)
        impatient = twice(lambda steps: bench.by_hand(steps, 1))
        naive = twice(lambda steps: bench.by_hand(steps, 3600))
    note = f"two blockers of 10 s, one run; {bench.errors} errors; without us {bare:.2f} s"
    return (
        Figure("ddl_stall_sum", ours, "s", goal=0.5, note=note),
        Figure("ddl_stall_sum_timeout_1", impatient, "s", note="lock_wait_timeout=1 and retries, one run"),
        Figure("ddl_stall_sum_naive", naive, "s", note="as typed, one run"),
    )


def ddl_overhead() -> Sequence[Figure]:
    """Our split over the same statements by hand, no blocker; medians of five, interleaved. What a step costs by itself
    (three sessions, two looks at the shape, the watch) is the same on a table of any size."""
    ours: list[float] = []
    hand: list[float] = []
    with ground(_MATTERS_ROWS) as bench:
        steps = len(bench.up())
        for _ in range(5):
            for kept, run in ((hand, bench.by_hand), (ours, bench.walk)):
                began = time.perf_counter()
                run(bench.up())
                kept.append(time.perf_counter() - began)
                bench.walk(bench.down())
    with_us, by_hand = statistics.median(ours), statistics.median(hand)
    each_s = (with_us - by_hand) / steps
    note = f"five rounds of {steps} statements on {_MATTERS_ROWS:,} rows; a step costs {each_s:.3f} s by itself"
    return (Figure("ddl_overhead", with_us, "s", by_hand, goal=1.15, note=note),)
