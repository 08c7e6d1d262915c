"""Settings without which the other checks are blind, or what is written does not reach a replica as it was written."""

from __future__ import annotations

from orchestrator.checks.reading import OfTheServer, passes, refuses, unseen
from orchestrator.model.facts import ServerFacts
from orchestrator.model.runbook import Limits
from orchestrator.model.verdict import Verdict

_INSTRUMENT = (
    "enable it: UPDATE performance_schema.setup_instruments SET ENABLED = 'YES'"
    " WHERE NAME = 'wait/lock/metadata/sql/mdl'; locks taken before that stay invisible until they are released"
)
# Ours too, not only that of tools that copy a table by its log.
_WHOLE_ROWS = (
    "what a replica, a copy of the table or a restore to a moment makes of our writes rests on whole rows, and so does"
    " looking up what a row was"
)


class ServerSettings(OfTheServer):
    name = "server-settings"
    limit = "performance_schema and its metadata-lock instrument on; binary log on, ROW, FULL, kept long enough"

    def judge_server(self, server: ServerFacts, limits: Limits) -> Verdict:
        wrong = _wrong(server, limits)
        if wrong:
            seen, next = ("; ".join(parts) for parts in zip(*wrong, strict=True))
            return refuses(self.name, seen, self.limit, next)
        if server.metadata_lock_instrument is None:
            why = "whether the metadata-lock instrument is on needs SELECT on performance_schema"
            return unseen(self.name, why, self.limit, "rollout doctor")
        kept = f"kept for {server.binlog_retention_s / 3600:.0f} h" if server.binlog_retention_s else "kept for ever"
        return passes(self.name, f"binary log ROW and FULL, {kept}; metadata locks visible", self.limit)


def _wrong(server: ServerFacts, limits: Limits) -> list[tuple[str, str]]:
    """Each wrong setting and what mends it."""
    kept_s = server.binlog_retention_s
    tests = (
        (not server.performance_schema, "performance_schema is off", "start the server with performance_schema=ON"),
        (server.metadata_lock_instrument is False, "the metadata-lock instrument is off", _INSTRUMENT),
        (not server.log_bin, "the binary log is off", "start the server with log_bin"),
        (
            server.binlog_format != "ROW",
            f"binlog_format is {server.binlog_format}",
            "SET PERSIST binlog_format = 'ROW'",
        ),
        (
            server.binlog_row_image != "FULL",
            f"binlog_row_image is {server.binlog_row_image}: {_WHOLE_ROWS}",
            "SET PERSIST binlog_row_image = 'FULL', then let sessions that are open reconnect",
        ),
        (
            0 < kept_s < limits.max_wait_s,
            f"binary logs are kept for {kept_s} s, less than the longest pause ({limits.max_wait_s:.0f} s)",
            f"SET PERSIST binlog_expire_logs_seconds = {max(86_400, round(limits.max_wait_s) * 10)}",
        ),
    )
    return [(seen, next) for is_wrong, seen, next in tests if is_wrong]
