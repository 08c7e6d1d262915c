"""One rollout on one server: what every room that acts needs to know, in one value."""

from __future__ import annotations

from msgspec import Struct

from orchestrator.model.runbook import Runbook
from orchestrator.mysql import quote
from orchestrator.mysql.pace import Pace
from orchestrator.mysql.session import Session
from orchestrator.ports import Clock
from orchestrator.settings import ServerSettings


class Site(Struct, frozen=True):
    settings: ServerSettings
    runbook: Runbook
    clock: Clock

    def connect(
        self, role: str, timeout_s: float = 30.0, *, sends: str = "", reopens: bool = True, roams: bool = False
    ) -> Session:
        """A new pinned session; ``role`` shows in the server's session list. ``sends``: the file that it may send.
        ``reopens`` False: for what no epoch fences. ``roams``: for what only looks. Raises ServerUnreachable,
        ConfigurationError."""
        return Session(self.settings, role=role, timeout_s=timeout_s, sends=sends, reopens=reopens, roams=roams)

    def pace(self) -> Pace:
        """How work on rows makes room for the application."""
        return Pace(self.runbook.limits.rest_above)

    def tag(self, step: str) -> str:
        """The comment by which a statement of ours is found again, also after our death. ``step`` may hold any name
        of the runbook."""
        return f"/* rollout:{self.runbook.id} {quote.comment(step)} */"

    @property
    def tag_prefix(self) -> str:
        """What every tag of this rollout begins with."""
        return f"/* rollout:{self.runbook.id} "
