"""We write to the primary that the rollout began on, and to no other: after a failover readers go back at once."""

from __future__ import annotations

from orchestrator.checks.reading import EVERY, READS, ROWS, Given, given, passes, refuses, unseen
from orchestrator.model.facts import Facts, Need, ServerFacts
from orchestrator.model.runbook import Limits
from orchestrator.model.verdict import Verdict

_LIMIT = "the writable primary on which the rollout began"


class WritablePrimary:
    name = "writable-primary"
    needs = frozenset({Need.SERVER})
    before = EVERY
    during = frozenset({ROWS, READS})

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        got = given(self.name, facts.server, limits, now, _LIMIT)
        if not isinstance(got, Given):
            return got
        server = got.value
        seen, next = _wrong(server, facts.began_on)
        if seen:
            return refuses(self.name, seen, _LIMIT, next, goes_back=True)
        if facts.began_on is None:
            return unseen(self.name, "the record that says on which server the rollout began", _LIMIT)
        if server.is_replica is None:
            return unseen(self.name, "whether the server is itself a replica", _LIMIT, "rollout doctor")
        return passes(self.name, f"{server.hostname}:{server.port}, writable, no replica", _LIMIT)


def _wrong(server: ServerFacts, began_on: str | None) -> tuple[str, str]:
    where = f"{server.hostname}:{server.port}"
    if began_on and server.server_uuid != began_on:
        seen = f"{where} is another server ({server.server_uuid}) than the rollout began on ({began_on})"
        return seen, "rollout status: after a failover a human decides how it goes on"
    if server.super_read_only or server.read_only:
        setting = "super_read_only" if server.super_read_only else "read_only"
        return f"{where} has {setting} on: it was demoted, or is a replica", "point rollout at the writable primary"
    if server.is_replica:
        return f"{where} is itself a replica, whose row events fire no trigger", "point rollout at its primary"
    return "", ""
