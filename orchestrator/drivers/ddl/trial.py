"""The trial: the very statements of the expand on an empty scratch copy of the family, before the first of them runs.

An empty copy takes milliseconds and shows what no rule knows: a row that would be too long (1118), a key that would be
(1071), a parent that does not fit (3780), an algorithm that the server refuses. Every refusal is collected, and then
the effects of new foreign keys on statements that pass today.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from orchestrator.model.contract import TableName
from orchestrator.model.outcome import Outcome, Progress, Result, Seen, goes_on, stopped_by
from orchestrator.model.shape_diff import compare_shape
from orchestrator.model.step import (
    AddColumns,
    AddForeignKey,
    AddIndex,
    AddingStep,
    ChangeColumn,
    GhostAlter,
    TryDdl,
    step_key,
)
from orchestrator.model.way import INSTANT
from orchestrator.mysql.cascades import CASCADE_LIMIT, Effect, Tried, copies_now, effects, try_keys
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.family_copy import FamilyCopy, copy_schema, family_copy, remove_family_copy
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql import family_copy as sql
from orchestrator.mysql.sql.alter import alter, alter_anyhow, pins
from orchestrator.mysql.told import told
from orchestrator.ports import Beat

EFFECTS_RULE, CHAIN_RULE = "foreign-key-effects", "self-reference-cascade"


@dataclass(slots=True)
class _Found:
    refusals: list[tuple[str, ServerError]] = field(default_factory=list)
    effects: tuple[Effect, ...] = ()
    otherwise: tuple[str, ...] = ()


class TrialDriver:
    """Driver of TryDdl. Writes only to the rollout's scratch schema, which is gone afterwards."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def describe(self, step: TryDdl) -> Sequence[str]:
        tag, schema = self._site.tag("scratch"), copy_schema(self._site)
        copies = {t: TableName(schema, t.name) for t in step.family}
        return (
            sql.create_schema(schema, tag),
            *(sql.copy_table(t, c, tag) for t, c in copies.items()),
            *(text for s in step.steps if (text := _statement(s, copies, tag))),
            sql.drop_schema(schema, tag),
        )

    def apply(self, step: TryDdl, beat: Beat) -> Outcome:
        """DONE when the server takes all of it; FAILED with every reason at once."""
        signal = beat(Progress(unit="", note="tries the statements on a scratch copy"))
        if not goes_on(signal):
            return stopped_by(signal)
        try:
            with family_copy(self._site, step.family) as here:
                return self._judged(step, self._try(step, here))
        except ServerError as error:
            raise told(error, "while the statements were tried on the scratch copy") from error

    def observe(self, step: TryDdl) -> Seen:
        """A trial leaves nothing; what a crash left of it is removed here."""
        remove_family_copy(self._site)
        return Seen.ABSENT

    def abandon(self, step: TryDdl) -> Outcome:
        remove_family_copy(self._site)
        return Outcome(Result.DONE, "the scratch copy is gone")

    def _try(self, step: TryDdl, here: FamilyCopy) -> _Found:
        found = _Found()
        for one in (s for s in step.steps if not isinstance(s, AddForeignKey)):
            self._run(one, here, found)
        keys = [s for s in step.steps if isinstance(s, AddForeignKey)]
        wanted = [k for s in keys if (k := here.key(s.foreign_key)) is not None]
        before = self._tried(step, here, keys) if keys and not found.refusals else []
        for key in keys:
            self._run(key, here, found)
        if before:
            after = self._tried(step, here, keys)
            originals = [s.foreign_key for s in keys]
            found.effects = effects(before, after, originals)
        if not found.refusals and len(wanted) == len(keys):
            found.otherwise = self._otherwise(step, here)
        return found

    def _tried(self, step: TryDdl, here: FamilyCopy, keys: Sequence[AddForeignKey]) -> list[Tried]:
        """Nothing when rows cannot be made for a table (an enforced CHECK, say): then nothing is said of effects."""
        try:
            return try_keys(here, step.table, [k.foreign_key for k in keys], copies_now(here))
        except ServerError as error:
            if error.cure is not Cure.STOP:
                raise
            return []

    def _run(self, one: AddingStep | GhostAlter, here: FamilyCopy, found: _Found) -> None:
        statement = _statement(one, here.copies, here.tag)
        if not statement:
            return
        for variable, value in () if isinstance(one, GhostAlter) else pins(one):
            here.session.execute(f"SET SESSION {variable} = {value}")
        try:
            here.session.execute(statement)
        except ServerError as error:
            if error.cure is not Cure.STOP or error.is_privilege:
                raise
            found.refusals.append((step_key(one), error))
        finally:
            here.session.execute("SET SESSION foreign_key_checks = 1")

    def _otherwise(self, step: TryDdl, here: FamilyCopy) -> tuple[str, ...]:
        """In what the copy came out otherwise than the contract says."""
        shape = read_shape(here.session, here.of(step.table))
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
        unwaived = [e for e in found.effects if not self._waived(e)]
        if unwaived:
            return _harmful(unwaived)
        noted = [f"{e.what}: {e.number}" for e in found.effects]
        waived = f"; waived: {', '.join(noted)}" if noted else ""
        return Outcome(Result.DONE, f"{len(step.steps)} statements tried on a scratch copy of the family{waived}")

    def _waived(self, effect: Effect) -> bool:
        rule = CHAIN_RULE if effect.number == CASCADE_LIMIT else EFFECTS_RULE
        return self._site.runbook.waived(rule) is not None


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
