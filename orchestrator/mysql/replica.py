"""One replica as a place to look at rows: reached by its name, believed only once it has what the primary had."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.errors import Held, ServerUnreachable, UsageError
from orchestrator.mysql.look.discovery import Address, find_replicas, split_address
from orchestrator.mysql.look.replicas import reach
from orchestrator.mysql.look.unseen import Unseen
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql import gtid

_SLICE_S = 0.5


def replica_site(site: Site, primary: Session, named: str) -> Site:
    """The same rollout on the replica of that name (``host:port``, ``host``, or as ``status`` names it).

    Raises UsageError when the primary has no such replica, ServerUnreachable, ServerError.
    """
    known = find_replicas(primary, site.runbook.replicas)
    found = [a for a in known if _is(a, named)]
    if len(found) != 1:
        raise UsageError(
            f"{'several replicas are' if found else 'no replica is'} called {named!r}",
            f"one of {', '.join(a.name for a in known) or 'none: the primary has no replica that can be seen'}",
            "name one of them as host:port",
        )
    try:
        session = reach(found[0], site)
    except Unseen as unseen:
        seen = f"{found[0].name}: {unseen.reason}"
        raise ServerUnreachable(seen, "a replica that answers", "rollout check") from None
    settings = session.settings
    session.close()
    return replace(site, settings=settings)


def _is(address: Address, named: str) -> bool:
    host, port = split_address(named)
    return named == address.name or (host in address.hosts and (port == address.port or ":" not in named))


class CatchUp(Struct, frozen=True):
    """``wait`` returns once the replica has everything that the primary had when it was called.

    ``go_on`` is asked between slices of half a second and may raise. Raises Held after ``limit_s``: a replica that
    lags says nothing about rows.
    """

    primary: Session
    replica: Session
    go_on: Callable[[], None]
    limit_s: float

    def wait(self) -> None:
        wanted = str(self.primary.value(gtid.EXECUTED)).replace("\n", "")
        if not wanted:
            raise Held(
                "the primary has no GTIDs, so nobody can say whether the replica has its transactions",
                "gtid_mode ON",
                "verify on the primary instead: rollout verify",
            )
        slices = max(1, round(self.limit_s / _SLICE_S))
        for _ in range(slices):
            if self.replica.value(gtid.WAIT_FOR, (wanted, _SLICE_S)) == 0:
                return
            self.go_on()
        missing = str(self.replica.value(gtid.MISSING, (wanted,))).replace("\n", "")
        raise Held(
            f"the replica lacks {missing} after {self.limit_s:.0f} s; what it shows is no proof",
            "a replica that has what the primary had",
            "rollout check says why it is behind; then the same command again",
        )
