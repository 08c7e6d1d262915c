"""A scratch copy of the table led through every shape that statements meet, in the order of a rollout and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from orchestrator.model.contract import Contract, TableName
from orchestrator.model.facts import Shape
from orchestrator.model.matrix import ShapeName
from orchestrator.model.shape_diff import ShapeDiff, compare_shape
from orchestrator.model.step import (
    AddCheck,
    AddColumns,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    DropCheck,
    DropColumns,
    DropForeignKey,
    DropIndex,
    ExclusiveDdlStep,
    RenameColumn,
)
from orchestrator.model.way import INPLACE, INSTANT
from orchestrator.mysql.family_copy import FamilyCopy
from orchestrator.mysql.mirror_trial import trigger_text
from orchestrator.mysql.relation import Relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.sql import mirror
from orchestrator.mysql.sql.alter import alter_anyhow

_EVENTS = ("update", "insert")


class ShapeWalk:
    """The copy begins as production is now, wherever its rollout stands. Raises ServerError."""

    def __init__(self, session: Session, here: FamilyCopy, contract: Contract, relation: Relation) -> None:
        self._session = session
        self._tag = here.tag
        self._copy = here.of(contract.table)
        keys = tuple(k for f in contract.foreign_keys if (k := here.key(f)) is not None)
        self._contract = replace(contract, table=self._copy, foreign_keys=keys)
        self._relation = relation
        # Without mappings there is no mirror.
        self._events = _EVENTS if relation.mappings else ()

    def enter(self, name: ShapeName) -> Shape:
        """The copy as it is in that shape; shapes are entered in the order in which they are declared."""
        match name:
            case ShapeName.BEFORE | ShapeName.DROPPED:
                self._alter(_taken_back(self._contract, self._diff(), self._copy))
            case ShapeName.EXPANDED:
                self._alter(_added(self._contract, self._diff(), self._copy))
            case ShapeName.MIRRORED:
                self._session.execute("SET SESSION sql_mode = ''")
                for event in self._events:
                    self._session.execute(trigger_text(self._relation, self._copy, event, self._tag))
            case ShapeName.ROLLED_BACK:
                for event in self._events:
                    self._session.execute(
                        mirror.drop_trigger(self._copy, mirror.trigger_name("trial", event), self._tag)
                    )
            case _:
                assert_never(name)
        return self._shape()

    def _shape(self) -> Shape:
        shape = read_shape(self._session, self._copy)
        assert shape is not None
        return shape

    def _diff(self) -> ShapeDiff:
        return compare_shape(self._contract, self._shape())

    def _alter(self, statements: Sequence[Sequence[ExclusiveDdlStep]]) -> None:
        self._session.execute("SET SESSION sql_mode = 'NO_ENGINE_SUBSTITUTION', foreign_key_checks = 0")
        for steps in statements:
            if steps:
                self._session.execute(alter_anyhow(steps, self._copy, self._tag))
        self._session.execute("SET SESSION foreign_key_checks = 1")


def _added(contract: Contract, diff: ShapeDiff, of: TableName) -> Sequence[Sequence[ExclusiveDdlStep]]:
    """What is missing, an ALTER for each kind of thing: what comes later may name what came before."""
    changed = {d.name for d in diff.changes_missing}
    return (
        [AddColumns(table=of, columns=diff.columns_missing, family=())] if diff.columns_missing else (),
        [RenameColumn(table=of, old=r.old, new=r.new, family=()) for r in diff.renames_missing],
        [
            ChangeColumn(table=of, before=c, after=c, family=(), way=INSTANT)
            for c in contract.changes
            if c.name in changed
        ],
        [AddIndex(table=of, index=i, final_lock_budget_s=1, tries=1, family=()) for i in diff.indexes_missing],
        [AddCheck(table=of, check=c, family=()) for c in diff.checks_missing],
        *([AddForeignKey(table=of, foreign_key=f, family=())] for f in diff.foreign_keys_missing),
    )


def _taken_back(contract: Contract, diff: ShapeDiff, of: TableName) -> Sequence[Sequence[ExclusiveDdlStep]]:
    """What of the contract is there; columns made wider stay so where nobody says what they were."""
    stood = {c.name.lower(): c for c in contract.before.columns} if contract.before is not None else {}
    back = [(c, stood[c.name.lower()]) for c in diff.changes_equal if c.name.lower() in stood]
    return (
        [DropForeignKey(table=of, foreign_key=f, family=(), way=INPLACE) for f in diff.foreign_keys_equal],
        [DropCheck(table=of, check=c, family=()) for c in diff.checks_equal],
        [DropIndex(table=of, index=i, family=()) for i in diff.indexes_equal],
        [ChangeColumn(table=of, before=now, after=then, family=(), way=INSTANT) for now, then in back],
        [RenameColumn(table=of, old=r.new, new=r.old, family=()) for r in diff.renames_equal],
        [DropColumns(table=of, columns=diff.columns_equal, family=())] if diff.columns_equal else (),
    )
