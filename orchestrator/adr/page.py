"""The record from its title to its end. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.adr.access import matrix, mirror
from orchestrator.adr.diagram import diagram
from orchestrator.adr.fields import fields
from orchestrator.adr.keys import deletes, indexes
from orchestrator.adr.markdown import bullets, code, codes, table
from orchestrator.adr.material import Material, Own, own_words
from orchestrator.adr.procedure import release, rollback
from orchestrator.adr.statements import ddl, prisma
from orchestrator.adr.values import mappings
from orchestrator.adr.words import Words


def page(m: Material, w: Words) -> str:
    """The whole record, ending with one line end. The same material gives the same bytes."""
    own = own_words(m.runbook, w.language)
    sections = (
        (w.context_title, _context(m, w, own)),
        (w.strategy_title, _strategy(m, w, own)),
        (w.fields_title, fields(m, w, own)),
        (w.indexes_title, indexes(m, w, own)),
        (w.deletes_title, deletes(m, w, own)),
        (w.mappings_title, mappings(m, w, own)),
        (w.matrix_title, matrix(m, w)),
        (w.mirror_title, mirror(m, w)),
        (w.diagram_title, diagram(m, w)),
        (w.ddl_title, ddl(m, w)),
        (w.prisma_title, prisma(m, w)),
        (w.release_title, release(m, w)),
        (w.rollback_title, rollback(m, w)),
        (w.open_title, _open(m, w, own)),
    )
    lines = list(_head(m, w, own))
    for number, (title, body) in enumerate(sections, 1):
        lines += [f"## {number}. {title}", "", *body]
    return "\n".join(lines).rstrip("\n") + "\n"


def _head(m: Material, w: Words, own: Own) -> Iterator[str]:
    yield f"<!-- {w.made_by.format(runbook=m.runbook.id, language=w.language)} -->"
    yield ""
    yield f"# {own(m.runbook.decision.title) or m.runbook.id + w.colon + str(m.contract.table)}"
    yield ""
    named = {"runbook": m.runbook.id, "server": m.matrix.server if m.matrix is not None else ""}
    proof = (w.proof_missing if m.matrix is None else w.proof_of).format(**named)
    rows = [
        [w.status, w.refused if m.matrix is not None and m.matrix.refusals else w.frozen],
        [w.rollout, code(m.runbook.id)],
        [w.table, code(str(m.contract.table))],
        [w.model, code(m.model)],
        *([[w.owner, m.runbook.owner]] if m.runbook.owner else []),
        [w.digest, code(m.runbook.digest)],
        [w.proof, proof],
    ]
    yield from table(("", ""), rows)


def _context(m: Material, w: Words, own: Own) -> list[str]:
    contract = m.contract
    counts = {
        "columns": len(contract.columns),
        "changes": len(contract.changes),
        "indexes": len(contract.indexes),
        "keys": len(contract.foreign_keys),
    }
    reason = own(m.runbook.why)
    why = [f"{reason[:1].upper()}{reason[1:]}{w.stop}", ""] if reason else []
    return [*why, *bullets((w.adds.format(**counts), *w.context))]


def _strategy(m: Material, w: Words, own: Own) -> list[str]:
    contract, name = m.contract, m.contract.table.name
    same = m.model == name
    collation = m.before.collation
    return bullets(
        (
            w.table_stays.format(table=code(name), schema=code(contract.table.schema)),
            w.model_same if same else w.model_mapped.format(model=code(m.model), map=code(f'@@map("{name}")')),
            w.copied_once.format(reason=own(contract.allow_rebuild)) if contract.allow_rebuild else w.never_copied,
            w.columns_nullable,
            w.changed.format(columns=codes((c.name for c in contract.changes), w.comma)) if contract.changes else "",
            w.columns_stay.format(count=len(m.stood) - len(contract.renames_in_place)) if m.stood else "",
            *(w.renames[r.way.value].format(old=code(r.old), new=code(r.new)) for r in contract.renames),
            w.keyed.format(columns=codes(m.key, w.comma)) if m.key else "",
            w.collated.format(collation=code(collation)) if collation else "",
        )
    )


def _open(m: Material, w: Words, own: Own) -> list[str]:
    invariants = [[code(i.name), code(i.sql)] for i in m.contract.invariants]
    waivers = [[code(x.rule), own(x.reason), own(x.evidence) or w.none, x.until or w.none] for x in m.runbook.waivers]
    lines = [w.invariants, "", *table(w.invariant_head, invariants)] if invariants else []
    lines += [w.waivers, "", *table(w.waiver_head, waivers)] if waivers else [w.no_waivers, ""]
    return [*lines, *bullets(w.later)]
