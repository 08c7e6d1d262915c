"""The trial: the very statements of the expand on an empty scratch copy of the family, before the first of them runs.

An empty copy takes milliseconds and shows what no rule knows: a row that would be too long (1118), a key that would be
(1071), a parent that does not fit (3780), an algorithm that the server refuses. Every refusal is collected, then the
effects of new foreign keys on statements that pass today, and what becomes of the statements that the versions of the
application declare: also of a rename whose waiver claims that nobody says the old name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import replace

from orchestrator.model.contract import ForeignKey, TableName
from orchestrator.model.matrix import Failure
from orchestrator.model.outcome import Outcome, Progress, Result, Seen, goes_on, stopped_by
from orchestrator.model.shape_diff import compare_shape
from orchestrator.model.step import (
    AddCheck,
    AddColumns,
    AddForeignKey,
    AddIndex,
    AddingStep,
    ChangeColumn,
    GhostAlter,
    RenameColumn,
    TryDdl,
    step_key,
)
from orchestrator.model.way import INSTANT
from orchestrator.mysql.cascades import CASCADE_LIMIT, Effect, Shapes, Tried, describe_keys, effects, expanded, try_keys
from orchestrator.mysql.compat import declared_statements, statement_family
from orchestrator.mysql.declared_trial import DeclaredTrial
from orchestrator.mysql.digests import keeps_digests, names_column, said_since
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.family_copy import FamilyCopy, family_copy, lay_out, remove_family_copy, taken_names
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.alter import alter, alter_anyhow, pins
from orchestrator.mysql.sql.family_copy import drop_schema
from orchestrator.mysql.told import told
from orchestrator.ports import Beat

_NAME_TAKEN = 1826
_EVER = datetime(1970, 1, 2)  # the server tells its moments without a zone, in UTC
EFFECTS_RULE, CHAIN_RULE = "foreign-key-effects", "self-reference-cascade"


class _Found(Struct):
    refusals: list[tuple[str, ServerError]] = field(default_factory=list)
    effects: tuple[Effect, ...] = ()
    otherwise: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    still_said: tuple[str, ...] = ()


class TrialDriver:
    """Driver of TryDdl. Writes only to the rollout's scratch schema, which is gone afterwards."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def describe(self, step: TryDdl) -> Sequence[str]:
        """Raises what a look at the family raises."""
        try:
            with closing(self._site.connect("look")) as session:
                here = lay_out(self._site, session, self._family(session, step))
        except ServerError as error:
            raise told(error, "while the family was looked at") from error
        rows = describe_keys(here, step.table, _keys(step), _shapes(step, here)) if _keys(step) else []
        statements = [text for s in _ordered(step) if (text := _statement(s, here.copies, here.tag))]
        return (*here.statements, *statements, *rows, drop_schema(here.schema, here.tag))

    def apply(self, step: TryDdl, beat: Beat) -> Outcome:
        """DONE when the server takes all of it; FAILED with every reason at once."""
        progress = Progress(unit="", note="tries the statements on a scratch copy")
        signal = beat(progress)
        if not goes_on(signal):
            return stopped_by(signal)
        try:
            with closing(self._site.connect("look")) as look:
                family, still_said = self._family(look, step), _still_said(look, step)
            with family_copy(self._site, family, lambda: beat(progress)) as (session, here):
                found = self._try(step, session, here)
            found.still_said = still_said
            return self._judged(step, found)
        except ServerError as error:
            raise told(error, "while the statements were tried on the scratch copy") from error

    def observe(self, step: TryDdl, beat: Beat) -> Seen:
        """A trial leaves nothing; what a crash left of it is removed here."""
        remove_family_copy(self._site)
        return Seen.ABSENT

    def abandon(self, step: TryDdl, beat: Beat) -> Outcome:
        remove_family_copy(self._site)
        return Outcome(Result.DONE, "the scratch copy is gone")

    def _try(self, step: TryDdl, session: Session, here: FamilyCopy) -> _Found:
        found, keys = _Found(), _keys(step)
        named = [k.name for k in keys] + [s.check.name for s in step.steps if isinstance(s, AddCheck)]
        for taken in taken_names(session, step.table, named):
            found.refusals.append((taken, ServerError(_NAME_TAKEN, f"Duplicate constraint name: {taken}")))
        before: list[Tried] = []
        spoken = DeclaredTrial(session, here, self._site.runbook.contract)
        spoken.before()
        for one in _ordered(step):
            if isinstance(one, AddForeignKey) and not before and not found.refusals:
                before = self._tried(step, session, here)
            self._run(one, session, here, found)
        if before:
            found.effects = effects(before, self._tried(step, session, here), keys)
        if not found.refusals and all(here.key(k) is not None for k in keys):
            found.otherwise = self._otherwise(step, session, here)
        if not found.refusals:
            found.failures = spoken.after()
        return found

    def _family(self, session: Session, step: TryDdl) -> tuple[TableName, ...]:
        """The tables of the step, and those that a declared statement names beside them."""
        contract = self._site.runbook.contract
        texts = declared_statements(contract).texts
        return tuple(dict.fromkeys((*step.family, *statement_family(session, contract, texts))))

    def _tried(self, step: TryDdl, session: Session, here: FamilyCopy) -> list[Tried]:
        """Nothing when rows cannot be made for a table (an enforced CHECK, say): then nothing is said of effects."""
        try:
            return try_keys(session, here, step.table, _keys(step), _shapes(step, here))
        except ServerError as error:
            if error.cure is not Cure.STOP:
                raise
            return []

    def _run(self, one: AddingStep | GhostAlter, session: Session, here: FamilyCopy, found: _Found) -> None:
        statement = _statement(one, here.copies, here.tag)
        if not statement:
            return
        for variable, value in () if isinstance(one, GhostAlter) else pins(one):
            session.execute(f"SET SESSION {variable} = {value}")
        try:
            session.execute(statement)
        except ServerError as error:
            if error.cure is not Cure.STOP or error.is_privilege:
                raise
            found.refusals.append((step_key(one), error))
        finally:
            session.execute("SET SESSION foreign_key_checks = 1")

    def _otherwise(self, step: TryDdl, session: Session, here: FamilyCopy) -> tuple[str, ...]:
        """In what the copy came out otherwise than the contract says."""
        shape = read_shape(session, here.of(step.table))
        contract = self._site.runbook.contract
        keys = tuple(k for f in contract.foreign_keys if (k := here.key(f)) is not None)
        if shape is None:
            return ()
        diff = compare_shape(replace(contract, table=shape.table, foreign_keys=keys), shape)
        return tuple(str(d) for d in diff.different)

    def _judged(self, step: TryDdl, found: _Found) -> Outcome:
        if found.refusals:
            return _refused(found.refusals)
        if found.otherwise:
            seen = f"on the scratch copy it came out otherwise: {'; '.join(found.otherwise)}"
            return Outcome(Result.FAILED, seen, "exactly what the contract says", "correct the contract")
        if found.failures or found.still_said:
            return _not_survived(found)
        unwaived = [e for e in found.effects if not self._waived(e)]
        if unwaived:
            return _harmful(unwaived)
        noted = [f"{e.what}: {e.number}" for e in found.effects]
        waived = f"; waived: {', '.join(noted)}" if noted else ""
        return Outcome(Result.DONE, f"{len(step.steps)} statements tried on a scratch copy of the family{waived}")

    def _waived(self, effect: Effect) -> bool:
        rule = CHAIN_RULE if effect.number == CASCADE_LIMIT else EFFECTS_RULE
        return self._site.runbook.waived(rule) is not None


def _ordered(step: TryDdl) -> list[AddingStep | GhostAlter]:
    """Foreign keys last, as their effects are tried without and with all of them."""
    return sorted(step.steps, key=lambda s: isinstance(s, AddForeignKey))


def _keys(step: TryDdl) -> list[ForeignKey]:
    return [s.foreign_key for s in step.steps if isinstance(s, AddForeignKey)]


def _shapes(step: TryDdl, here: FamilyCopy) -> Shapes:
    return expanded(
        here, step.table, [c for s in step.steps if isinstance(s, AddColumns | GhostAlter) for c in s.columns]
    )


def _statement(one: AddingStep | GhostAlter, copies: dict[TableName, TableName], tag: str) -> str:
    """The step's own statement on the copy; "" for a key whose parent was not copied."""
    copy = copies[one.table]
    match one:
        case GhostAlter():
            parts: list[AddingStep] = []
            if one.columns:
                parts.append(AddColumns(table=copy, columns=one.columns, family=()))
            parts += [ChangeColumn(table=copy, before=b, after=a, family=(), way=INSTANT) for b, a in one.changes]
            parts += [AddIndex(table=copy, index=i, final_lock_budget_s=1, tries=1, family=()) for i in one.indexes]
            return alter_anyhow(parts, copy, tag) if parts else ""
        case AddForeignKey(foreign_key=key):
            parent = copies.get(key.references)
            if parent is None:
                return ""
            return alter(replace(one, table=copy, foreign_key=replace(key, references=parent)), tag)
        case _:
            return alter(replace(one, table=copy), tag)


def _refused(refusals: Sequence[tuple[str, ServerError]]) -> Outcome:
    said = "; ".join(f"{key}: the server says {error.number} {error.text}" for key, error in refusals)
    return Outcome(
        Result.FAILED,
        f"refused on an empty scratch copy, nothing was altered: {said}",
        "statements that the server takes with the algorithm that was named",
        "change the contract; a dearer algorithm is never chosen by itself (rollout plan --sql shows ways and prices)",
        evidence=tuple((key, str(error.number), error.text) for key, error in refusals),
    )


def _still_said(session: Session, step: TryDdl) -> tuple[str, ...]:
    """Statements that the server has seen, and when last, that say a name which a rename takes away, or may do so where
    they were cut; or that it keeps none, or has no room for more: then nobody knows."""
    gone = [s.old for s in step.steps if isinstance(s, RenameColumn)]
    if not gone:
        return ()
    if not keeps_digests(session):
        return ("the server keeps no statement digests (performance_schema, consumer statements_digest)",)
    said = (s for s in said_since(session, _EVER, gone) if not s.ours and not s.shapes and s.on(step.table))
    return tuple(
        f"{s} (last seen {s.last:%Y-%m-%d %H:%M:%S} UTC)"
        for s in said
        if s.text is None or s.cut or names_column(s.text, gone) is not None
    )


def _not_survived(found: _Found) -> Outcome:
    failing = [str(f) for f in found.failures]
    said = [
        f"the server has seen a statement that says a name which the rename takes away: {s}" for s in found.still_said
    ]
    return Outcome(
        Result.FAILED,
        f"nothing was altered: {'; '.join((*failing, *said))}",
        "every statement of every version that runs survives ddl",
        "release the version that does not say it, and declare it; where the server has only seen it long ago, empty"
        " performance_schema.events_statements_summary_by_digest and look again; rollout compat shows the whole matrix",
        evidence=(
            *((f.statement, str(f.number), f.text) for f in found.failures),
            *((s, "0", "seen on the server") for s in found.still_said),
        ),
    )


def _harmful(found: Sequence[Effect]) -> Outcome:
    said = "; ".join(f"{e.what} would fail with {e.number} {e.text}" for e in found)
    rules = sorted({CHAIN_RULE if e.number == CASCADE_LIMIT else EFFECTS_RULE for e in found})
    return Outcome(
        Result.FAILED,
        f"the new foreign keys break statements that pass today: {said}",
        "foreign keys that refuse nothing but what they are for",
        f"choose other rules for the key, or waive {' and '.join(rules)} with the shape of the rows that you have",
        evidence=tuple((e.what, str(e.number), e.text) for e in found),
    )
