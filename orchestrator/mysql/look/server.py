"""What kind of server this is, how it is set, and whether it is the writable primary."""

from __future__ import annotations

import re

from orchestrator.model.facts import ServerFacts
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session

_VARIABLES = (
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'version_comment', 'server_uuid', 'hostname', 'port',"
    " 'read_only', 'super_read_only', 'log_bin', 'binlog_format', 'binlog_row_image', 'binlog_expire_logs_seconds',"
    " 'binlog_expire_logs_auto_purge', 'gtid_mode', 'performance_schema', 'log_bin_trust_function_creators',"
    " 'max_allowed_packet', 'innodb_native_foreign_keys', 'enable_cascade_triggers',"
    " 'innodb_online_alter_log_max_size')"
)
_INSTRUMENT = "SELECT ENABLED FROM performance_schema.setup_instruments WHERE NAME = 'wait/lock/metadata/sql/mdl'"
_CONSUMER = "SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = 'global_instrumentation'"
# A session keeps what it was given when it began, or gave itself. Those that send binary logs, and the server's own
# daemons, write no row by a statement.
_DEAF_SESSION = (
    "SELECT t.PROCESSLIST_ID, t.PROCESSLIST_USER, t.PROCESSLIST_HOST FROM performance_schema.threads t"
    " JOIN performance_schema.variables_by_thread v"
    " ON v.THREAD_ID = t.THREAD_ID AND v.VARIABLE_NAME = 'enable_cascade_triggers' AND v.VARIABLE_VALUE <> 'ON'"
    " WHERE t.PROCESSLIST_ID IS NOT NULL AND t.PROCESSLIST_ID <> CONNECTION_ID() AND t.TYPE = 'FOREGROUND'"
    " AND t.PROCESSLIST_COMMAND <> 'Daemon' AND t.PROCESSLIST_COMMAND NOT LIKE 'Binlog Dump%' ORDER BY 1 LIMIT 1"
)
_CHANNELS = "SELECT COUNT(*) FROM performance_schema.replication_connection_configuration WHERE HOST <> ''"
_STATUS = "SHOW REPLICA STATUS"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def version_in(text: str) -> tuple[int, int, int]:
    """The three numbers with which ``@@version`` begins, whatever a vendor adds; zeros when there are none."""
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)


def read_server(session: Session) -> ServerFacts:
    """Kind, settings and role. Needs no privilege; what needs one and cannot be seen is None. Raises ServerError."""
    v = {str(name): str(value) for name, value in session.query(_VARIABLES)}
    text = v.get("version", "")
    keeps = v.get("binlog_expire_logs_auto_purge", "ON") == "OFF"
    return ServerFacts(
        version=version_in(text),
        version_text=text,
        is_mariadb="mariadb" in f"{text} {v.get('version_comment', '')}".lower(),
        server_uuid=v.get("server_uuid", ""),
        hostname=v.get("hostname", ""),
        port=int(v.get("port", "0")),
        read_only=v.get("read_only") != "OFF",
        super_read_only=v.get("super_read_only", "OFF") == "ON",
        log_bin=v.get("log_bin") == "ON",
        # A version without the variable knows no other format than rows.
        binlog_format=v.get("binlog_format", "ROW"),
        binlog_row_image=v.get("binlog_row_image", "FULL"),
        binlog_retention_s=0 if keeps else int(v.get("binlog_expire_logs_seconds", "0")),
        gtid_mode=v.get("gtid_mode", "OFF"),
        performance_schema=v.get("performance_schema") == "ON",
        metadata_lock_instrument=_instrument(session),
        is_replica=_is_replica(session),
        trust_function_creators=v.get("log_bin_trust_function_creators") == "ON",
        max_allowed_packet_bytes=int(v.get("max_allowed_packet", "0")),
        native_foreign_keys={"ON": True, "OFF": False}.get(v.get("innodb_native_foreign_keys", "")),
        online_log_max_bytes=int(v.get("innodb_online_alter_log_max_size", "134217728")),
        cascades_unseen=_cascades_unseen(session, v),
    )


def _cascades_unseen(session: Session, variables: dict[str, str]) -> str:
    """The variable is read, not the version. Sessions are asked only where it is on."""
    said = variables.get("enable_cascade_triggers", "")
    if said != "ON":
        return f"enable_cascade_triggers is {said}" if said else "the server has no enable_cascade_triggers"
    if variables.get("innodb_native_foreign_keys") == "ON":
        return "innodb_native_foreign_keys is ON, and what InnoDB cascades by itself fires no trigger"
    try:
        deaf = session.query(_DEAF_SESSION)
    except ServerError as error:
        if error.is_privilege:
            return "enable_cascade_triggers is ON, but not whether every session has it: SELECT ON performance_schema.*"
        raise
    told = (f"enable_cascade_triggers is ON, but OFF in the session {id} of {user}@{host}" for id, user, host in deaf)
    return next(told, "")


def _instrument(session: Session) -> bool | None:
    try:
        return bool(session.value(_INSTRUMENT) == "YES" and session.value(_CONSUMER) == "YES")
    except ServerError as error:
        if error.is_privilege:
            return None
        raise


def _is_replica(session: Session) -> bool | None:
    """Either view will do; the first needs SELECT on performance_schema, the second REPLICATION CLIENT."""
    for statement in (_CHANNELS, _STATUS):
        try:
            rows = session.query(statement)
        except ServerError as error:
            if error.is_privilege or error.number in (1064, 1146):
                continue
            raise
        return bool(rows[0][0]) if statement is _CHANNELS else bool(rows)
    return None
