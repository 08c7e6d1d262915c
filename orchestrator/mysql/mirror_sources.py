"""What a mirror must see of the columns that it reads: every change, also by a foreign key's cascade."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orchestrator.model.contract import Contract, Expression, Mapping
from orchestrator.model.facts import Shape
from orchestrator.model.verdict import Problem, ProblemKind
from orchestrator.mysql.columns import columns_after_ddl
from orchestrator.mysql.expression import Columns
from orchestrator.mysql.tokens import TokenKind, tokenise

_DELETE_CHANGES = frozenset(["SET NULL", "SET DEFAULT"])
_UPDATE_CHANGES = _DELETE_CHANGES | {"CASCADE"}


def cascade_problems(contract: Contract, shape: Shape, unseen: str) -> Sequence[Problem]:
    """Sources of a mirror that a foreign key's cascade can change, where ``unseen`` says why no mirror sees that: what
    is mirrored from them goes stale. A derived column that is filled once is no mirror."""
    columns = columns_after_ddl(contract, shape)
    return [p for mapping in contract.mappings for p in _cascades(mapping, contract, shape, columns, unseen)]


def _cascades(mapping: Mapping, contract: Contract, shape: Shape, columns: Columns, unseen: str) -> Iterator[Problem]:
    if not (mapping.is_pair or mapping.follows):
        return
    watched = {(mapping.old or "").lower()}
    for transform in (mapping.forward, mapping.backward):
        if isinstance(transform, Expression):
            watched |= _names(transform.sql) & set(columns)
    for key in {k.name: k for k in (*shape.foreign_keys, *contract.foreign_keys)}.values():
        changes = key.on_delete.upper() in _DELETE_CHANGES or key.on_update.upper() in _UPDATE_CHANGES
        hit = [c for c in key.columns if c.lower() in watched]
        if hit and changes:
            yield Problem(
                ProblemKind.RUNBOOK,
                "cascade-unseen",
                f"{mapping}: the foreign key {key.name} can change {hit[0]} by a cascade that no mirror sees: {unseen}",
                "source columns that only statements on this table change; or triggers, on a server that fires them for"
                " cascades in every session (enable_cascade_triggers ON, innodb_native_foreign_keys OFF: from 9.7 on)",
                "SET PERSIST enable_cascade_triggers = ON where the server has it, once you know what other triggers it"
                " wakes, and let every client connect anew; or waive cascade-unseen with a reason: such rows are drift"
                " until rollout verify --repair fills them",
            )


def _names(clause: str) -> set[str]:
    try:
        return {t.identifier for t in tokenise(clause) if t.kind in (TokenKind.NAME, TokenKind.QUOTED)}
    except ValueError:
        return set()
