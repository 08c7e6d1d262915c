"""Whether the two triggers of the mirror stand, and are what they would be if they were made now."""

from __future__ import annotations

from typing import Literal

from orchestrator.model.contract import TableName
from orchestrator.model.facts import MirrorFacts, Presence, Shape, Trigger
from orchestrator.mysql.relation import Relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.mirror import create_trigger, same_body, trigger_name

Event = Literal["update", "insert"]
_ELSEWHERE = (
    "SELECT EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS"
    " WHERE TRIGGER_SCHEMA = %s AND TRIGGER_NAME = %s AND EVENT_OBJECT_TABLE <> %s"
)


def judge_mirror(shape: Shape, rollout: str, relation: Relation | None) -> MirrorFacts:
    """Compare the live triggers with what the mapping makes of them; ``relation`` None: it can make nothing of them.

    Needs a shape that was read with the TRIGGER privilege: without it the server shows no trigger at all.
    """
    update, insert = (_presence(shape, rollout, event, relation) for event in ("update", "insert"))
    problems = [_order_problem(shape, rollout, event) for event in ("update", "insert")]
    return MirrorFacts.of_triggers(update, insert, "; ".join(p for p in problems if p))


def live_trigger(shape: Shape, rollout: str, event: Event) -> Trigger | None:
    wanted = trigger_name(rollout, event).lower()
    return next((t for t in shape.triggers if t.name.lower() == wanted), None)


def mirror_elsewhere(session: Session, of: TableName, rollout: str, event: Event) -> str:
    """The other table of the schema that has this trigger, "" when none has: it went along when somebody swapped the
    table for a copy, and its name is taken. Raises ServerError."""
    found = session.value(_ELSEWHERE, (of.schema, trigger_name(rollout, event), of.name))
    return str(found) if found is not None else ""


def _presence(shape: Shape, rollout: str, event: Event, relation: Relation | None) -> Presence:
    live = live_trigger(shape, rollout, event)
    if live is None:
        return Presence.ABSENT
    if relation is None or live.timing != "BEFORE" or live.event.lower() != event:
        return Presence.CHANGED
    wanted = create_trigger(relation, shape.table, event, live.name, "")
    last = not _order_problem(shape, rollout, event)
    return Presence.PRESENT if same_body(live, wanted) and last else Presence.CHANGED


def _order_problem(shape: Shape, rollout: str, event: Event) -> str:
    """The application's own triggers run first, or the mirror copies what they then change."""
    ours = live_trigger(shape, rollout, event)
    if ours is None:
        return ""
    later = [
        t.name for t in shape.triggers if (t.timing, t.event) == (ours.timing, ours.event) and t.order > ours.order
    ]
    return f"trigger {', '.join(later)} runs after ours, and what it changes is not mirrored" if later else ""
