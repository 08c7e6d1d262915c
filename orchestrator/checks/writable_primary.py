"""We write to the primary that the rollout began on, and to no other: after a failover readers go back at once."""

from __future__ import annotations

from orchestrator.checks.reading import EXCLUSIVE, READS, ROWS, Given, given, passes, refuses, unseen
from orchestrator.model.facts import Facts, Need, ServerFacts
from orchestrator.model.runbook import Limits
from orchestrator.model.verdict import Verdict

_LIMIT = "the writable primary on which the rollout began"


class WritablePrimary:
    """``server_uuid``: the server of the rollout's record; "" before there is one."""

    name = "writable-primary"
    needs = frozenset({Need.SERVER})
    before = frozenset({EXCLUSIVE, ROWS, READS})
    during = frozenset({ROWS, READS})

    def __init__(self, server_uuid: str = "") -> None:
        self._server_uuid = server_uuid

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        got = given(self.name, facts.server, limits, now, _LIMIT)
        if not isinstance(got, Given):
            return got
        server = got.value
        seen, next = self._wrong(server)
        if seen:
            return refuses(self.name, seen, _LIMIT, next, goes_back=True)
        if server.is_replica is None:
            return unseen(self.name, "whether the server is itself a replica", _LIMIT, "rollout doctor")
        return passes(self.name, f"{server.hostname}:{server.port}, writable, no replica", _LIMIT)

    def _wrong(self, server: ServerFacts) -> tuple[str, str]:
        where = f"{server.hostname}:{server.port}"
        if self._server_uuid and server.server_uuid != self._server_uuid:
            seen = f"{where} is another server ({server.server_uuid}) than the rollout began on ({self._server_uuid})"
            return seen, "rollout status: after a failover a human decides how it goes on"
        if server.super_read_only or server.read_only:
            setting = "super_read_only" if server.super_read_only else "read_only"
            return f"{where} has {setting} on: it was demoted, or is a replica", "point rollout at the writable primary"
        if server.is_replica:
            return f"{where} is itself a replica, whose row events fire no trigger", "point rollout at its primary"
        return "", ""
