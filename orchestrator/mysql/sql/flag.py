"""The statements on the flags that applications obey. Times are computed and compared by the server alone.

Each write is one packet that first locks the row, then fixes the moment: a wait for the lock must not make an expired
flag look alive. Nobody but ``lower`` writes a flag that has expired.
"""

from __future__ import annotations

from orchestrator.model.state import State
from orchestrator.mysql import quote
from orchestrator.mysql.sql.state import COMMIT, START, Statement, at

NEVER = "9999-12-31 00:00:00.000000"
# The row as it stood under the lock: epoch (NULL: no row), not yet expired, new_writes, read_percent.
_ANSWER = ("SELECT @flag_epoch, @flag_expires > @flag_now, @flag_writes, @flag_percent", ())


class _Word(str):
    """A value that is not known yet when a plan is shown."""


_EPOCH, _SALT = _Word(":epoch"), _Word(":salt")


def read(schema: str, id: str) -> Statement:
    """new_writes, read_percent, expired, seconds left (NULL: it never expires), epoch, double_writes."""
    return (
        "SELECT new_writes, read_percent, expires_at <= UTC_TIMESTAMP(6), IF(expires_at >= %s, NULL,"
        f" TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) / 1000000), epoch, double_writes"
        f" FROM {at(schema, 'flag')} WHERE rollout = %s",
        (NEVER, id),
    )


def open_writes(schema: str, id: str, fence: tuple[object, object], ttl_s: float | None) -> tuple[Statement, ...]:
    """New writes on, readers at 0 %. A row that is missing is made, unless a lease of another epoch exists; one that
    has expired must have been lowered before. ``fence``: our epoch, and the salt of a new row."""
    flag, (epoch, salt) = at(schema, "flag"), fence
    return (
        *_look(schema, id),
        (
            f"UPDATE {flag} SET new_writes = 1, read_percent = 0, expires_at = {_expiry(ttl_s)} WHERE rollout = %s"
            " AND epoch = %s AND (@flag_expires > @flag_now OR (new_writes = 0 AND read_percent = 0))",
            (id, epoch),
        ),
        (
            f"INSERT INTO {flag} (rollout, new_writes, read_percent, salt, expires_at, epoch)"
            f" SELECT %s, 1, 0, %s, {_expiry(ttl_s)}, %s FROM DUAL WHERE @flag_epoch IS NULL"
            f" AND NOT EXISTS (SELECT 1 FROM {at(schema, 'lease')} WHERE rollout = %s AND epoch <> %s FOR SHARE)",
            (id, salt, epoch, id, epoch),
        ),
        COMMIT,
        _ANSWER,
        (f"SELECT epoch FROM {flag} WHERE rollout = %s", (id,)),
    )


def set_percent(schema: str, id: str, epoch: object, percent: int, ttl_s: float | None) -> tuple[Statement, ...]:
    """Only on a flag that is open and has not expired."""
    change = (
        f"UPDATE {at(schema, 'flag')} SET read_percent = %s, expires_at = {_expiry(ttl_s)}"
        " WHERE rollout = %s AND epoch = %s AND new_writes = 1 AND expires_at > @flag_now",
        (percent, id, epoch),
    )
    return _write(schema, id, change)


def renew(schema: str, id: str, epoch: object, percent: int, ttl_s: float | None) -> tuple[Statement, ...]:
    """Only a flag of this epoch, at this percent, that has not expired."""
    change = (
        f"UPDATE {at(schema, 'flag')} SET expires_at = {_expiry(ttl_s)}"
        " WHERE rollout = %s AND epoch = %s AND read_percent = %s AND expires_at > @flag_now",
        (id, epoch, percent),
    )
    return _write(schema, id, change)


def keep(schema: str, id: str, epoch: object, percent: int) -> tuple[Statement, ...]:
    """As ``renew``, for ever."""
    change = (
        f"UPDATE {at(schema, 'flag')} SET expires_at = %s"
        " WHERE rollout = %s AND epoch = %s AND read_percent = %s AND expires_at > @flag_now",
        (NEVER, id, epoch, percent),
    )
    return _write(schema, id, change)


def lower(schema: str, id: str, epoch: object | None) -> tuple[Statement, ...]:
    """Readers to 0 %, new writes closed, from any state; it expires now, so that nobody renews it. Without an epoch a
    rollout that is finished keeps its readers: its mirror is gone, whoever asked did not know that yet."""
    change = (
        f"UPDATE {at(schema, 'flag')} SET new_writes = 0, read_percent = 0, expires_at = @flag_now WHERE rollout = %s"
    )
    if epoch is None:
        record = f"SELECT 1 FROM {at(schema, 'rollout')} WHERE id = %s AND state = %s"
        return _write(schema, id, (f"{change} AND NOT EXISTS ({record})", (id, id, State.FINISHED.value)))
    return _write(schema, id, (f"{change} AND epoch = %s", (id, epoch)))


def raise_double_writes(schema: str, id: str, fence: tuple[object, object]) -> tuple[Statement, ...]:
    """Applications are asked to write both columns. A row that is missing is made, lowered; as in ``open_writes``."""
    flag, (epoch, salt) = at(schema, "flag"), fence
    return (
        *_look(schema, id),
        (f"UPDATE {flag} SET double_writes = 1 WHERE rollout = %s AND epoch = %s", (id, epoch)),
        (
            f"INSERT INTO {flag} (rollout, new_writes, read_percent, salt, expires_at, epoch, double_writes)"
            " SELECT %s, 0, 0, %s, @flag_now, %s, 1 FROM DUAL WHERE @flag_epoch IS NULL"
            f" AND NOT EXISTS (SELECT 1 FROM {at(schema, 'lease')} WHERE rollout = %s AND epoch <> %s FOR SHARE)",
            (id, salt, epoch, id, epoch),
        ),
        COMMIT,
        (f"SELECT epoch FROM {flag} WHERE rollout = %s", (id,)),
    )


def lower_double_writes(schema: str, id: str, epoch: object | None) -> tuple[Statement, ...]:
    """Applications write one column again. It does not expire by itself: it is the mirror, which stays when nobody
    watches."""
    change = f"UPDATE {at(schema, 'flag')} SET double_writes = 0 WHERE rollout = %s"
    if epoch is None:
        return _write(schema, id, (change, (id,)))
    return _write(schema, id, (f"{change} AND epoch = %s", (id, epoch)))


def describe_double_writes(id: str, raised: bool, schema: str = "_rollout") -> tuple[str, ...]:
    return _shown(
        raise_double_writes(schema, id, (_EPOCH, _SALT)) if raised else lower_double_writes(schema, id, _EPOCH)
    )


def describe_open(id: str, ttl_s: float | None, schema: str = "_rollout") -> tuple[str, ...]:
    """The packet as it is sent, for a plan: ``:epoch`` and ``:salt`` are known only when it runs."""
    return _shown(open_writes(schema, id, (_EPOCH, _SALT), ttl_s))


def describe_percent(id: str, percent: int, ttl_s: float | None, schema: str = "_rollout") -> tuple[str, ...]:
    return _shown(set_percent(schema, id, _EPOCH, percent, ttl_s))


def describe_keep(id: str, percent: int = 100, schema: str = "_rollout") -> tuple[str, ...]:
    return _shown(keep(schema, id, _EPOCH, percent))


def describe_lower(id: str, schema: str = "_rollout") -> tuple[str, ...]:
    return _shown(lower(schema, id, _EPOCH))


def _write(schema: str, id: str, change: Statement) -> tuple[Statement, ...]:
    return (*_look(schema, id), change, COMMIT, _ANSWER)


def _look(schema: str, id: str) -> tuple[Statement, ...]:
    """Lock the row and remember what stands, then fix the moment."""
    return (
        START,
        ("SET @flag_epoch = NULL, @flag_expires = NULL, @flag_writes = NULL, @flag_percent = NULL", ()),
        (
            f"SELECT epoch, expires_at, new_writes, read_percent FROM {at(schema, 'flag')} WHERE rollout = %s"
            " FOR UPDATE INTO @flag_epoch, @flag_expires, @flag_writes, @flag_percent",
            (id,),
        ),
        ("SET @flag_now = UTC_TIMESTAMP(6)", ()),
    )


def _expiry(ttl_s: float | None) -> str:
    """A moment of the server, computed there; None: never."""
    if ttl_s is None:
        return quote.literal(NEVER)
    return f"@flag_now + INTERVAL {round(ttl_s * 1_000_000)} MICROSECOND"


def _shown(statements: tuple[Statement, ...]) -> tuple[str, ...]:
    return (";\n".join(sql % tuple(_literal(a) for a in args) for sql, args in statements),)


def _literal(value: object) -> str:
    if isinstance(value, _Word) or not isinstance(value, str):
        return str(value)
    return quote.literal(value)
