"""Only MySQL 8.0.28 and newer: MariaDB looks alike and means other things (empty lock tables, other DDL and GTIDs)."""

from __future__ import annotations

from orchestrator.checks.reading import EXCLUSIVE, NEVER, READS, ROWS, Given, given, passes, refuses
from orchestrator.model.facts import Facts, Need
from orchestrator.model.runbook import Limits
from orchestrator.model.verdict import Verdict

OLDEST = (8, 0, 28)
_LIMIT = "MySQL 8.0.28 or newer"


class ServerKind:
    name = "server-kind"
    needs = frozenset({Need.SERVER})
    before = frozenset({EXCLUSIVE, ROWS, READS})
    during = NEVER

    def judge(self, facts: Facts, limits: Limits, now: float) -> Verdict:
        got = given(self.name, facts.server, limits, now, _LIMIT)
        if not isinstance(got, Given):
            return got
        server = got.value
        if server.is_mariadb:
            return refuses(self.name, f"MariaDB ({server.version_text})", _LIMIT, "point rollout at a MySQL server")
        if server.version < OLDEST:
            return refuses(self.name, f"MySQL {server.version_text}", _LIMIT, "upgrade the server first")
        return passes(self.name, f"MySQL {server.version_text}", _LIMIT)
