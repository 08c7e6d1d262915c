"""Which engine takes which statement of the expand, and what is refused because none may.

The server's own DDL is the first choice wherever it neither rebuilds nor copies the table nor stops writes. What is
dearer needs the runbook's word (``allow_rebuild``, or the waiver ``index-blocks-writes``), and is never chosen in
silence. gh-ost takes the whole change at once, but for what a copy would spoil: a unique index (it would drop duplicate
rows in silence) and foreign keys stay the server's, and come after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from orchestrator.model.chooser import Ground, Statement, choose
from orchestrator.model.clauses import (
    ChangedColumn,
    CheckClause,
    Clause,
    NewColumn,
    NewDefault,
    NewForeignKey,
    NewIndex,
    OtherIndex,
    RenamedColumn,
)
from orchestrator.model.contract import Column, TableName
from orchestrator.model.copying import unquotable
from orchestrator.model.facts import Shape
from orchestrator.model.runbook import Runbook
from orchestrator.model.step import (
    AddCheck,
    AddColumns,
    AddForeignKey,
    AddIndex,
    AddingStep,
    ChangeColumn,
    GhostAlter,
    RenameColumn,
    SetDefault,
    ShowIndex,
)
from orchestrator.model.verdict import Problem, ProblemKind

BLOCKS_WRITES = "index-blocks-writes"


class Division(Struct, frozen=True):
    """The steps in order; ``problems``: what no engine may do as the runbook stands."""

    steps: tuple[AddingStep | GhostAlter, ...]
    problems: tuple[Problem, ...]


def divide(clauses: Sequence[Clause], ground: Ground, runbook: Runbook, family: tuple[TableName, ...]) -> Division:
    """Every wanted clause in exactly one step or problem."""
    statements = choose(clauses, ground)
    dear = tuple(s for s in statements if not _is_native(s, runbook))
    engine = runbook.phases.engine
    copied = tuple(c for c in clauses if _may_be_copied(c))
    wants_copy = (engine == "gh-ost" and copied) or (engine == "auto" and dear)
    if not wants_copy:
        return Division(_steps(statements, runbook, ground, family), _refused(dear, runbook, ground))
    problems = _ghost_problems(dear, runbook, ground)
    if problems:
        return Division(_steps(statements, runbook, ground, family), problems)
    why = "; ".join(f"{_name(s)}: {s.way.reason}" for s in dear) or "the runbook names engine: gh-ost"
    rest = choose([c for c in clauses if c not in copied], ground)
    return Division((_ghost(copied, runbook, family, why), *_steps(rest, runbook, ground, family)), ())


def ghost_obstacle(shape: Shape) -> str:
    """Why gh-ost cannot have the table, in one clause; "" when it can."""
    if shape.foreign_keys or shape.referenced_by:
        names = [f.name for f in shape.foreign_keys] + [f.name for _, f in shape.referenced_by]
        return f"it cannot take a table with foreign keys ({', '.join(names)})"
    if shape.triggers:
        return f"it cannot take a table with triggers ({', '.join(t.name for t in shape.triggers)})"
    parts = (*(c.name for c in shape.columns), *(i.name for i in shape.indexes))
    if unsaid := unquotable((shape.table.schema, shape.table.name, *parts)):
        return unsaid
    return "" if shape.key else f"it needs a unique key without NULL ({shape.key_problem or 'there is none'})"


def _may_be_copied(clause: Clause) -> bool:
    match clause:
        case NewColumn() | ChangedColumn() | NewDefault():
            return True
        case NewIndex(index=index):
            return not index.unique
        case _:
            return False


def _is_native(statement: Statement, runbook: Runbook) -> bool:
    """Whether the server's own DDL may do it as the runbook stands."""
    way = statement.way
    if way.copies:
        return False
    if way.stops_writes:
        return all(isinstance(c, NewIndex) for c in statement.clauses) and runbook.waived(BLOCKS_WRITES) is not None
    return not way.rebuilds or (runbook.phases.engine == "native" and bool(runbook.contract.allow_rebuild))


def _ghost_problems(dear: Sequence[Statement], runbook: Runbook, ground: Ground) -> tuple[Problem, ...]:
    """Why the copy cannot be had: not allowed, or the table cannot have it."""
    if unique := [s for s in dear if not all(_may_be_copied(c) for c in s.clauses)]:
        return _refused(unique, runbook, ground)
    if runbook.phases.engine == "auto":
        return (
            ()
            if runbook.contract.allow_rebuild and not ghost_obstacle(ground.shape)
            else _refused(dear, runbook, ground)
        )
    table = ground.shape.table
    if obstacle := ghost_obstacle(ground.shape):
        return (
            Problem(
                ProblemKind.RUNBOOK,
                "gh-ost-cannot",
                f"engine: gh-ost for {table}: {obstacle}",
                "a table without foreign keys, triggers and quotes in names, with a unique key that has no NULL",
                "say engine: native (plan shows its price), or auto",
            ),
        )
    if not runbook.contract.allow_rebuild:
        return (
            Problem(
                ProblemKind.RUNBOOK,
                "rebuild-not-allowed",
                f"engine: gh-ost copies {table}, and allow_rebuild gives no reason",
                "the reason why the whole table may be copied",
                "say why in contract.allow_rebuild, or say engine: auto",
            ),
        )
    return ()


def _refused(dear: Sequence[Statement], runbook: Runbook, ground: Ground) -> tuple[Problem, ...]:
    return tuple(
        Problem(
            ProblemKind.RUNBOOK,
            BLOCKS_WRITES if _only_stops_writes(s) else "rebuild-not-allowed",
            f"{_name(s)} {_price(s)}: {s.way.reason}",
            "a change that is INSTANT, or INPLACE with LOCK=NONE and without a rebuild",
            "; or ".join(_choices(s, runbook, ground)),
        )
        for s in dear
    )


def _only_stops_writes(statement: Statement) -> bool:
    return statement.way.stops_writes and not statement.way.copies


def _price(statement: Statement) -> str:
    way = statement.way
    if way.copies:
        return "would copy the table, and every write would wait for it (COPY, LOCK=SHARED)"
    if way.stops_writes:
        return f"would make every write wait while it is built ({way})"
    return f"would rebuild the table ({way}: writes go on, every replica stands still as long as it takes)"


def _choices(statement: Statement, runbook: Runbook, ground: Ground) -> list[str]:
    """What the operator can write instead, cheapest first, each with its price."""
    way, choices = statement.way, []
    columns = [c.column for c in statement.clauses if isinstance(c, NewColumn)]
    if any(c.stored for c in columns):
        choices.append("make it VIRTUAL, which is INSTANT")
    if any(c.default is not None and c.default.is_expression and not c.null for c in columns):
        choices.append("let it be NULL: then the column and its default are two INSTANT statements")
    if any(isinstance(c, ChangedColumn) for c in statement.clauses):
        choices.append("make it a new column with a mapping")
    if way.algorithm == "INPLACE" and not way.stops_writes:
        need = "" if runbook.contract.allow_rebuild else " and allow_rebuild: the reason"
        choices.append(f"engine: native{need} (rebuilt in place, the replicas wait, disk for a second table)")
    obstacle = ghost_obstacle(ground.shape)
    unique = any(isinstance(c, NewIndex) and c.index.unique for c in statement.clauses)
    if obstacle:
        choices.append(f"gh-ost is no choice: {obstacle}")
    elif unique:
        choices.append("gh-ost is no choice: its copy would drop duplicate rows in silence")
    else:
        need = "" if runbook.contract.allow_rebuild else "allow_rebuild: the reason, and "
        choices.append(f"{need}engine: auto or gh-ost (copied beside the traffic, disk for a second table)")
    if _only_stops_writes(statement) and all(isinstance(c, NewIndex) for c in statement.clauses):
        choices.append(f"waive {BLOCKS_WRITES} with a reason: then every write waits while it is built")
    return choices


def _name(statement: Statement) -> str:
    return ", ".join(_clause_name(c) for c in statement.clauses)


def _clause_name(clause: Clause) -> str:
    match clause:
        case NewColumn(column=column):
            return f"column {column.name}"
        case ChangedColumn(after=after):
            return f"change of {after.name} to {after.type}"
        case NewIndex(index=index):
            return f"index {index.name}"
        case _:
            return type(clause).__name__


def _ghost(copied: Sequence[Clause], runbook: Runbook, family: tuple[TableName, ...], why: str) -> GhostAlter:
    return GhostAlter(
        table=runbook.table,
        columns=tuple(c.column for c in copied if isinstance(c, NewColumn)),
        changes=tuple((c.before, c.after) for c in copied if isinstance(c, ChangedColumn)),
        indexes=tuple(c.index for c in copied if isinstance(c, NewIndex)),
        family=family,
        why=why,
    )


def _steps(
    statements: Sequence[Statement], runbook: Runbook, ground: Ground, family: tuple[TableName, ...]
) -> tuple[AddingStep, ...]:
    return tuple(_step(s, runbook, ground, family) for s in statements if not s.way.copies)


def _step(statement: Statement, runbook: Runbook, ground: Ground, family: tuple[TableName, ...]) -> AddingStep:
    table, way, settings = runbook.table, statement.way, runbook.phases
    first = statement.clauses[0]
    match first:
        case NewColumn():
            columns = tuple(c.column for c in statement.clauses if isinstance(c, NewColumn))
            return AddColumns(table=table, columns=columns, family=family, way=way)
        case NewDefault(name=name):
            return SetDefault(table=table, column=_defaulted(runbook, name), family=family, way=way)
        case RenamedColumn(name=old, to=new):
            return RenameColumn(table=table, old=old, new=new, family=family, way=way)
        case ChangedColumn(before=before, after=after):
            return ChangeColumn(table=table, before=before, after=after, family=family, way=way)
        case NewIndex(index=index):
            return AddIndex(
                table=table,
                index=index,
                final_lock_budget_s=settings.final_lock_budget_s,
                tries=settings.index_tries,
                family=family,
                way=way,
            )
        case OtherIndex(name=name):
            index = next(i for i in runbook.contract.indexes if i.name == name)
            return ShowIndex(table=table, index=index, family=family, way=way)
        case NewForeignKey(foreign_key=key):
            return AddForeignKey(table=table, foreign_key=key, family=family, way=way)
        case CheckClause(check=check) if check is not None:
            return AddCheck(table=table, check=check, family=family, way=way)
        case _:
            raise AssertionError(f"an expand has no {type(first).__name__}")


def _defaulted(runbook: Runbook, name: str) -> Column:
    return runbook.contract.column(name)
