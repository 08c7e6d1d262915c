"""How many statements the server has under way, and how many processors it has."""

from __future__ import annotations

# The processors that threads of sessions may run on, as ranges ("0-3,8"): every server has this group.
PROCESSORS = "SELECT VCPU_IDS FROM information_schema.RESOURCE_GROUPS WHERE RESOURCE_GROUP_NAME = 'USR_default'"
# Others' than ours, and none that only sleeps in its statement. Sessions are told by the thread's name (that of
# the thread pool, too): what applies a replica's events is in a query also while it waits, under any user's name.
ACTIVE = (
    "SELECT COUNT(*) FROM performance_schema.threads t WHERE PROCESSLIST_COMMAND IN ('Query', 'Execute') "
    "AND NAME IN ('thread/sql/one_connection', 'thread/thread_pool/tp_one_connection') "
    "AND COALESCE(PROCESSLIST_STATE, '') NOT IN ('User sleep', 'User lock') "
    "AND NOT EXISTS (SELECT 1 FROM performance_schema.session_connect_attrs a "
    "WHERE a.PROCESSLIST_ID = t.PROCESSLIST_ID AND a.ATTR_NAME = 'program_name' AND a.ATTR_VALUE LIKE 'rollout %')"
)
