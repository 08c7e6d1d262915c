"""A process that backfills the orders table under a given epoch, for tests that freeze or kill it.

Arguments: port, schema, epoch. It says ``began`` and, at the end, the name of the outcome or of the error.
"""

from __future__ import annotations

import sys

from orchestrator.drivers.rows import FillDriver
from orchestrator.errors import RolloutError
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.site import Site
from orchestrator.sandbox.template import OPERATOR
from orchestrator.settings import Secret, ServerSettings
from tests.support.orders import fill, runbook
from tests.support.rows import ToldBeat


def main() -> None:
    port, schema, epoch = sys.argv[1:]
    settings = ServerSettings(port=int(port), user=OPERATOR.user, password=Secret(OPERATOR.password))
    driver = FillDriver(Site(settings, runbook(schema), SystemClock()))
    print("began", flush=True)
    try:
        print(driver.apply(fill(schema, rows=20), ToldBeat(epoch=int(epoch))).result.value, flush=True)
    except RolloutError as error:
        print(error.code, flush=True)


main()
