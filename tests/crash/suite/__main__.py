"""``make crash``: strikes rollouts at seeded moments until so many deaths were counted, and prints what was found.

``--life SEED``, ``--storm SEED`` or ``--race SEED`` replays the one rollout that a finding names.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

from orchestrator.sandbox.pair import Pair
from tests.crash.suite.lives import Life
from tests.crash.suite.storms import Storm
from tests.crash.suite.tally import Tally
from tests.crash.suite.zombies import Race
from tests.support.servers import guarded_pair

_WORKERS = 2
# A race is waiting, most of its time.
_RACERS = 4


class Most(NamedTuple):
    """Where a run ends: after so many deaths, or at that moment of the monotonic clock."""

    deaths: int
    until: float = math.inf


Rollouts = Callable[[Sequence[int], Most], Tally]
# Deaths of all workers together; they are forked, and share it.
_counted = get_context("fork").Value("q", 0)


def lives(seeds: Sequence[int], most: Most) -> Tally:
    """The light weight, on a pair of its own, until there were so many deaths or the seeds are used up."""
    return _through(seeds, most, lambda pair, seed, tally: Life(pair, seed, tally).live())


def storms(seeds: Sequence[int], most: Most) -> Tally:
    """The heavy weight, likewise."""
    return _through(seeds, most, lambda pair, seed, tally: Storm(pair, seed, tally).blow())


def zombies(seeds: Sequence[int], most: Most) -> Tally:
    """Sleepers that wake when somebody else has done their work."""
    return _through(seeds, most, lambda pair, seed, tally: Race(pair, seed, tally).live())


def _through(seeds: Sequence[int], most: Most, one: Callable[[Pair, int, Tally], None]) -> Tally:
    tally = Tally()
    with guarded_pair() as pair:
        for seed in seeds:
            if _counted.value >= most.deaths or time.monotonic() > most.until:
                break
            known, deaths = len(tally.findings), tally.total
            try:
                one(pair, seed, tally)
            except AssertionError as error:
                tally.findings.append(f"seed {seed}: {error}")
            for finding in tally.findings[known:]:
                print(f"FOUND: {finding}", flush=True)
            with _counted:
                _counted.value += tally.total - deaths
                so_far = _counted.value
            print(f"seed {seed} is through, {so_far} of {most.deaths} deaths", file=sys.stderr, flush=True)
    return tally


def _shared(rollouts: Rollouts, first: int, deaths: int, within_s: float, workers: int = _WORKERS) -> Tally:
    _counted.value = 0
    most = Most(deaths, time.monotonic() + within_s)
    seeds = [range(first + w, first + 100_000, workers) for w in range(workers)]
    tally = Tally()
    with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
        tally.add(pool.map(rollouts, seeds, [most] * workers))
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", type=int, default=0, help="deaths of the light weight")
    parser.add_argument("--heavy", type=int, default=0, help="blows of the heavy weight")
    parser.add_argument("--zombies", type=int, default=0, help="sleepers that wake too late")
    parser.add_argument(
        "--within", type=float, default=math.inf, help="minutes for each of them; then the run ends then"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--life", type=int, help="replay this life alone")
    parser.add_argument("--storm", type=int, help="replay this storm alone")
    parser.add_argument("--race", type=int, help="replay the sleepers of this life alone")
    said = parser.parse_args()
    runs: list[tuple[str, Callable[[], Tally]]] = []
    if said.life is not None:
        runs.append(("quick", lambda: lives([said.life], Most(sys.maxsize))))
    if said.storm is not None:
        runs.append(("heavy", lambda: storms([said.storm], Most(sys.maxsize))))
    if said.race is not None:
        runs.append(("zombies", lambda: zombies([said.race], Most(sys.maxsize))))
    if said.quick:
        runs.append(("quick", lambda: _shared(lives, said.seed, said.quick, said.within * 60)))
    if said.heavy:
        runs.append(("heavy", lambda: _shared(storms, said.seed, said.heavy, said.within * 60)))
    if said.zombies:
        runs.append(("zombies", lambda: _shared(zombies, said.seed, said.zombies, said.within * 60, _RACERS)))
    found: list[str] = []
    for weight, run in runs:
        began = time.monotonic()
        tally = run()
        print(f"\n{weight}: {tally.total} deaths in {tally.lives} rollouts, {tally.tries} commands, ", end="")
        print(f"{time.monotonic() - began:.0f} s\n\n{tally}", flush=True)
        found += tally.findings
    # Once more, where whoever reads only the end sees them.
    for finding in found:
        print(f"\nFOUND: {finding}", flush=True)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
