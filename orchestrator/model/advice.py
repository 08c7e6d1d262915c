"""The first and the last line of every screen: where we are, who must act, and the command to type. Pure."""

from __future__ import annotations

from msgspec import Struct

from orchestrator.model.state import FINISH, FORWARD, REPAIR, ROLLBACK, Holder, Record, State


class Advice(Struct, frozen=True):
    """``who`` is ``nobody``, ``operator`` or ``human`` (somebody must look before anything is typed)."""

    line: str
    who: str
    command: str


def advise(record: Record | None, holder: Holder | None, mirror_problem: str = "") -> Advice:
    """What a person at 3 a.m. needs to know first. ``mirror_problem``: why a mirror that should stand does not."""
    if record is None or record.state is State.NEW:
        return Advice("nothing was begun", "operator", "rollout plan")
    phase = record.phase or "new"
    if record.state is State.RUNNING and holder is not None:
        since = holder.since.astimezone().strftime("%H:%M:%S")
        return Advice(f"{phase}  running, by {holder.who} since {since}", "nobody", "rollout status -w")
    if mirror_problem and not record.mirror_goes and record.state is not State.FINISHED:
        return Advice(f"the mirror is lost: {mirror_problem}", "operator", "rollout next --phase shadow-write")
    match record.state:
        case State.FINISHED:
            return Advice("finished", "nobody", "rollout history")
        case State.RUNNING:
            return Advice(f"{phase}  its command is gone; what it did is kept", "operator", again(record))
        case State.HELD:
            return Advice(f"{phase}  held: {record.note}", "operator", again(record))
        case State.PAUSED:
            return Advice(f"{phase}  paused: {record.note}", "operator", again(record))
        case State.NEEDS_HUMAN:
            return Advice(f"{phase}  cannot say what happened: {record.note}", "human", again(record))
        case State.ROLLED_BACK:
            return Advice(f"{phase}  rolled back: {record.note}", "operator", _forward(record))
        case State.DONE | State.NEW:
            return Advice(f"{phase}  done", "operator", _forward(record))


def _forward(record: Record) -> str:
    following = record.next_phase
    return f"rollout next --phase {following}" if following else "rollout finish"


def again(record: Record) -> str:
    """The command that goes on with what was begun, as it was typed."""
    if record.phase == ROLLBACK:
        return f"rollout rollback --to {record.target}" if record.target else "rollout rollback"
    if record.phase == FINISH:
        return "rollout finish"
    if record.phase == REPAIR:
        return "rollout verify --repair"
    return f"rollout next --phase {record.phase}" if record.phase in FORWARD else "rollout next"
