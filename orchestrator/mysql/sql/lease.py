"""The statements of the lease: the named lock that dies with its holder, the row that others watch, and the fence.

The row that is renewed every second (``lease``) and the rows that fence work (``rollout``, ``position``, ``flag``) are
apart, so that neither waits for the other. Whoever raises an epoch takes the lease row first.
"""

from __future__ import annotations

import hashlib

from orchestrator.mysql import quote
from orchestrator.mysql.sql.positions import COMPARED
from orchestrator.mysql.sql.state import COMMIT, START, Statement, at


def lock_name(schema: str, id: str) -> str:
    """The server-wide name of a rollout's lock, at most 64 characters, whatever the id is."""
    return "rollout:" + hashlib.sha256(f"{schema}\0{id}".encode()).hexdigest()[:48]


def take_lock(name: str) -> Statement:
    """1: it is ours, and stays so until this connection ends. 0: another connection has it."""
    return "SELECT GET_LOCK(%s, 0)", (name,)


def let_go(name: str) -> Statement:
    return "DO RELEASE_LOCK(%s)", (name,)


def lock_owner(name: str) -> Statement:
    """The connection that has the lock, or NULL. Needs no privilege."""
    return "SELECT IS_USED_LOCK(%s)", (name,)


def kill(connection_id: int) -> Statement:
    return f"KILL {int(connection_id)}", ()


def idle_sessions(pid: int, host: str) -> Statement:
    """The connections of that process on which no statement runs; one that runs is found again by its tag."""
    return (
        "SELECT t.PROCESSLIST_ID FROM performance_schema.session_connect_attrs a"
        " JOIN performance_schema.threads t ON t.PROCESSLIST_ID = a.PROCESSLIST_ID"
        " WHERE a.ATTR_NAME = 'program_name' AND a.ATTR_VALUE LIKE 'rollout %%'"
        " AND SUBSTRING_INDEX(a.ATTR_VALUE, ' ', -1) = %s AND t.PROCESSLIST_COMMAND = 'Sleep'",
        (f"{pid}@{host}",),
    )


def read(schema: str, id: str) -> Statement:
    return (
        f"SELECT owner, host, pid, since, counter, epoch, reason FROM {at(schema, 'lease')} WHERE rollout = %s",
        (id,),
    )


def raise_epoch(schema: str, id: str, expected: int | None = None) -> tuple[Statement, ...]:
    """The first half of taking or bumping: one more than every epoch that is known of this rollout goes into every row
    that fences; a bookmark keeps that of its holder. ``expected``: only if the lease still has that epoch.
    ``@rollout_epoch`` is 0 when it does not.
    """
    lease = at(schema, "lease")
    known = " UNION ALL ".join(
        (
            f"SELECT MAX(epoch) AS e FROM {lease} WHERE rollout IN (%s, '')",
            f"SELECT MAX(epoch) FROM {at(schema, 'rollout')} WHERE id = %s",
            f"SELECT MAX(epoch) FROM {at(schema, 'flag')} WHERE rollout = %s",
            f"SELECT MAX(epoch) FROM {at(schema, 'position')} WHERE rollout = %s",
        )
    )
    fencing = (
        ("rollout", "id = %s"),
        ("position", f"rollout = %s AND LEFT(pass, {len(COMPARED)}) <> {quote.text(COMPARED)}"),
        ("flag", "rollout = %s"),
    )
    holds = "TRUE" if expected is None else f"(SELECT epoch FROM {lease} WHERE rollout = %s) = {int(expected)}"
    return (
        START,
        # Not IGNORE: two that meet here would share the row and then deadlock.
        (
            f"INSERT INTO {lease} (rollout, counter, epoch) VALUES (%s, 0, 0)"
            " ON DUPLICATE KEY UPDATE counter = counter",
            (id,),
        ),
        (
            f"SELECT IF({holds}, 1 + COALESCE(MAX(e), 0), 0) INTO @rollout_epoch FROM ({known}) AS every_epoch",
            (id,) * (4 if expected is None else 5),
        ),
        (f"UPDATE {lease} SET epoch = @rollout_epoch WHERE rollout = %s AND @rollout_epoch > 0", (id,)),
        *(
            (f"UPDATE {at(schema, table)} SET epoch = @rollout_epoch WHERE {of} AND @rollout_epoch > 0", (id,))
            for table, of in fencing
        ),
    )


ANSWER_EPOCH = ("SELECT @rollout_epoch", ())


def own(schema: str, id: str, who: tuple[str, str, int, str]) -> tuple[Statement, ...]:
    """The second half of taking: the row says who, where, since when and why; the heartbeat has a row. ``who`` is
    (person, host, process id, reason)."""
    owner, host, pid, reason = who
    return (
        (
            f"UPDATE {at(schema, 'lease')} SET owner = %s, host = %s, pid = %s, reason = %s, since = UTC_TIMESTAMP(6),"
            " counter = 0 WHERE rollout = %s AND @rollout_epoch > 0",
            (owner, host, pid, reason, id),
        ),
        (
            f"INSERT INTO {at(schema, 'heartbeat')} (rollout, seq, at) VALUES (%s, 0, UTC_TIMESTAMP(6))"
            " ON DUPLICATE KEY UPDATE seq = seq + 1, at = UTC_TIMESTAMP(6)",
            (id,),
        ),
        COMMIT,
        ANSWER_EPOCH,
    )


def bumped() -> tuple[Statement, ...]:
    """The second half of a bump."""
    return COMMIT, ANSWER_EPOCH


def beat(schema: str, id: str, epoch: int) -> Statement:
    """Only a row that is there: a purge must not be undone by the last heartbeat. And only ours: who was cut off looks
    whether it still is once it is back."""
    return (
        f"UPDATE {at(schema, 'heartbeat')} SET seq = seq + 1, at = UTC_TIMESTAMP(6) WHERE rollout = %s"
        f" AND EXISTS (SELECT 1 FROM {at(schema, 'lease')} WHERE rollout = %s AND epoch = %s)",
        (id, id, epoch),
    )


def renew(schema: str, id: str, epoch: int) -> Statement:
    return f"UPDATE {at(schema, 'lease')} SET counter = counter + 1 WHERE rollout = %s AND epoch = %s", (id, epoch)


def look(schema: str, id: str, name: str) -> Statement:
    """The epoch that the lease has now (NULL: no row), and whether the named lock is this connection's."""
    return (
        f"SELECT (SELECT epoch FROM {at(schema, 'lease')} WHERE rollout = %s), IS_USED_LOCK(%s) <=> CONNECTION_ID()",
        (id, name),
    )


def clear(schema: str, id: str, epoch: int) -> Statement:
    """The end of a lease that nobody took away."""
    return (
        f"UPDATE {at(schema, 'lease')} SET owner = NULL, host = NULL, pid = NULL, reason = NULL, since = NULL"
        " WHERE rollout = %s AND epoch = %s",
        (id, epoch),
    )
