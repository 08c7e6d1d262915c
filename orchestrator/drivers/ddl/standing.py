"""Where a table stands on the way to one DDL step. Pure: judges a live shape, and says what is left of the step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.model.contract import Column, ForeignKey, Index, TableName
from orchestrator.model.facts import Shape, Trigger
from orchestrator.model.outcome import Seen
from orchestrator.model.shape_diff import column_reasons, index_reasons, is_hidden, key_reasons
from orchestrator.model.shape_digest import shape_digest
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
    GhostAlter,
    RenameColumn,
    SetDefault,
    ShowIndex,
)

T = TypeVar("T", Column, Index, Trigger)


class Standing(Struct, frozen=True):
    """``left`` is what must still be done, None when there is nothing or when ``problem`` says why it cannot be."""

    seen: Seen
    left: ExclusiveDdlStep | None = None
    problem: str = ""


_PRESENT = Standing(Seen.PRESENT)


def standing(step: ExclusiveDdlStep, shape: Shape | None) -> Standing:
    """A thing that is there under the wanted name, but otherwise, is not ours to change: UNKNOWN and a reason."""
    if shape is None:
        return Standing(Seen.UNKNOWN, problem=f"{step.table} is not there")
    match step:
        case AddColumns():
            return _columns(step, shape)
        case SetDefault():
            return _default(step, shape)
        case RenameColumn():
            return _rename(step, shape)
        case ChangeColumn():
            return _change(step, shape)
        case AddCheck():
            there = any(c.lower() == step.check.name.lower() for c, _ in shape.checks)
            return _PRESENT if there else Standing(Seen.ABSENT, step)
        case DropCheck():
            there = any(c.lower() == step.check.name.lower() for c, _ in shape.checks)
            return Standing(Seen.ABSENT, step) if there else _PRESENT
        case AddIndex():
            return _single(step, f"index {step.index.name}", _built(step.index, shape))
        case ShowIndex():
            return _shown(step, shape)
        case AddForeignKey():
            return _foreign_key(step, shape)
        case DropForeignKey():
            return _PRESENT if shape.foreign_key(step.foreign_key.name) is None else Standing(Seen.ABSENT, step)
        case DropIndex():
            return _PRESENT if shape.index(step.index.name) is None else Standing(Seen.ABSENT, step)
        case DropColumns():
            found = tuple(c for c in step.columns if shape.column(c.name) is not None)
            return _some(len(found), len(step.columns), replace(step, columns=found))


class CopyStanding(Struct, frozen=True):
    """As ``Standing``, for a change that a tool makes on a copy of the table, all of it at once."""

    seen: Seen
    left: GhostAlter | None = None
    problem: str = ""


def copy_standing(step: GhostAlter, shape: Shape | None) -> CopyStanding:
    """What is missing of the change. A rebuild of the rows alone cannot be seen: it is always missing."""
    if shape is None:
        return CopyStanding(Seen.UNKNOWN, problem=f"{step.table} is not there")
    columns = _columns(AddColumns(table=step.table, columns=step.columns, family=step.family), shape)
    if columns.problem:
        return CopyStanding(Seen.UNKNOWN, problem=columns.problem)
    left_columns = columns.left.columns if isinstance(columns.left, AddColumns) else ()
    left_changes = []
    for before, after in step.changes:
        live = shape.column(after.name)
        if live is None:
            return CopyStanding(Seen.UNKNOWN, problem=f"column {after.name} is not there")
        if column_reasons(after, live, shape):
            if reasons := column_reasons(before, live, shape):
                return CopyStanding(Seen.UNKNOWN, problem=_otherwise(f"column {live.name}", reasons))
            left_changes.append((before, after))
    left_indexes = []
    for index in step.indexes:
        otherwise = _built(index, shape)
        if otherwise is None:
            left_indexes.append(index)
        elif otherwise:
            return CopyStanding(Seen.UNKNOWN, problem=_otherwise(f"index {index.name}", otherwise))
    wanted = len(step.columns) + len(step.changes) + len(step.indexes)
    left = len(left_columns) + len(left_changes) + len(left_indexes)
    if left == 0 and wanted:
        return CopyStanding(Seen.PRESENT)
    rest = replace(step, columns=left_columns, changes=tuple(left_changes), indexes=tuple(left_indexes))
    return CopyStanding(Seen.ABSENT if left == wanted else Seen.PARTIAL, rest)


def under_former_name(old: Shape, table: TableName) -> Shape:
    """The table that was swapped out, as it was called before; the server calls CHECKs after it that nobody named."""
    lead = f"{old.table.name}_chk_"
    checks = ((n.replace(lead, f"{table.name}_chk_") if n.startswith(lead) else n, c) for n, c in old.checks)
    return replace(old, table=table, checks=tuple(sorted(checks)))


def changed_since(before: Shape, old: Shape) -> tuple[str, ...]:
    """What is otherwise in the table that was swapped out than it was before its copy, in short sentences."""
    now = under_former_name(old, before.table)
    parts = (
        *_changed("column", before.columns, now.columns, lambda a, b: column_reasons(a, b, now)),
        *_changed("index", before.indexes, now.indexes, lambda a, b: index_reasons(a, b, now)),
        *_changed("trigger", before.triggers, now.triggers, lambda a, b: () if a == b else ("it is another",)),
    )
    if parts or shape_digest(now) == shape_digest(before):
        return parts
    return ("its definition is another",)


def _changed(
    what: str, before: Sequence[T], now: Sequence[T], reasons: Callable[[T, T], tuple[str, ...]]
) -> Iterator[str]:
    there: dict[str, T] = {x.name.lower(): x for x in before}
    here: dict[str, T] = {x.name.lower(): x for x in now}
    for name in dict.fromkeys((*there, *here)):
        if name not in there:
            yield f"{what} {here[name].name} came"
        elif name not in here:
            yield f"{what} {there[name].name} went"
        elif said := reasons(there[name], here[name]):
            yield f"{what} {here[name].name}: {'; '.join(said)}"


def _columns(step: AddColumns, shape: Shape) -> Standing:
    missing: list[Column] = []
    for wanted in step.columns:
        live = shape.column(wanted.name)
        if live is None:
            missing.append(wanted)
        elif reasons := column_reasons(wanted, live, shape):
            return Standing(Seen.UNKNOWN, problem=_otherwise(f"column {wanted.name}", reasons))
    return _some(len(missing), len(step.columns), replace(step, columns=tuple(missing)))


def _built(wanted: Index, shape: Shape) -> tuple[str, ...] | None:
    """In what the live index is otherwise than it was to be built, None when there is none."""
    live = shape.index(wanted.name)
    if live is None or is_hidden(wanted, shape):
        return None if live is None else ()
    return index_reasons(wanted, live, shape)


def _shown(step: ShowIndex, shape: Shape) -> Standing:
    if is_hidden(step.index, shape):
        return Standing(Seen.ABSENT, step)
    reasons = _built(step.index, shape)
    if reasons is None:
        return Standing(Seen.UNKNOWN, problem=f"index {step.index.name} is not there")
    return _single(step, f"index {step.index.name}", reasons)


def _default(step: SetDefault, shape: Shape) -> Standing:
    """Only the default may be missing."""
    live = shape.column(step.column.name)
    if live is None:
        return Standing(Seen.UNKNOWN, problem=f"column {step.column.name} is not there")
    if not column_reasons(step.column, live, shape):
        return _PRESENT
    if reasons := column_reasons(replace(step.column, default=None), live, shape):
        return Standing(Seen.UNKNOWN, problem=_otherwise(f"column {live.name}", reasons))
    return Standing(Seen.ABSENT, step)


def _rename(step: RenameColumn, shape: Shape) -> Standing:
    """One of the two names must be there, and only one."""
    old, new = (shape.column(n) is not None for n in (step.old, step.new))
    if old == new:
        there = "are both there" if old else "are both gone"
        return Standing(Seen.UNKNOWN, problem=f"the columns {step.old} and {step.new} {there}")
    return Standing(Seen.ABSENT, step) if old else _PRESENT


def _change(step: ChangeColumn, shape: Shape) -> Standing:
    """Only the type may change: a MODIFY drops in silence whatever else its definition leaves out."""
    live = shape.column(step.after.name)
    if live is None:
        return Standing(Seen.UNKNOWN, problem=f"column {step.after.name} is not there")
    if not column_reasons(step.after, live, shape):
        return _PRESENT
    if reasons := column_reasons(replace(step.before, type=live.type), live, shape):
        return Standing(Seen.UNKNOWN, problem=_otherwise(f"column {live.name}", reasons))
    if live.type != step.before.type:
        other = (f"type is {live.type}, was {step.before.type} when this was planned",)
        return Standing(Seen.UNKNOWN, problem=_otherwise(f"column {live.name}", other))
    dropped = column_reasons(replace(step.after, type=live.type), live, shape)
    if dropped:
        return Standing(Seen.ABSENT, problem=f"the change of {live.name} would change more than its type: {dropped[0]}")
    return Standing(Seen.ABSENT, step)


def _foreign_key(step: AddForeignKey, shape: Shape) -> Standing:
    key = step.foreign_key
    live = shape.foreign_key(key.name)
    found = _single(step, f"foreign key {key.name}", None if live is None else key_reasons(key, live))
    if found.seen is Seen.ABSENT and not _served(key, shape):
        columns = ", ".join(key.columns)
        return Standing(
            Seen.ABSENT, problem=f"no index of {shape.table} begins with ({columns}): the server would add one"
        )
    return found


def _served(key: ForeignKey, shape: Shape) -> bool:
    """Whether an index begins with the key's columns, whole and in order, so that the server makes none itself."""
    wanted = [c.lower() for c in key.columns]
    for index in shape.indexes:
        first = index.parts[: len(wanted)]
        whole = all(p.expression is None and p.prefix is None for p in first)
        if index.kind.upper() == "BTREE" and whole and [p.column.lower() for p in first] == wanted:
            return True
    return False


def _single(step: ExclusiveDdlStep, what: str, reasons: tuple[str, ...] | None) -> Standing:
    if reasons is None:
        return Standing(Seen.ABSENT, step)
    return Standing(Seen.UNKNOWN, problem=_otherwise(what, reasons)) if reasons else _PRESENT


def _some(left: int, all_: int, step: ExclusiveDdlStep) -> Standing:
    if left == 0:
        return _PRESENT
    return Standing(Seen.ABSENT if left == all_ else Seen.PARTIAL, step)


def _otherwise(what: str, reasons: tuple[str, ...]) -> str:
    return f"{what} is there and is otherwise: {'; '.join(reasons)}"
