"""Which blocker may be ended for the rollout's sake. Off unless the runbook says an age. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from orchestrator.model.facts.locks import Holder

_SYSTEM = frozenset(
    {"", "system user", "event_scheduler", "mysql.sys", "mysql.session", "mysql.infoschema", "unauthenticated user"}
)


class KillPolicy(Struct, frozen=True):
    """``older_than_s`` None: nobody is ever killed. ``spared``: accounts' user names that never are."""

    older_than_s: float | None = None
    spared: tuple[str, ...] = ()

    def allows(self, holder: Holder) -> bool:
        """Whether the session may be killed: an application's, old enough, and holding, not waiting."""
        if self.older_than_s is None or holder.process_id is None or holder.waiting:
            return False
        # Facts are many classes; whoever only loads a runbook does not pay for them.
        from orchestrator.model.facts.locks import BlockerKind as Kind

        # A session of any other kind goes on by itself, is somebody's backup, or cannot be killed.
        killable = holder.kind in (Kind.TRANSACTION, Kind.STATEMENT, Kind.LOCK_TABLES, Kind.HANDLER)
        named = {u.lower() for u in self.spared} | _SYSTEM
        return killable and holder.user.lower() not in named and holder.age_s >= self.older_than_s

    def __str__(self) -> str:
        if self.older_than_s is None:
            return "nobody is killed"
        spared = f", never {', '.join(self.spared)}" if self.spared else ""
        return (
            f"sessions that block us on the primary for longer than {self.older_than_s:g} s are killed{spared};"
            " never replication, backups, other DDL, prepared XA or the server's own users"
        )
