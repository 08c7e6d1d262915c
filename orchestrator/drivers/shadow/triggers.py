"""The mirror as a pair of triggers: UPDATE goes up first and comes down last, so that what moves is never missed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Literal

from orchestrator.model.facts import Part, Presence, Shape
from orchestrator.model.outcome import Outcome, Result, Seen
from orchestrator.model.step import InstallTrigger, RemoveMirror, TriggerStep, step_key
from orchestrator.mysql.carry import Carrier, Judged
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.guard import Exclusive, ReplicaLook
from orchestrator.mysql.look.mirror import judge_mirror, live_trigger, mirror_elsewhere
from orchestrator.mysql.relation import Relation, load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.mirror import create_trigger, drop_trigger, trigger_name
from orchestrator.mysql.told import told
from orchestrator.ports import Beat

Event = Literal["update", "insert"]
# The order in which the mirror comes down.
_DOWN: tuple[Event, ...] = ("insert", "update")
_PARTS: dict[Event, Part] = {"update": Part.UPDATE, "insert": Part.INSERT}
# Bodies must not raise where the application's statement would pass: they are made under a mode without strictness.
_BODY_MODE = (("sql_mode", ""),)


class TriggerDriver:
    """Driver of InstallTrigger and RemoveMirror. Touches only triggers that bear this rollout's names.

    Whether the mirror may come down at all (meter, drain, quiet) is asked before; here it only goes.
    """

    def __init__(self, site: Site, replicas: ReplicaLook | None = None) -> None:
        self._site = site
        self._carrier = Carrier(site, replicas)

    def describe(self, step: TriggerStep) -> Sequence[str]:
        """Reads the table, because the body follows its columns. Raises RolloutError."""
        if isinstance(step, RemoveMirror):
            return tuple(sql for event in _DOWN for sql in self._drop(step, event).statements)
        with closing(self._site.connect("look")) as session:
            try:
                shape = read_shape(session, step.table)
                if shape is None:
                    return ()
                return self._create(step, self._relation(session, shape)).statements
            except ServerError as error:
                raise told(error, "while the mirror was written out") from error

    def apply(self, step: TriggerStep, beat: Beat) -> Outcome:
        return self._carrier.apply(self._tag(step), lambda s: self._judge(s, step), _refused, beat)

    def observe(self, step: TriggerStep, beat: Beat) -> Seen:
        return self._carrier.observe(self._tag(step), lambda s: self._judge(s, step), beat)

    def abandon(self, step: TriggerStep, beat: Beat) -> Outcome:
        """A trigger that went up without being recorded comes down; a mirror that was coming down is left as it is."""
        seen = self.observe(step, beat)
        if seen is Seen.UNKNOWN:
            return Outcome(Result.UNKNOWN, f"nobody can say what became of {step_key(step)}")
        if isinstance(step, RemoveMirror) or seen is Seen.ABSENT:
            return Outcome(Result.DONE, f"{step_key(step)} runs no more; of the mirror stands what stood: {seen.value}")
        work = self._drop(step, step.event)
        gone = self._carrier.apply(work.tag, lambda s: self._judge_gone(s, step), _refused, beat)
        note = f"{trigger_name(self._site.runbook.id, step.event)} is gone" if gone.result is Result.DONE else gone.note
        return Outcome(gone.result, note, gone.expected, gone.next, gone.figures)

    def _judge(self, session: Session, step: TriggerStep) -> Judged:
        shape = read_shape(session, step.table)
        if shape is None:
            return Judged(
                Seen.UNKNOWN, None, f"{step.table} is not there", "look whether somebody dropped or renamed it"
            )
        if isinstance(step, RemoveMirror):
            return self._judge_down(step, shape)
        relation = self._relation(session, shape)
        facts = judge_mirror(shape, self._site.runbook.id, relation)
        match dict(facts.parts)[_PARTS[step.event]]:
            case Presence.PRESENT:
                return Judged(Seen.PRESENT)
            case Presence.ABSENT:
                return self._judge_absent(session, step, relation)
            case Presence.CHANGED:
                # It bears our name and is not what the contract makes: an older life of ours, or somebody's hand.
                return Judged(Seen.PARTIAL, self._drop(step, step.event))

    def _judge_absent(self, session: Session, step: InstallTrigger, relation: Relation) -> Judged:
        """Names of triggers are the schema's: one that went along with a table that somebody swapped is in the way."""
        other = mirror_elsewhere(session, step.table, self._site.runbook.id, step.event)
        if not other:
            return Judged(Seen.ABSENT, self._create(step, relation))
        name = trigger_name(self._site.runbook.id, step.event)
        return Judged(
            Seen.UNKNOWN,
            None,
            f"trigger {name} stands on {step.table.schema}.{other}: somebody renamed {step.table} and put another table"
            " in its place",
            f"look whether every row came along; drop our triggers on {other}, or that table; then the same command",
        )

    def _judge_down(self, step: RemoveMirror, shape: Shape) -> Judged:
        standing = [e for e in _DOWN if live_trigger(shape, self._site.runbook.id, e) is not None]
        if not standing:
            return Judged(Seen.PRESENT)
        return Judged(Seen.ABSENT if len(standing) == 2 else Seen.PARTIAL, self._drop(step, standing[0]))

    def _judge_gone(self, session: Session, step: InstallTrigger) -> Judged:
        shape = read_shape(session, step.table)
        if shape is None or live_trigger(shape, self._site.runbook.id, step.event) is None:
            return Judged(Seen.PRESENT)
        return Judged(Seen.ABSENT, self._drop(step, step.event))

    def _relation(self, session: Session, shape: Shape) -> Relation:
        return load_relation(session, self._site.runbook.contract, shape)

    def _create(self, step: InstallTrigger, relation: Relation) -> Exclusive:
        tag, name = self._tag(step), trigger_name(self._site.runbook.id, step.event)
        return Exclusive(create_trigger(relation, step.table, step.event, name, tag), tag, step.family, _BODY_MODE)

    def _drop(self, step: TriggerStep, event: Event) -> Exclusive:
        tag, name = self._tag(step), trigger_name(self._site.runbook.id, event)
        return Exclusive(drop_trigger(step.table, name, tag), tag, step.family)

    def _tag(self, step: TriggerStep) -> str:
        return self._site.tag(step_key(step))


def _refused(error: ServerError) -> Outcome:
    return Outcome(
        Result.FAILED,
        f"the server says {error.number} {error.text}",
        "a trigger that the server takes",
        "mend what it says, then the same command again",
    )
