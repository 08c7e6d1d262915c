"""A process that holds a lease, for tests that kill or freeze it.

Reads words from standard input, answers each with a line: ``alive`` and ``save`` try that, an empty input ends it.
Between words it gives signs of life, so that it may be kept for long.
"""

from __future__ import annotations

import select
import sys

from msgspec.structs import replace

from orchestrator.errors import RolloutError
from orchestrator.model.state import EventKind
from orchestrator.mysql.clock import SystemClock
from orchestrator.ports import Lease
from orchestrator.settings import Secret, ServerSettings
from orchestrator.store.mysql import MysqlStore
from orchestrator.store.place import LeaseTimes
from tests.support.state import moved


def main() -> None:
    port, schema, id, idle_s, dead_s = sys.argv[1:]
    settings = ServerSettings(port=int(port), user="rollout", password=Secret("rollout"), state_schema=schema)
    times = LeaseTimes(idle_s=int(idle_s), dead_s=float(dead_s))
    store = MysqlStore(settings, SystemClock(), times=times)
    with store.lease(id, "holder") as lease:
        print(lease.epoch, flush=True)
        while True:
            ready, _, _ = select.select([sys.stdin], [], [], 0.2)
            if ready:
                word = sys.stdin.readline().strip()
                if not word:
                    return
                print(_try(store, lease, id, word), flush=True)
            else:
                _try(store, lease, id, "alive")


def _try(store: MysqlStore, lease: Lease, id: str, word: str) -> str:
    try:
        if word == "alive":
            lease.alive()
        else:
            record = store.load(id)
            assert record is not None
            store.save(*moved(replace(record, epoch=lease.epoch), EventKind.INTENDED))
    except RolloutError as error:
        return type(error).__name__
    return "yes"


if __name__ == "__main__":
    main()
