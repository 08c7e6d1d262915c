"""Only MySQL 8.0.28 and newer: MariaDB looks alike and means other things (empty lock tables, other DDL and GTIDs)."""

from __future__ import annotations

from orchestrator.checks.reading import OfTheServer, passes, refuses
from orchestrator.model.facts import ServerFacts
from orchestrator.model.runbook import Limits
from orchestrator.model.verdict import Verdict

OLDEST = (8, 0, 28)


class ServerKind(OfTheServer):
    name = "server-kind"
    limit = "MySQL 8.0.28 or newer"

    def judge_server(self, server: ServerFacts, limits: Limits) -> Verdict:
        if server.is_mariadb:
            return refuses(self.name, f"MariaDB ({server.version_text})", self.limit, "point rollout at a MySQL server")
        if server.version < OLDEST:
            return refuses(self.name, f"MySQL {server.version_text}", self.limit, "upgrade the server first")
        return passes(self.name, f"MySQL {server.version_text}", self.limit)
