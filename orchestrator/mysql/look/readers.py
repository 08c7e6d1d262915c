"""Who still needs old columns: kinds of statement that the server saw of late, with what it remembers of them.

Sampled evidence, and said so: the server cuts long texts, forgets, keeps no account with a kind, and what replicas are
asked stands with them.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from orchestrator.model.facts import OldStatement
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.digests import Said, keeps_digests, one_sided, reads, reads_all, server_now, stores, who_said
from orchestrator.mysql.look.unseen import Unseen
from orchestrator.mysql.session import Session

_MOST = 20


def read_readers(session: Session, runbook: Runbook) -> tuple[OldStatement, ...]:
    """Statements that read or store old columns of pairs, seen within what finish calls quiet; the latest first. Not
    ours, and not what stores both columns of its pairs where applications are asked to. Raises Unseen, ServerError."""
    if not keeps_digests(session):
        raise Unseen("the server keeps no statement digests (consumer statements_digest)")
    now = server_now(session)
    since = now - timedelta(seconds=runbook.phases.finish_quiet_s)
    said = who_said(session, since, (runbook.table.name,))
    found = (_old(s, runbook, now) for s in said if s.text is not None and not s.ours and s.on(runbook.table))
    return tuple(s for s in found if s is not None)[:_MOST]


def _old(said: Said, runbook: Runbook, now: datetime) -> OldStatement | None:
    """What it needs of the old columns; None when nothing."""
    pairs = tuple((m.old, m.new) for m in runbook.contract.pairs if m.old is not None)
    text, old = said.text or "", tuple(o for o, _ in pairs)
    parts = stores(text)
    stored = {name for part in parts for name in part.columns}
    if any(part.every for part in parts):
        stored |= {name.lower() for name in old}
    if runbook.phases.shadow == "flag":
        stored &= {name.lower() for name, _ in one_sided(said, pairs)}
    read, every = reads(text, old), reads_all(text)
    kept = tuple(o for o in old if o.lower() in stored)
    if not (read or kept or every):
        return None
    return OldStatement(text[:300], read, kept, every, (now - said.last).total_seconds(), said.count, said.by)
