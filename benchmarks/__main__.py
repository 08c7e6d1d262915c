"""``make bench`` and ``make bench ONLY=name``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from benchmarks import (
    back,
    backfill,
    bodies,
    command,
    contract,
    crowd,
    ddl,
    detection,
    ghost,
    large,
    load,
    mirror,
    stall,
    verify,
)
from benchmarks.figures import Figure, keep, show

ALL: dict[str, Callable[[], Sequence[Figure]]] = {
    "help": command.help_,
    "status": command.status,
    "lint_file": contract.lint_file,
    "drift_prisma": contract.drift_prisma,
    "compat": contract.compat,
    "backfill": backfill.backfill,
    "backfill_stall": crowd.stall,
    "backfill_workers": crowd.workers,
    "backfill_lag": crowd.lag,
    "detection": detection.detection,
    "verify": verify.verify,
    "back": back.back,
    "stall": stall.stall,
    "ddl_stall": ddl.ddl_stall,
    "ddl_stall_sum": ddl.ddl_stall_sum,
    "ddl_overhead": ddl.ddl_overhead,
    "ghost_overhead": ghost.overhead,
    "ghost_stall": ghost.stalls,
    "mirror_cost": mirror.cost,
    "mirror_install": mirror.install,
    "mirror_bodies": bodies.bodies,
    "sweep": mirror.sweep,
    "demo": command.demo,
}
# Many minutes: only when they are named.
LONG: dict[str, Callable[[], Sequence[Figure]]] = {
    "backfill_growth": backfill.growth,
    "load": load.load,
    "walk_large": large.walk,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Ratios against the raw server, measured side by side.")
    parser.add_argument("--only", default="", help=f"one of {', '.join(ALL | LONG)}")
    only = parser.parse_args().only
    if only and only not in ALL | LONG:
        sys.exit(f"there is no benchmark {only!r}; there are {', '.join(ALL | LONG)}")
    figures: list[Figure] = []
    for name, run in (ALL | LONG).items():
        if only == name or (not only and name in ALL):
            sys.stderr.write(f"bench {name} …\n")
            figures += run()
            keep(figures)
    show(figures)


if __name__ == "__main__":
    main()
