"""A server's error as what an operator is told, and the statements of a room as text for one packet."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from orchestrator.errors import ConfigurationError, Held, PrivilegeMissing, RolloutError, ServerUnreachable
from orchestrator.mysql.errno import NO_ROOM, Cure, ServerError
from orchestrator.mysql.look.unseen import read_account, unseen_because
from orchestrator.mysql.session import Row, Session
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.state import Statement

# No such schema, no such table: rollout was never installed here.
NOT_INSTALLED = frozenset({1049, 1146})


def rows(session: Session, statement: Statement) -> list[Row]:
    """The rows of one statement. Raises ServerError."""
    return session.query(session.mogrify(*statement))


def packet(session: Session, statements: Iterable[Statement]) -> list[list[Row]]:
    """The rows of each of the statements, sent as one packet. Raises ServerError."""
    return session.packet([session.mogrify(*statement) for statement in statements])


def told(error: ServerError, doing: str, grant: str = "") -> RolloutError:
    """The error that says what ``doing`` met; ``grant`` is what the account would need. Nothing was changed."""
    seen = f"{doing}: the server says {error.number} {error.text}"
    if error.is_privilege:
        return PrivilegeMissing(seen, "an account that may do this", grant or "rollout doctor")
    if error.number in NO_ROOM:
        room = "room where the server keeps its data and its temporary files (datadir, tmpdir)"
        return Held(seen, room, "free space there, then type the same command again")
    match error.cure:
        case Cure.TOPOLOGY:
            return ConfigurationError(seen, "the writable primary", "point rollout to the primary (--host, --port)")
        case Cure.RECONNECT | Cure.WAIT:
            return ServerUnreachable(
                seen, "a server that answers", "look at the server, then type the same command again"
            )
        case Cure.RETRY:
            return Held(seen, "rows of the state that nobody else has locked", "type the same command again")
        case Cure.SMALLER | Cure.STOP:
            return ConfigurationError(
                seen, "a server that takes this statement", "mend what the server says, then try again"
            )


def refuse_unread(site: Site, error: ServerError | ServerUnreachable, doing: str) -> None:
    """Raises PrivilegeMissing, with the exact GRANT, when the server's own books may not be read."""
    if isinstance(error, ServerError) and error.is_privilege:
        with closing(site.connect("look")) as session:
            raise told(error, doing, unseen_because(error, read_account(session)).grant) from error


def told_of_state(session: Session, error: ServerError, doing: str, *, writes: bool = True) -> RolloutError:
    """As ``told``, for the state schema: a right that is missing comes with the exact GRANT for this account."""
    if not error.is_privilege:
        return told(error, doing)
    rights = "SELECT, INSERT, UPDATE, DELETE, CREATE" if writes else "SELECT"
    return told(error, doing, read_account(session).grant_all_of(rights, session.settings.state_schema))
