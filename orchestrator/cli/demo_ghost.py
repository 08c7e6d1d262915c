"""The demonstration of the engine gh-ost: a change that the server could only make by a copy, under traffic."""

from __future__ import annotations

from orchestrator.cli.demo import Demo
from orchestrator.model.runbook import Runbook
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.traffic import Traffic


class GhostDemo(Demo):
    """Forward to the end: what is special here is ddl, and that its cut-over loses nothing and stops nobody."""

    file = "readings.yaml"
    about = "a table of readings whose numbers outgrow their types"

    def _walk(self, pair: Pair, runbook: Runbook, traffic: Traffic) -> int:
        def rollout(*arguments: str) -> str:
            return self._rollout(pair, runbook, arguments, 0)

        self._say("What would happen, without writing anything; gh-ost makes the change, and the plan shows its call:")
        rollout("plan", "--phase", "ddl", "--sql")
        self._say("gh-ost fills a copy beside the traffic; the moment of its cut-over is ours to give.")
        rollout("next", "--phase", "ddl", "-y")
        for phase in ("backfill", "shadow-write", "read-switch", "verify"):
            rollout("next", "--phase", phase, "-y")
        return self._finished(rollout, traffic)
