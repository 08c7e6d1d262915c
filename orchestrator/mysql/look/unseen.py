"""What a reader raises when it cannot see, and the exact GRANT that would let it.

Some views of the server are silently empty without a privilege; a reader asks for the privilege first and raises this.
"""

from __future__ import annotations

import re

from msgspec import Struct

from orchestrator.mysql import quote
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.session import Session

_NEEDED = re.compile(r"at least one of\) the (.+?) privilege")
_DENIED = re.compile(r"^(\w+(?: \w+)?) command denied to user .* for (?:table|column) ")
PERFORMANCE_SCHEMA = "performance_schema.*"
EVERYWHERE = "*.*"


class Unseen(Exception):
    """A reading that cannot be taken: why, and what to type so that it can (a GRANT, or a setting)."""

    def __init__(self, reason: str, grant: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.grant = grant


class Account(Struct, frozen=True):
    """CURRENT_USER() in its two parts. ``literal``: names in its grants are no patterns (partial_revokes is on)."""

    user: str
    host: str
    literal: bool = False

    def grant(self, privileges: str, on: str) -> str:
        """``GRANT PROCESS ON *.* TO `rollout`@`%`;``"""
        return f"GRANT {privileges} ON {on} TO {self.quoted};"

    def grant_all_of(self, privileges: str, schema: str) -> str:
        """``GRANT SELECT ON `\\_rollout`.* TO `rollout`@`%`;``: on that schema alone."""
        return self.grant(privileges, quote.everything_in(schema, literal=self.literal))

    @property
    def quoted(self) -> str:
        user = "``" if not self.user else quote.name(self.user)
        return f"{user}@{quote.name(self.host)}"


def read_account(session: Session) -> Account:
    row = session.one("SELECT CURRENT_USER(), @@GLOBAL.partial_revokes")
    assert row is not None
    user, _, host = str(row[0]).rpartition("@")
    return Account(user, host, bool(row[1]))


def unseen_because(error: ServerError, account: Account | None, denied_on: str = PERFORMANCE_SCHEMA) -> Unseen:
    """The server's refusal as an Unseen. ``denied_on``: what was read when a table was denied (1142 does not say)."""
    reason = f"{error.text} ({error.number})"
    if account is None or not error.is_privilege:
        return Unseen(reason)
    needed = _NEEDED.search(error.text)
    if needed:
        # "SUPER, REPLICATION CLIENT": any one will do, and the last one is the smallest.
        return Unseen(reason, account.grant(needed[1].split(", ")[-1], EVERYWHERE))
    denied = _DENIED.match(error.text)
    return Unseen(reason, account.grant(denied[1] if denied else "SELECT", denied_on))
