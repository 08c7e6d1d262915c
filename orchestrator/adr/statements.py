"""The DDL with the lock that each statement takes, and the Prisma schema. Pure."""

from __future__ import annotations

from orchestrator.adr.markdown import bullets, code, codes, fenced, table
from orchestrator.adr.material import Material
from orchestrator.adr.words import Words, moment
from orchestrator.model.step import (
    AddCheck,
    AddColumns,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    CountDuplicates,
    ExclusiveDdlStep,
    GhostAlter,
    ProveForeignKey,
    RenameColumn,
    SetDefault,
    ShowIndex,
    Step,
)


def ddl(m: Material, w: Words) -> list[str]:
    """Each statement in the order in which it runs, its algorithm and its locks; then the text of all."""
    rows = [[str(n), *_locks(p.step, m, w)] for n, p in enumerate(m.ddl, 1)]
    for n, trigger in enumerate(m.triggers, len(rows) + 1):
        lock = w.lock_moment.format(budget=_budget(m))
        rows.append([str(n), w.step_trigger.format(name=code(trigger)), w.none, w.rows_free, lock])
    lines = [w.ddl_intro, "", *table(w.ddl_head, rows), *bullets(_risks(m, w))]
    text = [line for n, p in enumerate(m.ddl, 1) for line in (f"-- {n}", *(f"{sql};" for sql in p.sql))]
    return [*lines, *fenced("sql", "\n".join(text))] if text else lines


def _risks(m: Material, w: Words) -> list[str]:
    settings = m.runbook.phases
    families = (p.step.family for p in m.ddl if isinstance(p.step, ExclusiveDdlStep | GhostAlter))
    builds = any(isinstance(p.step, AddIndex) for p in m.ddl)
    build = {"budget": moment(settings.final_lock_budget_s), "tries": settings.index_tries}
    return [
        w.risk_queue.format(budget=_budget(m), tables=codes((t.name for t in next(families, ())), w.comma)),
        w.risk_build.format(**build) if builds else "",
        w.risk_replica if builds else "",
        w.risk_snapshot,
        w.risk_trial,
    ]


def _budget(m: Material) -> str:
    return moment(m.runbook.limits.stall_budget_s)


def _locks(step: Step, m: Material, w: Words) -> list[str]:
    """What it is, the algorithm that it names, what becomes of reads and writes, its metadata lock."""
    named, budget = _named(step, w), _budget(m)
    match step:
        case AddIndex():
            rows = w.rows_stopped if step.way.stops_writes else w.rows_online
            end = moment(step.final_lock_budget_s)
            return [named, code(str(step.way)), rows, w.lock_ends.format(budget=budget, end=end)]
        case GhostAlter():
            return [named, code("gh-ost"), w.rows_copied, w.lock_cut_over.format(budget=budget)]
        case AddForeignKey(foreign_key=key):
            tables = codes(dict.fromkeys((step.table.name, key.references.name)), w.comma)
            return [named, code(str(step.way)), w.rows_declared, w.lock_tables.format(budget=budget, tables=tables)]
        case _ if isinstance(step, ExclusiveDdlStep):
            rows = w.rows_rebuilt if step.way.rebuilds else w.rows_free
            return [named, code(str(step.way)), rows, w.lock_moment.format(budget=budget)]
        case _:
            return [named, w.none, w.rows_read, w.lock_none]


def _named(step: Step, w: Words) -> str:
    """The kind of step, and of what."""
    template = w.steps[step.kind]
    match step:
        case AddColumns():
            return template.format(count=len(step.columns))
        case GhostAlter():
            return template.format(count=len(step.columns) + len(step.changes) + len(step.indexes))
        case SetDefault():
            return template.format(name=code(step.column.name))
        case RenameColumn():
            return template.format(name=f"{code(step.old)} → {code(step.new)}")
        case ChangeColumn():
            return template.format(name=code(step.after.name))
        case AddIndex() | ShowIndex() | CountDuplicates():
            return template.format(name=code(step.index.name))
        case AddForeignKey() | ProveForeignKey():
            return template.format(name=code(step.foreign_key.name))
        case AddCheck():
            return template.format(name=code(step.check.name))
        case _:
            return template


def prisma(m: Material, w: Words) -> list[str]:
    """The schema as Prisma's own engine takes it."""
    told = w.prisma_intro.format(model=code(m.model), table=code(m.contract.table.name))
    return [told, "", *fenced("prisma", m.prisma)]
